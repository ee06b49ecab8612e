package requestspec_test

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/requestspec"
	"pgregory.net/rapid"
)

var (
	anyName   = rapid.StringMatching(`[A-Za-z0-9 _:,!&=%+é-]{0,6}`)
	anyNames  = rapid.SliceOfN(anyName, 0, 4)
	anyLists  = rapid.SliceOfN(anyNames, 0, 3)
	anySuffix = rapid.SampledFrom([]string{"", "1", "01", "10", "a", "_a", "-", "device_profile_0", "device_profile_10"})
)

func drawGroup(t *rapid.T) requestspec.Group {
	return requestspec.Group{
		RequesterID:         anySuffix.Draw(t, "suffix"),
		Resources:           rapid.MapOfN(anyName, rapid.IntRange(0, 1<<31-1), 0, 4).Draw(t, "resources"),
		Required:            anyNames.Draw(t, "required"),
		Forbidden:           anyNames.Draw(t, "forbidden"),
		Aggregates:          anyLists.Draw(t, "aggregates"),
		ForbiddenAggregates: anyNames.Draw(t, "forbidden aggregates"),
		InTree:              anyName.Draw(t, "in tree"),
	}
}

type pair struct{ name, value string }

// slowQuery does literally what Nova's to_querystring does: collect pairs,
// sort them unescaped, then escape byte by byte.
func slowQuery(r requestspec.RequestSpec) string {
	var pairs []pair
	add := func(name, value string) { pairs = append(pairs, pair{name, value}) }
	joined := func(prefix string, items []string) string {
		s := append([]string{}, items...)
		slices.Sort(s)
		for i := range s {
			s[i] = prefix + s[i]
		}
		return strings.Join(s, ",")
	}
	traits := func(name string, yes, no []string) {
		parts := []string{joined("", yes), joined("!", no)}
		if len(yes) == 0 {
			parts = parts[1:]
		}
		if len(no) == 0 {
			parts = parts[:len(parts)-1]
		}
		if len(parts) > 0 {
			add(name, strings.Join(parts, ","))
		}
	}
	if r.Limit > 0 {
		add("limit", fmt.Sprint(r.Limit))
	}
	if r.GroupPolicy != "" {
		add("group_policy", string(r.GroupPolicy))
	}
	traits("root_required", r.RootRequired, r.RootForbidden)
	for _, list := range r.SameSubtree {
		add("same_subtree", joined("", list))
	}
	for _, g := range r.Groups {
		var amounts []string
		for class, amount := range g.Resources {
			amounts = append(amounts, fmt.Sprintf("%s:%d", class, amount))
		}
		add("resources"+g.RequesterID, joined("", amounts))
		traits("required"+g.RequesterID, g.Required, g.Forbidden)
		for _, list := range g.Aggregates {
			add("member_of"+g.RequesterID, "in:"+joined("", list))
		}
		if len(g.ForbiddenAggregates) > 0 {
			add("member_of"+g.RequesterID, "!in:"+joined("", g.ForbiddenAggregates))
		}
		if g.InTree != "" {
			add("in_tree"+g.RequesterID, g.InTree)
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.value, b.value))
	})
	var out []string
	for _, p := range pairs {
		out = append(out, slowEscape(p.name)+"="+slowEscape(p.value))
	}
	return strings.Join(out, "&")
}

// slowEscape is Python's quote_plus.
func slowEscape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == ' ':
			b.WriteByte('+')
		case strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func TestQueryEqualsSlowConstruction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec := requestspec.RequestSpec{
			Groups:       rapid.SliceOfN(rapid.Custom(drawGroup), 0, 4).Draw(t, "groups"),
			GroupPolicy:  rapid.SampledFrom([]requestspec.GroupPolicy{"", "none", "isolate"}).Draw(t, "policy"),
			RootRequired: anyNames.Draw(t, "root required"), RootForbidden: anyNames.Draw(t, "root forbidden"),
			SameSubtree: anyLists.Draw(t, "same subtree"),
			Limit:       rapid.IntRange(0, 2000).Draw(t, "limit"),
		}
		got := spec.Query()
		if want := slowQuery(spec); got != want {
			t.Fatalf("query\n%s\nwant\n%s", got, want)
		}
		if values, err := url.ParseQuery(got); err != nil || values.Encode() != got {
			t.Fatalf("query does not survive parsing: %v", err)
		}
	})
}

// Profiles and flavors that are good by construction: what goes in comes out.
func TestEveryGroupOfAGoodProfileIsInTheQuery(t *testing.T) {
	class := rapid.SampledFrom([]string{"FPGA", "PGPU", "VGPU", "CUSTOM_NIC", "CUSTOM_A_1"})
	trait := rapid.SampledFrom([]string{"CUSTOM_A", "CUSTOM_B", "CUSTOM_FPGA_INTEL"})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "groups")
		groups := make([]map[string]string, n)
		wantARQs := 0
		for i := range groups {
			groups[i] = map[string]string{"accel:note": "x"}
			for c, amount := range rapid.MapOfN(class, rapid.IntRange(1, 9), 1, 3).Draw(t, "resources") {
				groups[i]["resources:"+c] = fmt.Sprint(amount)
				wantARQs += amount
			}
			for name, value := range rapid.MapOfN(trait, rapid.SampledFrom([]string{"required", "forbidden"}), 0, 3).Draw(t, "traits") {
				groups[i]["trait:"+name] = value
			}
		}
		spec, err := requestspec.New(flavor(requestspec.DeviceProfileKey, "dp"), profile(groups), requestspec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		values := spec.Values()
		gotARQs := 0
		for i, group := range groups {
			count, err := requestspec.ARQCount(group)
			if err != nil {
				t.Fatal(err)
			}
			gotARQs += count
			var want []string
			for key, value := range group {
				if name, ok := strings.CutPrefix(key, "resources:"); ok {
					want = append(want, name+":"+value)
				}
			}
			got := strings.Split(values.Get("resources"+requestspec.RequesterID(i)), ",")
			slices.Sort(want)
			if !slices.Equal(want, got) {
				t.Fatalf("group %d: resources %v, want %v", i, got, want)
			}
		}
		if gotARQs != wantARQs || len(spec.DeviceGroups()) != n {
			t.Fatalf("%d ARQs, want %d; %d device groups, want %d", gotARQs, wantARQs, len(spec.DeviceGroups()), n)
		}
		if policy := values.Get("group_policy"); (policy == "none") != (n > 1) {
			t.Fatalf("%d groups, policy %q", n, policy)
		}
	})
}
