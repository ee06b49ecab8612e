//go:build differential

package placementsim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/differential"
)

// The requests of the oracle, those that it avoids, and further ones, to the Placement of a chroot: each
// difference has to belong to a class of differential.Placement.
var differentialRun = differential.Flags()

func TestPlacementDiffersAsListed(t *testing.T) {
	if *oracleChroot = differentialRun.Chroot; *oracleChroot == "" {
		t.Fatal("-differential.chroot names no directory: bash .ci/run differential makes one")
	}
	pair := newOraclePair(t)
	differentialRun.Compare(t, 5000, func(seed uint64, requests int, judges []*differential.Judge) {
		for world := differentialRun.World; requests > 0; world++ {
			requests -= max(1, runDifferentialWorld(t, pair, seed, world, min(requests, requestsPerWorld), judges[0]))
		}
	}, differential.Placement())
}

// runDifferentialWorld asks about one world, which ends at the first write that only one service did, and returns how many
// random requests it saw.
func runDifferentialWorld(t *testing.T, pair *oraclePair, seed uint64, world, n int, judge *differential.Judge) int {
	t.Helper()
	judge.At(seed, world)
	pair.reset(t)
	g := newOracleGenerator(rand.New(rand.NewPCG(seed, uint64(world))), pair)
	ask := func(req oracleRequest) (equal bool) {
		differences, equal := pair.differences(t, g, req)
		judge.Add(differences)
		return equal
	}
	for _, build := range g.builders() {
		for _, req := range build() {
			if !ask(req) {
				return 0
			}
		}
	}
	for asked := range n {
		g.look()
		req := g.draw()
		if g.chance(10) {
			req = g.strange(req)
		}
		if !ask(req) {
			return asked + 1
		}
	}
	return n
}

// differences sends a request to both services. The worlds are equal until only one of them did a write.
func (p *oraclePair) differences(t *testing.T, g *oracleGenerator, req oracleRequest) (list []differential.Difference, equal bool) {
	t.Helper()
	marks := g.marks(req)
	theirs, ours := p.both(t, req)
	read := req.method == http.MethodGet || req.method == http.MethodHead || req.method == http.MethodOptions
	equal = read || (theirs.status < 300) == (ours.status < 300)
	if req.limited() && theirs.status == http.StatusOK && ours.status == http.StatusOK {
		allReal, allOurs := p.both(t, req.unlimited())
		if text := compareLimited(req, theirs, allReal, ours, allOurs); text != "" && !strings.HasPrefix(text, "without limit:") {
			list = append(list, differential.Difference{Request: req.String(), Part: "limit", Real: text})
		}
		req, theirs, ours = req.unlimited(), allReal, allOurs
	}
	list = append(list, placementComparison().Differences(req.String(), theirs.compared(), ours.compared())...)
	for i := range list {
		list[i].Marks = marks
		switch d := &list[i]; {
		case d.Part == "text" && inOrder(d.Real) == inOrder(d.Ours):
			d.Part = differential.PartTextOrder
		case !strings.HasPrefix(d.Part, "body .allocation_requests"):
		case hasAll(listedIn(ours.body), listedIn(theirs.body)):
			d.Part = differential.PartMoreCandidates
		case hasAll(listedIn(withoutAmounts(ours.body)), listedIn(withoutAmounts(theirs.body))):
			d.Part = differential.PartAmounts
		}
	}
	return list, equal
}

// classAmount is a resource class with its amount.
var classAmount = regexp.MustCompile(`("[A-Z_0-9]+": ?)\d+`)

// withoutAmounts is a body with all amounts of classes zero.
func withoutAmounts(body string) string { return classAmount.ReplaceAllString(body, "${1}0") }

// hasAll reports whether a list has all that another has.
func hasAll(list, other []string) bool {
	return !slices.ContainsFunc(other, func(item string) bool { return !slices.Contains(list, item) })
}

// listedIn lists the candidates of a body.
func listedIn(body string) (list []string) {
	var value map[string]any
	_ = json.Unmarshal([]byte(body), &value) // empty if the body is not JSON
	for _, candidate := range array(value["allocation_requests"]) {
		list = append(list, asJSON(canonical("", candidate)))
	}
	return list
}

func (a answer) compared() differential.Answer {
	return differential.Answer{Status: a.status, Header: a.header, Body: a.body}
}

