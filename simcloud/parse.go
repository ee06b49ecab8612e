package simcloud

import (
	"encoding/json"
	"fmt"
)

// ParseModel reads a model from JSON and validates it, as Validate does with the options. It refuses
// unknown fields and fields of a wrong type; the error matches [ErrModel] and names the path of the
// field, such as hosts[0].sysfs.devices[2].address.
func ParseModel(data []byte, opts ...Option) (Model, error) {
	m, err := decodeModel(data)
	if err != nil {
		return Model{}, err
	}
	return m, m.Validate(opts...)
}

func decodeModel(data []byte) (Model, error) {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return Model{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	var m Model
	if err := m.UnmarshalJSON(whole); err != nil {
		return Model{}, fmt.Errorf("%w: %w", ErrModel, err)
	}
	return m, nil
}
