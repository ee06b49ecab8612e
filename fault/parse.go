package fault

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ParseRules reads a JSON array of rules. Unknown fields, invalid rules and data after the
// array are errors that match [ErrRule]. [Set.Set] checks the operations.
func ParseRules(data []byte) ([]Rule, error) {
	var rules []Rule
	if err := json.Unmarshal(data, &rules); err != nil {
		if !errors.Is(err, ErrRule) {
			err = fmt.Errorf("%w: not a list of rules: %w", ErrRule, err)
		}
		return nil, err
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
