package placementsim

import (
	"encoding/json"
	"net/http"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

// maxKeptBuffer is the longest answer whose memory is reused, in bytes.
const maxKeptBuffer = 8 << 20

// written answers with the JSON that write appends to memory that is used again.
func (c *call) written(write func(b []byte) ([]byte, error)) error {
	buffer, _ := c.server.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	body, err := write((*buffer)[:0])
	if err != nil {
		return err
	}
	simhttp.WriteBody(c.W, http.StatusOK, "application/json", body)
	if cap(body) <= maxKeptBuffer {
		*buffer = body
		c.server.buffers.Put(buffer)
	}
	return nil
}

func comma(b []byte, i int) []byte {
	if i > 0 {
		return append(b, ", "...)
	}
	return b
}

// appendName writes a name that needs no escapes in quotes, and what follows it.
func appendName(b []byte, name, next string) []byte {
	b = append(b, '"')
	b = append(b, name...)
	return append(b, next...)
}

// listing is a JSON object whose members are in order: clients show them as they come.
type listing[V any] []listed[V]

type listed[V any] struct {
	key   string
	value V
}

func (l *listing[V]) add(key string, value V) { *l = append(*l, listed[V]{key, value}) }

// MarshalJSON implements json.Marshaler.
func (l listing[V]) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range l {
		if i > 0 {
			b = append(b, ',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, key...), ':'), value...)
	}
	return append(b, '}'), nil
}
