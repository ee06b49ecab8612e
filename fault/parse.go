package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// ParseRules reads a JSON array of rules. Unknown fields, invalid rules and data after the
// array are errors that match [ErrRule]. [Set.Set] checks the operations.
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
		return nil, fmt.Errorf("%w: null is not a list of rules", ErrRule)
	}
	for i, rule := range rules {
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	return rules, nil
}