// marks are the documented defects that a request asks about.
func (g *oracleGenerator) marks(req oracleRequest) []string {
	var marks []string
	for _, subject := range oracleAvoids() {
		if subject.about(g, req) {
			marks = append(marks, subject.name)
		}
	}
	return marks
}

// placementComparison says what to compare in answers of Placement.
func placementComparison() differential.Comparison {
	return differential.Comparison{
		Known: func(id string) bool {
			for _, begin := range []string{"aaaaaaaa-0000", "cccccccc-0000", "eeeeeeee-0000", "99999999-9999", "00000000"} {
				if strings.HasPrefix(strings.ToLower(id), begin) {
					return true
				}
			}
			return false
		},
		Text: func(body any) (string, any) {
			list := array(fields(body)["errors"])
			if len(list) == 0 {
				return "", body
			}
			detail := text(fields(list[0])["detail"])
			delete(fields(list[0]), "detail")
			delete(fields(list[0]), "request_id")
			detail, schema, found := strings.Cut(detail, "Failed validating ")
			if found {
				fields(list[0])["schema"] = schema
			}
			return detail, body
		},
	}
}

// String is the request as differences show it.
func (r oracleRequest) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.method, r.target)
	for _, pair := range r.header {
		fmt.Fprintf(&b, "\n%s: %s", pair[0], pair[1])
	}
	if r.body != "" {
		fmt.Fprintf(&b, "\n%s", r.body)
	}
	return b.String()
}

// strange changes a request in a way that few clients do, and that the oracle leaves out.
func (g *oracleGenerator) strange(req oracleRequest) oracleRequest {
	req.header = append([][2]string(nil), req.header...)
	and := func(from oracleRequest, pairs ...string) oracleRequest {
		target, query, _ := strings.Cut(from.target, "?")
		return g.plain("GET", joinQuery(target, append(strings.FieldsFunc(query, func(r rune) bool { return r == '&' }), pairs...)))
	}
	switch g.IntN(14) {
	case 0:
		req.set("OpenStack-API-Version", pick(g, "placement 1.-1", "placement  1.20", "placement 01.1", "placement 1.1e1", "Placement latest"))
	case 1:
		req.set("X-Auth-Token", "")
	case 2:
		if req.body != "" {
			req.set("Content-Type", pick(g, "APPLICATION/JSON", "application/json;charset=latin-1"))
		}
	case 3:
		req.set("Accept", pick(g, "bad", "", "application/json;q=0", "text/*"))
	case 4:
		req.body = pick(g, `{"a": 1,}`, `[1,]`, `{'a': 1}`, `{"a": NaN}`, `{"a": 1e999}`, "\u00a0{}")
		req.set("Content-Type", "application/json")
	case 5:
		req.set("OpenStack-System-Scope", "all")
	case 6:
		path, query, found := strings.Cut(req.target, "?")
		req.target = strings.Replace(path, "_", "%5F", 1)
		if found {
			req.target += "?" + query
		}
	case 7:
		if req.method == http.MethodGet {
			req = and(req, pick(g, "name=%ff", "in_tree="+url.QueryEscape(g.provider()+"\n"), "resources=VCPU:1_0"))
		}
	case 8:
		g.version = maxVersion
		req = and(g.candidates(), pick(g, "limit=x&limit=1", "group_policy=x&group_policy=none"))
	case 9:
		g.version = maxVersion
		req = and(g.candidates(), pick(g, "required=CUSTOM_T0&required=!CUSTOM_T0", "same_subtree=_Z,_Z", "member_of=!x&member_of=!y"))
	case 10:
		g.version = maxVersion
		req = and(g.candidates(), pick(g, "required=CUSTOM_NONE&resources7=CUSTOM_NEVER:1", "resources7=VCPU:1&required7=CUSTOM_NEVER", "resources7=CUSTOM_NEVER:1&resources8=CUSTOM_NONE:1")+"&group_policy=none")
	case 11:
		g.version = maxVersion
		req = and(oracleRequest{target: "/traits"}, "name=startswith:"+pick(g, "custom", "CUSTOM%5F_", "hw", "%25", "C"))
	case 12, 13: // a sharing provider that is not a root
		for _, p := range g.Providers {
			if p.Parent != "" {
				g.version = maxVersion
				return g.write("PUT", "/resource_providers/"+p.UUID+"/traits", map[string]any{"traits": []string{sharingTrait}, "resource_provider_generation": p.Generation})
			}
		}
	}
	return req
}
