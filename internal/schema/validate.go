package schema

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// node is a compiled schema.
type node struct {
	doc   *Object
	rules []rule // in the order of the keywords in the document
}

// rule is a keyword with what it demands.
type rule struct {
	keyword any // a string, as a place holds it
	check   func(r *run, n *node, value any)
}

// run collects what is wrong with a value. Its paths lead to the part that is being checked.
type run struct {
	library     Library
	path, place []any // in the value and in the schema; int or string
	found       []*failure
}

// failure is one thing that is wrong.
type failure struct {
	path, place []any
	node        *node
	value       any
	phrase      func() string
	context     []*failure // failures of the alternatives if none allows the value
}

func (n *node) check(r *run, value any) {
	for i := range n.rules {
		r.place = append(r.place, n.rules[i].keyword)
		n.rules[i].check(r, n, value)
		r.place = r.place[:len(r.place)-1]
	}
}

// descend checks a part of a value against a part of a schema.
func (r *run) descend(n *node, value any, step, place any) {
	r.path, r.place = append(r.path, step), append(r.place, place)
	n.check(r, value)
	r.path, r.place = r.path[:len(r.path)-1], r.place[:len(r.place)-1]
}

func (r *run) fail(n *node, value any, phrase func() string) *failure {
	f := &failure{path: slices.Clone(r.path), place: slices.Clone(r.place), node: n, value: value, phrase: phrase}
	r.found = append(r.found, f)
	return f
}

// failing is fail for a phrase that begins with the value.
func (r *run) failing(n *node, value any, format string, args ...any) {
	r.fail(n, value, func() string { return shown(value) + " " + fmt.Sprintf(format, args...) })
}

// compiler makes rules of the keywords that are supported.
type compiler struct{ isUUID func(string) bool }

func (c compiler) compile(doc any) (*node, error) {
	object, ok := doc.(*Object)
	if !ok {
		return nil, fmt.Errorf("a schema is an object, not %s", Repr(doc))
	}
	n := &node{doc: object, rules: make([]rule, 0, object.Len())}
	for keyword, want := range object.All() {
		check, err := c.rule(keyword, want, object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keyword, err)
		}
		if check != nil {
			n.rules = append(n.rules, rule{keyword, check})
		}
	}
	return n, nil
}

type check = func(r *run, n *node, value any)

func (c compiler) rule(keyword string, want any, doc *Object) (check, error) {
	switch keyword {
	case "$schema":
		return nil, nil
	case "type":
		return checkType(typesOf(want)), nil
	case "properties":
		return c.properties(want)
	case "patternProperties":
		return c.patternProperties(want)
	case "additionalProperties":
		return c.additionalProperties(want, doc)
	case "items":
		return c.items(want)
	case "anyOf":
		return c.anyOf(want)
	case "required":
		return checkRequired(want), nil
	case "enum":
		return checkEnum(want), nil
	case "pattern":
		return checkPattern(want)
	case "format":
		return c.format(want)
	case "uniqueItems":
		return checkUnique, nil
	case "minimum", "maximum":
		return checkBound(want, keyword == "minimum"), nil
	}
	if size := sizeOf(keyword); size != nil {
		return checkSize(keyword, size, int(numberOf(want))), nil
	}
	return nil, fmt.Errorf("the keyword is not supported")
}

func typesOf(value any) []string {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	types := make([]string, 0, len(list))
	for _, item := range list {
		text, _ := item.(string)
		types = append(types, text)
	}
	return types
}

// isType reports whether a value is of a type of JSON. A number without a fraction is an
// integer, however it is written.
func isType(value any, kind string) bool {
	switch v := value.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case int64, *big.Int:
		return kind == "integer" || kind == "number"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	case []any:
		return kind == "array"
	case *Object:
		return kind == "object"
	}
	return false
}

func isAnyType(value any, types []string) bool {
	return slices.ContainsFunc(types, func(kind string) bool { return isType(value, kind) })
}

// numberOf is a number as far as it is compared.
func numberOf(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	case float64:
		return v
	}
	return 0
}

func checkType(types []string) check {
	return func(r *run, n *node, value any) {
		if !isAnyType(value, types) {
			r.failing(n, value, "is not of type %s", ReprList(types))
		}
	}
}

