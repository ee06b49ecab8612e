package tables

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/gocyborg/gocyborg/sim"
)

// SchemaVersion is the version of the form of documents and state files. Version 1 was one
// JSON object per service.
const SchemaVersion = 2

// maxLine is how long the header or a record of a document may be, in bytes. A document may
// have any number of them.
const maxLine = 256 << 20

// Header is the first line of a document.
type Header struct {
	SchemaVersion int             `json:"schema_version"`
	Model         json.RawMessage `json:"model"`
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
// errors match [sim.ErrRecords], unless they are those of the reader, and name the line.
func ReadDocument(r io.Reader) (Header, iter.Seq2[sim.Record, error], error) {
	lines := &lineReader{in: bufio.NewReaderSize(r, 64<<10), longest: maxLine}
	var h Header
	if err := lines.next(&h); err != nil && !errors.Is(err, io.EOF) {
		return h, nil, err
	}
	if err := h.check(); err != nil {
		return h, nil, err
	}
	return h, func(yield func(sim.Record, error) bool) {
		for {
			var r sim.Record
			err := lines.next(&r)
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
}

// next decodes the next line, or returns io.EOF.
func (l *lineReader) next(into any) error {
	for {
		l.n++
		line, err := l.read()
		line = bytes.TrimSpace(line)
		switch {
		case err != nil && !errors.Is(err, io.EOF), len(line) == 0 && err != nil:
			return err
		case len(line) > 0:
			return sim.Record{Table: "line", Key: strconv.Itoa(l.n), Row: line}.Decode(into)
		}
	}
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
