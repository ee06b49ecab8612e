package placementsim

import (
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim/internal/engine"
)

// The defects of the service that Config.UpstreamQuirks restores; docs/placement-api.md lists them.

// uncaught is the answer to an exception of Python that nothing in the service catches.
func uncaught(text string) error {
	return escaped{&simhttp.Error{Status: http.StatusInternalServerError, Text: text}}
}

// firstLimit reads the first limit of several; the schema has checked the last one only.
func firstLimit(text string) (int, error) {
	n, ok := schema.ParseInt(text)
	if !ok {
		return 0, uncaught("invalid literal for int() with base 10: " + schema.Repr(text))
	}
	return int(max(0, integer(n))), nil
}

// misread returns what the service searches for in place of a query: a group without resources has no in_tree, and nothing
// serves it without a required trait or aggregate. It fails for a sharing provider whose tree it has not read.
func (c *call) misread(q engine.CandidateQuery) (engine.CandidateQuery, error) {
	if number, lost := c.server.state.LostSharer(q); lost {
		return q, uncaught(strconv.FormatInt(number, 10))
	}
	q.Groups = slices.Clone(q.Groups)
	for i := range q.Groups {
		g := &q.Groups[i]
		switch {
		case len(g.Resources) > 0:
		case len(g.Traits.Required)+len(g.Aggregates.MemberOf) == 0:
			g.InTree = "nowhere"
		case g.InTree != "":
			if _, err := c.server.state.Inspect(g.InTree); err == nil {
				g.InTree = ""
			}
		}
	}
	return q, nil
}

// likePattern is the expression for a prefix as SQL's LIKE compares it: % is any text, _ any character, and case means nothing.
func likePattern(prefix string) *regexp.Regexp {
	var b strings.Builder
	for _, r := range prefix {
		switch r {
		case '%':
			b.WriteString(".*")
		case '_':
			b.WriteString(".")
		default:
			b.WriteString(regexp.QuoteMeta(string(r)))
		}
	}
	return regexp.MustCompile("(?is)^" + b.String())
}
