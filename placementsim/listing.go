package placementsim

import "encoding/json"

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