func (c compiler) properties(want any) (check, error) {
	doc, _ := want.(*Object)
	nodes := make(map[string]*node)
	for key, property := range doc.All() {
		var err error
		if nodes[key], err = c.compile(property); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return func(r *run, _ *node, value any) {
		object, _ := value.(*Object)
		if object == nil {
			return
		}
		for key := range doc.All() {
			if item, sent := object.Find(key); sent {
				step := any(key)
				r.descend(nodes[key], item, step, step)
			}
		}
	}, nil
}

func (c compiler) patternProperties(want any) (check, error) {
	doc, _ := want.(*Object)
	patterns := make(map[string]pattern)
	nodes := make(map[string]*node)
	for source, property := range doc.All() {
		var err error
		if patterns[source], err = compilePattern(source); err != nil {
			return nil, err
		}
		if nodes[source], err = c.compile(property); err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
	}
	return func(r *run, _ *node, value any) {
		object, _ := value.(*Object)
		if object == nil {
			return
		}
		for source := range doc.All() {
			for key, item := range object.All() {
				if patterns[source].matches(key) {
					r.descend(nodes[source], item, key, source)
				}
			}
		}
	}, nil
}

// pattern is an expression with the text that every match begins with, which costs less to compare.
type pattern struct {
	prefix string
	*regexp.Regexp
}

// compilePattern reads the prefix of expressions such as ^resources([0-9]+)?$.
func compilePattern(source string) (p pattern, err error) {
	p.Regexp, err = regexp.Compile(source)
	rest, anchored := strings.CutPrefix(source, "^")
	if end := strings.IndexByte(rest, '('); anchored && end > 0 && !strings.Contains(source, "|") {
		if prefix := rest[:end]; prefix == regexp.QuoteMeta(prefix) {
			p.prefix = prefix
		}
	}
	return p, err
}

func (p pattern) matches(text string) bool {
	return strings.HasPrefix(text, p.prefix) && p.MatchString(text)
}

// additionalProperties refuses keys without a schema. Only false is supported.
func (c compiler) additionalProperties(want any, doc *Object) (check, error) {
	if want != false {
		return nil, fmt.Errorf("supported is false only")
	}
	known, _ := doc.Get("properties").(*Object)
	patterns, hasPatterns := doc.Get("patternProperties").(*Object)
	var allowed []pattern
	if hasPatterns {
		for source := range patterns.All() {
			p, err := compilePattern(source)
			if err != nil {
				return nil, err
			}
			allowed = append(allowed, p)
		}
	}
	return func(r *run, n *node, value any) {
		object, _ := value.(*Object)
		if object == nil {
			return
		}
		var extra []string
		for key := range object.All() {
			if _, ok := known.Find(key); ok {
				continue
			}
			if !slices.ContainsFunc(allowed, func(p pattern) bool { return p.matches(key) }) {
				extra = append(extra, key)
			}
		}
		if extra != nil {
			r.fail(n, value, func() string { return extraKeys(extra, patterns) })
		}
	}, nil
}

// extraKeys names keys that a closed object must not have.
func extraKeys(keys []string, patterns *Object) string {
	slices.Sort(keys)
	if patterns == nil {
		verb := " was unexpected)"
		if len(keys) > 1 {
			verb = " were unexpected)"
		}
		return "Additional properties are not allowed (" + ReprList(keys) + verb
	}
	verb := " does"
	if len(keys) > 1 {
		verb = " do"
	}
	var sources []string
	for source := range patterns.sorted() {
		sources = append(sources, source)
	}
	return ReprList(keys) + verb + " not match any of the regexes: " + ReprList(sources)
}

func (c compiler) items(want any) (check, error) {
	each, err := c.compile(want)
	return func(r *run, _ *node, value any) {
		list, _ := value.([]any)
		for i, item := range list {
			r.path = append(r.path, i)
			each.check(r, item)
			r.path = r.path[:len(r.path)-1]
		}
	}, err
}

func (c compiler) anyOf(want any) (check, error) {
	list, _ := want.([]any)
	var nodes []*node
	for _, doc := range list {
		n, err := c.compile(doc)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return func(r *run, n *node, value any) {
		var context []*failure
		for i, alternative := range nodes {
			within := run{library: r.library, place: []any{i}}
			alternative.check(&within, value)
			if within.found == nil {
				return
			}
			context = append(context, within.found...)
		}
		f := r.fail(n, value, func() string { return shown(value) + " is not valid under any of the given schemas" })
		f.context = context
	}, nil
}

func checkRequired(want any) check {
	keys := typesOf(want)
	return func(r *run, n *node, value any) {
		object, _ := value.(*Object)
		if object == nil {
			return
		}
		for _, key := range keys {
			if _, sent := object.Find(key); !sent {
				r.fail(n, value, func() string { return Repr(key) + " is a required property" })
			}
		}
	}
}

func checkEnum(want any) check {
	list, _ := want.([]any)
	return func(r *run, n *node, value any) {
		if !slices.ContainsFunc(list, func(item any) bool { return Repr(item) == Repr(value) }) {
			r.failing(n, value, "is not one of %s", Repr(want))
		}
	}
}

func checkPattern(want any) (check, error) {
	source, _ := want.(string)
	pattern, err := regexp.Compile(source)
	return func(r *run, n *node, value any) {
		if text, ok := value.(string); ok && !pattern.MatchString(text) {
			r.failing(n, value, "does not match %s", Repr(want))
		}
	}, err
}

// format checks uuids. A value that is not a text fails, too.
func (c compiler) format(want any) (check, error) {
	if want != "uuid" {
		return nil, fmt.Errorf("supported is uuid only")
	}
	return func(r *run, n *node, value any) {
		if text, ok := value.(string); !ok || !c.isUUID(text) {
			r.failing(n, value, "is not a %s", Repr(want))
		}
	}, nil
}

func checkUnique(r *run, n *node, value any) {
	list, _ := value.([]any)
	seen := make(map[string]bool, len(list))
	for _, item := range list {
		text := string(appendRepr(nil, item, (*Object).sorted))
		if seen[text] {
			r.failing(n, value, "has non-unique elements")
			return
		}
		seen[text] = true
	}
}

func checkBound(want any, least bool) check {
	bound := numberOf(want)
	return func(r *run, n *node, value any) {
		if !isType(value, "number") {
			return
		}
		switch got := numberOf(value); {
		case least && got < bound:
			r.failing(n, value, "is less than the minimum of %s", Repr(want))
		case !least && got > bound:
			r.failing(n, value, "is greater than the maximum of %s", Repr(want))
		}
	}
}

// sizeOf returns what a keyword limits, -1 for values that it says nothing about.
func sizeOf(keyword string) func(any) int {
	switch keyword {
	case "minLength", "maxLength":
		return func(value any) int {
			if text, ok := value.(string); ok {
				return utf8.RuneCountInString(text)
			}
			return -1
		}
	case "minItems", "maxItems":
		return func(value any) int {
			if list, ok := value.([]any); ok {
				return len(list)
			}
			return -1
		}
	case "minProperties", "maxProperties":
		return func(value any) int {
			if object, ok := value.(*Object); ok {
				return object.Len()
			}
			return -1
		}
	}
	return nil
}

func checkSize(keyword string, size func(any) int, limit int) check {
	least := strings.HasPrefix(keyword, "min")
	return func(r *run, n *node, value any) {
		got := size(value)
		if got >= 0 && (least && got < limit || !least && got > limit) {
			r.failing(n, value, "%s", r.library.sizePhrase(keyword, limit))
		}
	}
}

// sizePhrase says that a value is smaller or larger than a keyword allows.
func (l Library) sizePhrase(keyword string, limit int) string {
	least := strings.HasPrefix(keyword, "min")
	switch {
	case l >= namesEmptiness && least && limit == 1:
		return "should be non-empty"
	case l >= namesEmptiness && !least && limit == 0:
		return "is expected to be empty"
	case keyword == "minProperties":
		return "does not have enough properties"
	case keyword == "maxProperties":
		return "has too many properties"
	case least:
		return "is too short"
	}
	return "is too long"
}
