package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/gocyborg/gocyborg/internal/terminal"
)

// ReadFile reads a file of at most limit bytes; see Read.
func ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	return Read(ctx, name, func() ([]byte, error) {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return ReadAll(file, name, limit)
	})
}

// Read calls a function that opens and reads a file, and returns an error when the context ends before that: a pipe may
// have no writer. The function goes on then.
func Read[T any](ctx context.Context, name string, read func() (T, error)) (data T, err error) {
	ended := make(chan error, 1)
	var result T
	go func() {
		var err error
		result, err = read()
		ended <- err
	}()
	select {
	case err := <-ended:
		return result, err
	case <-ctx.Done():
		return data, fmt.Errorf("%s: interrupted while it was read", name)
	}
}

// ReadAll reads to the end, which must come within limit bytes; the name is for errors.
func ReadAll(from io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return data, err
}

// ParseFile reads the file that a flag names and parses it. The error is bad input and
// names the flag and the file.
func ParseFile[T any](ctx context.Context, flag, name string, limit int64, parse func([]byte) (T, error)) (value T, err error) {
	data, err := ReadFile(ctx, name, limit)
	if err != nil {
		return value, BadInput(fmt.Errorf("--%s: %w", flag, err))
	}
	if value, err = parse(data); err != nil {
		return value, BadInput(fmt.Errorf("--%s %s: %w", flag, name, err))
	}
	return value, nil
}

// CheckOutput refuses a name for WriteFile that exists and is not a regular file. The error
// is bad input and names the flag.
func CheckOutput(flag, name string) error {
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return BadInput(fmt.Errorf("--%s: %s is not a regular file", flag, name))
	}
	return nil
}

// WriteFile replaces the file that an argument such as --to or <file> names: a reader sees the old content or the new
// one, never a part. Only the user may read it. The error is bad input and names the argument.
func WriteFile(argument, name string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".cysim-*") // mode 0600
	if err == nil {
		defer os.Remove(temporary.Name()) // renamed already if all went well
		_, err = temporary.Write(data)
		err = errors.Join(err, temporary.Close())
	}
	if err == nil {
		err = os.Rename(temporary.Name(), name)
	}
	if err != nil {
		return BadInput(fmt.Errorf("%s: %w", argument, err))
	}
	return nil
}

// WriteJSON writes a value as indented JSON.
func WriteJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// NewTable returns a table without borders. A header is optional.
func NewTable(header ...any) table.Writer {
	t := table.NewWriter()
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.SuppressTrailingSpaces()
	if len(header) > 0 {
		t.AppendHeader(header)
	}
	return t
}

// WriteTable writes a list as indented JSON if the output format is json, else as a table with one
// row for each item, or the text empty if there are no items.
func WriteTable[T any](w io.Writer, output, empty string, list []T, header []any, row func(T) []any) error {
	if output == "json" {
		return WriteJSON(w, append([]T{}, list...)) // not null
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, empty)
		return err
	}
	t := NewTable(header...)
	for _, item := range list {
		t.AppendRow(row(item))
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}

// WriteList writes a list as indented JSON if the output format is json, else one line for
// each item.
func WriteList[T any](w io.Writer, output string, list []T, line func(T) string) error {
	if output == "json" {
		return WriteJSON(w, append([]T{}, list...)) // not null
	}
	for _, item := range list {
		if _, err := fmt.Fprintln(w, terminal.Line(line(item))); err != nil {
			return err
		}
	}
	return nil
}
