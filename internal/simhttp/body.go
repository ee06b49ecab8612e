package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// MaxBody is the longest request body that a simulated service reads, in bytes.
const MaxBody = 4 << 20

// ErrBodyTooLarge is returned by ReadBody for a body over MaxBody.
var ErrBodyTooLarge = errors.New("request body is larger than 4 MiB")

// ReadBody reads the whole request body, up to MaxBody. The caller does not change what it returns.
func ReadBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > MaxBody {
		return nil, ErrBodyTooLarge
	}
	if known, ok := r.Body.(*received); ok && known.Len() == len(known.data) && known.Len() <= MaxBody {
		_, err := known.Seek(0, io.SeekEnd)
		return known.data, err
	}
	data, err := httpbounds.ReadAll(io.LimitReader(r.Body, MaxBody+1), r.ContentLength)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBody {
		return nil, ErrBodyTooLarge
	}
	return data, nil
}

// bufferBody reads the body of a request as far as a service would, and puts it back. It returns
// nil if there is no body, if the route does not read it as JSON, or if its announced length is
// too large: a client that waits for 100 Continue need not send it.
func bufferBody(r *http.Request, match Match) []byte {
	if r.Body == nil || r.Body == http.NoBody || match.Route == nil || match.Route.Data || r.ContentLength > MaxBody {
		return nil
	}
	if known, ok := r.Body.(*received); ok {
		return known.data[:min(len(known.data), MaxBody+1)]
	}
	data, err := httpbounds.ReadAll(io.LimitReader(r.Body, MaxBody+1), r.ContentLength)
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failingReader{err}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), rest), r.Body}
	return data
}

// received is a body that was read whole. Its data stay as they are.
type received struct {
	bytes.Reader
	data []byte
	from io.Closer // nil: nothing to close
}

func newReceived(data []byte) *received {
	r := &received{data: data}
	r.Reset(data)
	return r
}

// Received is a body whose data were read already. Closing it closes the body they were read from.
func Received(data []byte, from io.Closer) io.ReadCloser {
	r := newReceived(data)
	r.from = from
	return r
}

// Close implements io.Closer.
func (r *received) Close() error {
	if r.from == nil {
		return nil
	}
	return r.from.Close()
}

// failingReader is the end of a body that was cut off.
type failingReader struct{ err error }

// Read implements io.Reader.
func (f failingReader) Read([]byte) (int, error) { return 0, f.err }

// usualBody is more than most answers are long, in bytes.
const usualBody = 512

// WriteJSON answers with a JSON body and its length. In the body <, > and & are written as
// they are, as Python does: clients search the texts of errors for them.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	if line, ok := encode(w, value); ok {
		WriteBody(w, status, "application/json", bytes.TrimSuffix(line, []byte("\n")))
	}
}

// WriteControl answers a route under /_sim/ like WriteJSON, with a newline at the end: people read it in a terminal.
func WriteControl(w http.ResponseWriter, status int, body map[string]any) {
	if line, ok := encode(w, body); ok {
		WriteBody(w, status, "application/json", line)
	}
}

// encode returns a value as a line of JSON. One that cannot be encoded is answered 500.
func encode(w http.ResponseWriter, value any) (line []byte, ok bool) {
	buf := bytes.NewBuffer(make([]byte, 0, usualBody))
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil, false
	}
	return buf.Bytes(), true
}

// AppendText appends a JSON string to b. As in WriteJSON, <, > and & are written as they are.
func AppendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendEscaped(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

func appendEscaped(b []byte, text string) []byte {
	w := bytes.NewBuffer(b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text always encodes
	return bytes.TrimSuffix(w.Bytes(), []byte("\n"))
}

// WriteBody answers with a body of a content type.
func WriteBody(w http.ResponseWriter, status int, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller may be gone
}

// WriteEmpty answers with a status and no body.
func WriteEmpty(w http.ResponseWriter, status int) {
	if status != http.StatusNoContent {
		w.Header().Set("Content-Length", "0")
	}
	w.WriteHeader(status)
}
