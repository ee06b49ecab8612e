package placementsim

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/uuids"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// query is a parsed query string: keys in the order they first appear, each
// with its values in order.
type query struct {
	pairs []queryPair
	// bad is the error about the first name or value that is not UTF-8.
	bad    error
	keys   []string
	values map[string][]string
}

// queryPair is a key with one of its values.
type queryPair struct{ key, value string }

// parseQuery reads a query string as webob does: pairs end at "&" and at ";", and a malformed
// escape is kept literally.
func parseQuery(raw string) query {
	q := query{keys: make([]string, 0, 8), values: make(map[string][]string)}
	for item := range strings.FieldsFuncSeq(raw, func(r rune) bool { return r == '&' || r == ';' }) {
		key, value, _ := strings.Cut(item, "=")
		key, value = q.unescape(key), q.unescape(value)
		if _, seen := q.values[key]; !seen {
			q.keys = append(q.keys, key)
		}
		q.values[key] = append(q.values[key], value)
		q.pairs = append(q.pairs, queryPair{key, value})
	}
	return q
}

func (q *query) unescape(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		plain = unescapeBytes(s)
	}
	q.bad = cmp.Or(q.bad, schema.CheckUTF8([]byte(plain)))
	return strings.ToValidUTF8(plain, "\uFFFD")
}

// unescapeBytes is url.QueryUnescape for a text with malformed escapes.
func unescapeBytes(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		n, err := strconv.ParseUint(s[min(i+1, len(s)):min(i+3, len(s))], 16, 8)
		switch {
		case s[i] == '%' && err == nil && i+2 < len(s):
			b.WriteByte(byte(n))
			i += 2
		case s[i] == '+':
			b.WriteByte(' ')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func (q query) has(key string) bool { _, ok := q.values[key]; return ok }

func (q query) first(key string) string {
	if values := q.values[key]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func (q query) last(key string) string {
	if values := q.values[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// checkQuery checks the keys, with their last values, against the schema of a name.
func (c *call) checkQuery(q query, name string) error {
	if q.bad != nil {
		return badQuery(q.bad.Error())
	}
	if err := c.server.schemas.Validate(name, schema.Texts(q.keys, q.last)); err != nil {
		return badQuery(err.Error())
	}
	return nil
}

// parseResources reads "RC:n,RC:n"; a class that comes twice counts once, with
// its last amount.
func parseResources(value string) ([]engine.ClassAmount, error) {
	if strings.TrimSpace(value) == "" {
		return nil, badResources("empty string")
	}
	var amounts []engine.ClassAmount
	index := make(map[string]int)
	for item := range strings.SplitSeq(value, ",") {
		class, number, found := strings.Cut(item, ":")
		if !found || strings.Contains(number, ":") {
			return nil, badResources(item)
		}
		amount, err := parseAmount(class, number)
		if err != nil {
			return nil, err
		}
		i, known := index[class]
		if !known {
			i = len(amounts)
			index[class] = i
			amounts = append(amounts, engine.ClassAmount{Class: class})
		}
		amounts[i].Amount = amount
	}
	return amounts, nil
}

func badResources(got string) error {
	return badRequest("Badly formed resources parameter. Expected resources query string parameter in form: ?resources=VCPU:2,MEMORY_MB:1024. Got: " + got + ".")
}

// parseAmount reads a positive integer; one beyond every inventory is cut off.
func parseAmount(class, number string) (int64, error) {
	amount, ok := schema.ParseInt(number)
	if !ok {
		return 0, badRequest("Requested resource " + class + " expected positive integer amount. Got: " + number + ".")
	}
	if amount.Sign() < 1 {
		return 0, badRequest("Requested resource " + class + " requires amount >= 1. Got: " + amount.String() + ".")
	}
	return integer(amount), nil
}

// parseMemberOf reads all values of a member_of key into sets of aggregates, one of each set
// being required, and excluded aggregates.
func parseMemberOf(values []string, suffix string, v version) (engine.AggregateFilter, error) {
	var f engine.AggregateFilter
	if len(values) > 1 && v < 24 {
		return f, badRequest("Multiple member_of" + suffix + " parameters are not supported")
	}
	for _, value := range values {
		list, err := parseAggregates(value)
		if err != nil {
			return f, err
		}
		forbidden := strings.HasPrefix(value, "!")
		if forbidden && v < 32 {
			return f, badRequest("Forbidden member_of" + suffix + " parameters are not supported in the specified microversion")
		}
		if forbidden {
			f.Forbidden = append(f.Forbidden, list...)
		} else {
			f.MemberOf = append(f.MemberOf, list)
		}
	}
	return f, nil
}

// parseAggregates reads "uuid" or "in:uuid,uuid", either behind "!".
func parseAggregates(value string) ([]string, error) {
	rest, isList := strings.CutPrefix(strings.TrimPrefix(value, "!"), "in:")
	list := strings.Split(rest, ",")
	if !isList && len(list) > 1 {
		return nil, badRequest("Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid microversion. Got: " + value)
	}
	for _, uuid := range list {
		if !uuids.Like(uuid) {
			return nil, badQuery("Expected 'member_of' parameter to contain valid UUID(s). Got: " + uuid)
		}
	}
	return list, nil
}

// parseTraits reads one value of a required key into sets of traits, one of each set being
// required, and excluded traits. From microversion 1.39 a value may be "in:T1,T2".
func parseTraits(value string, v version, allowAnyOf bool) (engine.TraitRequirement, error) {
	var t engine.TraitRequirement
	if rest, anyOf := strings.CutPrefix(value, "in:"); anyOf {
		if !allowAnyOf {
			return t, badQuery("The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: " + value)
		}
		names := splitNames(rest)
		if slices.Contains(names, "") {
			return t, badTraits("in:HW_CPU_X86_VMX,CUSTOM_MAGIC", "Got an empty trait in: "+value)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "!") {
				return t, badQuery("The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: " + value)
			}
		}
		t.Required = [][]string{names}
		return t, nil
	}
	example := "HW_CPU_X86_VMX,CUSTOM_MAGIC"
	if v >= 22 {
		example = "HW_CPU_X86_VMX,!CUSTOM_MAGIC"
	}
	names := splitNames(value)
	if slices.ContainsFunc(names, func(name string) bool { return strings.TrimLeft(name, "!") == "" }) {
		return t, badTraits(example, "Got an empty trait in: "+value)
	}
	for _, name := range names {
		plain := strings.TrimLeft(name, "!")
		switch {
		case plain == name:
			t.Required = append(t.Required, []string{name})
		case v < 22:
			return t, badTraits(example, "Got: "+value)
		default:
			t.Forbidden = append(t.Forbidden, plain)
		}
	}
	return t, nil
}

// splitNames splits at commas.
func splitNames(value string) []string {
	names := strings.Split(value, ",")
	for i, name := range names {
		names[i] = strings.TrimSpace(name)
	}
	return names
}

func badTraits(example, got string) error {
	return badQuery("Expected 'required' parameter value of the form: " + example + ". " + got)
}

// parseRequired reads all values of a required key. Before microversion 1.39
// only the last one counts.
func parseRequired(values []string, v version) (engine.TraitRequirement, error) {
	if v < 39 {
		values = values[len(values)-1:]
	}
	var all engine.TraitRequirement
	for _, value := range values {
		t, err := parseTraits(value, v, v >= 39)
		if err != nil {
			return all, err
		}
		all.Required = append(all.Required, t.Required...)
		all.Forbidden = append(all.Forbidden, t.Forbidden...)
	}
	return all, nil
}
