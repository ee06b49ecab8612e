package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/gocyborg/gocyborg/sim"
)

// SchemaVersion is the version of the form of documents and state files. Version 1 was one
// JSON object per service.
const SchemaVersion = 2

// maxLine is the maximum length of the header or a record of a document, in bytes: enough for an
// image of 256 MiB in base64. A document may have any number of records.
const maxLine = 384 << 20

// Header is the first line of a document.
type Header struct {
	SchemaVersion int             `json:"schema_version"`
	Model         json.RawMessage `json:"model"`
}

// decodeHeader decodes the header of a state. The version decides what else may be in it.
func decodeHeader(r sim.Record) (h Header, err error) {
	var of struct {
		SchemaVersion int `json:"schema_version"`
	}
	if json.Unmarshal(r.Row, &of) == nil && of.SchemaVersion > SchemaVersion {
		return h, Header{SchemaVersion: of.SchemaVersion}.check()
	}
	if err := r.Decode(&h); err != nil {
		return h, err
	}
	return h, h.check()
}

func (h Header) check() error {
	switch {
	case h.SchemaVersion == 1:
		return fmt.Errorf("%w: schema_version 1, the form of an earlier release, cannot be read; start from a model, or use that release", sim.ErrRecords)
	case h.SchemaVersion != SchemaVersion:
		return fmt.Errorf("%w: schema_version %d, want %d", sim.ErrRecords, h.SchemaVersion, SchemaVersion)
	case len(h.Model) == 0:
		return fmt.Errorf("%w: the header has no model", sim.ErrRecords)
	}
	return nil
}

// WriteDocument writes a state as JSON lines: a [Header], then each record. The same
// records give the same bytes.
func WriteDocument(w io.Writer, model json.RawMessage, records iter.Seq2[sim.Record, error]) error {
	buffered := bufio.NewWriter(w)
	enc := json.NewEncoder(buffered)
	if err := enc.Encode(Header{SchemaVersion, model}); err != nil {
		return err
	}
	for r, err := range records {
		if err != nil {
			return err
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return buffered.Flush()
}

// ReadDocument reads a document's header, and its records while they are iterated over. The
// errors match [sim.ErrRecords], unless they are errors of the reader, and name the line.
func ReadDocument(r io.Reader) (Header, iter.Seq2[sim.Record, error], error) {
	lines := &lineReader{in: bufio.NewReaderSize(r, 64<<10), longest: maxLine}
	h, err := lines.header()
	if err != nil {
		return h, nil, err
	}
	return h, func(yield func(sim.Record, error) bool) {
		for {
			r, err := lines.record()
			if errors.Is(err, io.EOF) || !yield(r, err) || err != nil {
				return
			}
		}
	}, nil
}

// lineReader reads a JSON object from each line that is not empty.
type lineReader struct {
	in      *bufio.Reader
	longest int // in bytes
	n       int
	line    []byte // the memory of lines
	rows    arena
	table   string // of the last record
}

// header decodes the first line, which may be missing.
func (l *lineReader) header() (Header, error) {
	line, err := l.text()
	if errors.Is(err, io.EOF) {
		return Header{}, Header{}.check()
	}
	if err != nil {
		return Header{}, err
	}
	return decodeHeader(l.recordOf(line))
}

func (l *lineReader) recordOf(line []byte) sim.Record {
	return sim.Record{Table: "line", Key: strconv.Itoa(l.n), Row: line}
}

// record decodes the next line, or returns io.EOF. A record as WriteDocument writes it is cut
// into its parts, which costs a small part of decoding it.
func (l *lineReader) record() (r sim.Record, err error) {
	line, err := l.text()
	if err != nil {
		return r, err
	}
	table, rest, ok1 := cutText(line, `{"table":"`)
	key, rest, ok2 := cutText(rest, `,"key":"`)
	rest, ok3 := bytes.CutPrefix(rest, []byte(`,"row":`))
	row, ok4 := bytes.CutSuffix(rest, []byte("}"))
	if !ok1 || !ok2 || !ok3 || !ok4 || !json.Valid(row) {
		err = l.recordOf(line).Decode(&r)
		return r, err
	}
	if string(table) != l.table {
		l.table = string(table)
	}
	return sim.Record{Table: l.table, Key: string(key), Row: l.rows.clone(row)}, nil
}

// cutText returns what is between a prefix and the next quote, and what follows that. It
// takes no text with an escape or an accent.
func cutText(from []byte, prefix string) (text, rest []byte, ok bool) {
	rest, ok1 := bytes.CutPrefix(from, []byte(prefix))
	text, rest, ok2 := bytes.Cut(rest, []byte{'"'})
	unusual := slices.ContainsFunc(text, func(c byte) bool { return c < ' ' || c > '~' || c == '\\' })
	return text, rest, ok1 && ok2 && !unusual
}

// text returns the next line that is not empty, which is valid until the next call, or io.EOF.
func (l *lineReader) text() ([]byte, error) {
	for {
		l.n++
		line, err := l.read()
		line = bytes.TrimSpace(line)
		switch {
		case err != nil && !errors.Is(err, io.EOF), len(line) == 0 && err != nil:
			return nil, err
		case len(line) > 0:
			return line, nil
		}
	}
}

// arena is memory for many small texts.
type arena struct{ free []byte }

const arenaPiece = 64 << 10 // bytes

// clone returns a copy of a text that nothing is appended to.
func (a *arena) clone(text []byte) []byte {
	if len(text) > len(a.free) {
		if len(text) > arenaPiece/8 {
			return bytes.Clone(text)
		}
		a.free = make([]byte, arenaPiece)
	}
	n := copy(a.free, text)
	copied := a.free[:n:n]
	a.free = a.free[n:]
	return copied
}

// read returns the next line, which is valid until the next call.
func (l *lineReader) read() ([]byte, error) {
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		if l.line = append(l.line, part...); len(l.line) > l.longest {
			return nil, fmt.Errorf("%w: line %d is longer than %d bytes", sim.ErrRecords, l.n, l.longest)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.line, err
		}
	}
}
