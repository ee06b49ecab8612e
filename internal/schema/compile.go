package schema

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
)

// The keywords of JSON schemas that are known here.
const (
	keywordSchema        = "$schema"
	keywordType          = "type"
	keywordFormat        = "format"
	keywordProperties    = "properties"
	keywordPatterns      = "patternProperties"
	keywordAdditional    = "additionalProperties"
	keywordRequired      = "required"
	keywordMinProperties = "minProperties"
	keywordItems         = "items"
	keywordMinItems      = "minItems"
	keywordUnique        = "uniqueItems"
	keywordMinLength     = "minLength"
	keywordMaxLength     = "maxLength"
	keywordPattern       = "pattern"
	keywordMinimum       = "minimum"
	keywordMaximum       = "maximum"
)

// node is a compiled schema, or a part of one. What a schema does not say is its zero value,
// or a limit that nothing exceeds.
type node struct {
	place    []string       // from the root of the schema
	keywords map[string]any // as written

	types  []string // in the order written; none: any
	uuid   bool
	unique bool

	members    map[string]*node
	patterns   []patternNode
	closed     bool  // no other members
	additional *node // of other members
	required   []string
	items      *node

	minMembers, minItems int
	minRunes, maxRunes   int
	pattern              *pattern
	minimum, maximum     float64
}

// patternNode is the schema of the members whose names match.
type patternNode struct {
	name *pattern
	node *node
}

// compile reads a schema.
func compile(doc any, place []string) (*node, error) {
	keywords, ok := doc.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("schema%s is not an object", brackets(place))
	}
	n := &node{place: place, keywords: keywords, maxRunes: math.MaxInt, minimum: math.Inf(-1), maximum: math.Inf(1)}
	for keyword, value := range keywords {
		if err := n.set(keyword, value); err != nil {
			return nil, fmt.Errorf("schema%s: %s: %w", brackets(place), keyword, err)
		}
	}
	slices.SortFunc(n.patterns, func(a, b patternNode) int { return slices.Compare(a.node.place, b.node.place) })
	return n, nil
}

func (n *node) set(keyword string, value any) (err error) {
	switch keyword {
	case keywordSchema:
	case keywordType:
		n.types = texts(value)
	case keywordFormat:
		if n.uuid = value == "uuid"; !n.uuid {
			err = fmt.Errorf("%v is not known", value)
		}
	case keywordProperties, keywordPatterns:
		err = n.setMembers(keyword, value)
	case keywordAdditional:
		if value == false {
			n.closed = true
		} else if value != true {
			n.additional, err = n.part(value, keyword)
		}
	case keywordRequired:
		n.required = texts(value)
	case keywordItems:
		n.items, err = n.part(value, keyword)
	case keywordUnique:
		n.unique = value == true
	case keywordPattern:
		n.pattern, err = newPattern(fmt.Sprint(value))
	default:
		err = n.setLimit(keyword, value)
	}
	return err
}

func (n *node) setMembers(keyword string, value any) error {
	parts, _ := value.(map[string]any)
	for name, part := range parts {
		child, err := n.part(part, keyword, name)
		if err != nil {
			return err
		}
		if keyword == keywordProperties {
			if n.members == nil {
				n.members = make(map[string]*node, len(parts))
			}
			n.members[name] = child
			continue
		}
		p, err := newPattern(name)
		if err != nil {
			return err
		}
		n.patterns = append(n.patterns, patternNode{p, child})
	}
	return nil
}

func (n *node) part(value any, steps ...string) (*node, error) {
	return compile(value, slices.Concat(n.place, steps))
}

func (n *node) setLimit(keyword string, value any) error {
	limit, ok := asNumber(value)
	if !ok {
		return fmt.Errorf("%v is not a number", value)
	}
	switch keyword {
	case keywordMinProperties:
		n.minMembers = int(limit)
	case keywordMinItems:
		n.minItems = int(limit)
	case keywordMinLength:
		n.minRunes = int(limit)
	case keywordMaxLength:
		n.maxRunes = int(limit)
	case keywordMinimum:
		n.minimum = limit
	case keywordMaximum:
		n.maximum = limit
	default:
		return fmt.Errorf("the keyword is not known")
	}
	return nil
}

// texts reads a string, or a list of strings.
func texts(value any) []string {
	if one, ok := value.(string); ok {
		return []string{one}
	}
	var list []string
	items, _ := value.([]any)
	for _, item := range items {
		list = append(list, fmt.Sprint(item))
	}
	return list
}

func asNumber(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// pattern is a regular expression. One of the form ^[A-Z]+$ or ^[A-Z]{3}$, as nearly all are,
// is a set of characters and a length.
type pattern struct {
	slow     *regexp.Regexp // nil: the set
	allowed  [128]bool
	min, max int // max -1: none
}

func newPattern(text string) (*pattern, error) {
	slow, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	p := &pattern{slow: slow}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil || tree.Op != syntax.OpConcat || len(tree.Sub) != 3 || tree.Sub[0].Op != syntax.OpBeginText || tree.Sub[2].Op != syntax.OpEndText {
		return p, nil
	}
	switch repeated := tree.Sub[1]; repeated.Op {
	case syntax.OpPlus:
		p.min, p.max = 1, -1
	case syntax.OpRepeat:
		p.min, p.max = repeated.Min, repeated.Max
	default:
		return p, nil
	}
	set := tree.Sub[1].Sub[0]
	if set.Op != syntax.OpCharClass || set.Rune[len(set.Rune)-1] >= rune(len(p.allowed)) {
		return p, nil
	}
	for i := 0; i < len(set.Rune); i += 2 {
		for r := set.Rune[i]; r <= set.Rune[i+1]; r++ {
			p.allowed[r] = true
		}
	}
	p.slow = nil
	return p, nil
}

func (p *pattern) matches(text string) bool {
	if p.slow != nil {
		return p.slow.MatchString(text)
	}
	if len(text) < p.min || (p.max >= 0 && len(text) > p.max) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; c >= byte(len(p.allowed)) || !p.allowed[c] {
			return false
		}
	}
	return true
}
