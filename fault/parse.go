package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ParseRules reads a list of rules as the simulators take it over HTTP and from files: a
// JSON array. Unknown fields, rules that make no sense and anything behind the list are
// refused; the error matches [ErrRule]. Whether the operations are known, a [Set] says.
func ParseRules(data []byte) ([]Rule, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	var rules []Rule
	if err := dec.Decode(&rules); err != nil {
		if !errors.Is(err, ErrRule) {
			err = fmt.Errorf("%w: not a list of rules: %w", ErrRule, err)
		}
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the list", ErrRule)
	}
	if rules == nil {
		return nil, fmt.Errorf("%w: null is no list of rules", ErrRule)
	}
	for i, rule := range rules {
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return rules, nil
}
