package schema

import (
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// checker checks a value, and keeps the one violation to be reported.
type checker struct {
	isUUID func(string) bool
	path   []string // to the value being checked
	worst  *violation
}

func (c *checker) report(n *node, keyword string, value any, names ...string) {
	if c.worst != nil && len(c.path) > len(c.worst.path) {
		return
	}
	v := &violation{node: n, keyword: keyword, path: slices.Clone(c.path), value: value, names: names}
	if c.worst == nil || v.compare(c.worst) < 0 {
		c.worst = v
	}
}

// check checks a value. One of the wrong type or format is not checked further.
func (c *checker) check(n *node, value any) {
	if len(n.types) > 0 && !slices.ContainsFunc(n.types, func(want string) bool { return isOf(value, want) }) {
		c.report(n, keywordType, value)
		return
	}
	switch v := value.(type) {
	case string:
		if n.uuid && !c.isUUID(v) {
			c.report(n, keywordFormat, value)
			return
		}
		c.checkText(n, v)
	case int64:
		c.checkNumber(n, value, float64(v))
	case float64:
		c.checkNumber(n, value, v)
	case []any:
		c.checkList(n, v)
	case map[string]any:
		c.checkObject(n, v)
	}
}

// isOf reports whether a value is of a type. A number without a fraction is an integer,
// however it is written.
func isOf(value any, want string) bool {
	switch v := value.(type) {
	case nil:
		return want == "null"
	case bool:
		return want == "boolean"
	case string:
		return want == "string"
	case int64:
		return want == "integer" || want == "number"
	case float64:
		return want == "number" || (want == "integer" && v == math.Trunc(v))
	case []any:
		return want == "array"
	case map[string]any:
		return want == "object"
	}
	return false
}

func (c *checker) checkText(n *node, text string) {
	if n.minRunes > 0 || n.maxRunes < len(text) {
		switch count := utf8.RuneCountInString(text); {
		case count < n.minRunes:
			c.report(n, keywordMinLength, text)
		case count > n.maxRunes:
			c.report(n, keywordMaxLength, text)
		}
	}
	if n.pattern != nil && !n.pattern.matches(text) {
		c.report(n, keywordPattern, text)
	}
}

func (c *checker) checkNumber(n *node, value any, number float64) {
	switch {
	case number < n.minimum:
		c.report(n, keywordMinimum, value)
	case number > n.maximum:
		c.report(n, keywordMaximum, value)
	}
}

func (c *checker) checkList(n *node, list []any) {
	if len(list) < n.minItems {
		c.report(n, keywordMinItems, list)
	}
	if n.unique && !distinct(list) {
		c.report(n, keywordUnique, list)
	}
	if n.items == nil {
		return
	}
	for i, item := range list {
		c.path = append(c.path, strconv.Itoa(i))
		c.check(n.items, item)
		c.path = c.path[:len(c.path)-1]
	}
}

// distinct reports whether the items differ. Numbers are compared by value.
func distinct(list []any) bool {
	seen := make(map[string]struct{}, len(list))
	for _, item := range list {
		key, isText := item.(string)
		if !isText {
			if f, ok := item.(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
				item = int64(f)
			}
			key = "\x00" + Repr(item)
		}
		if _, again := seen[key]; again {
			return false
		}
		seen[key] = struct{}{}
	}
	return true
}

func (c *checker) checkObject(n *node, object map[string]any) {
	if len(object) < n.minMembers {
		c.report(n, keywordMinProperties, object)
	}
	var missing, unknown []string
	for _, name := range n.required {
		if _, there := object[name]; !there {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		c.report(n, keywordRequired, object, missing...)
	}
	for name, value := range object {
		if !c.checkMember(n, name, value) && n.closed {
			unknown = append(unknown, name)
		}
	}
	if unknown != nil {
		c.report(n, keywordAdditional, object, unknown...)
	}
}

// checkMember checks a member by all schemas that are about it. It reports whether there is
// one.
func (c *checker) checkMember(n *node, name string, value any) (known bool) {
	c.path = append(c.path, name)
	defer func() { c.path = c.path[:len(c.path)-1] }()
	if member := n.members[name]; member != nil {
		c.check(member, value)
		known = true
	}
	for _, p := range n.patterns {
		if p.name.matches(name) {
			c.check(p.node, value)
			known = true
		}
	}
	if !known && n.additional != nil {
		c.check(n.additional, value)
		known = true
	}
	return known
}
