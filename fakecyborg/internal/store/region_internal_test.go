package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestContentOfARegion writes, reads and restarts regions of two kinds of drivers: the first reads what a region has, the other
// reports ZERO whatever it has.
func TestContentOfARegion(t *testing.T) {
	t.Parallel()
	const zero, one, two = "CUSTOM_FPGA_FUNCTION_ID_T_ZERO", "CUSTOM_FPGA_FUNCTION_ID_T_ONE", "CUSTOM_FPGA_FUNCTION_ID_T_TWO"
	of := func(id string) Image {
		return Image{ID: id, Properties: map[string]string{ByFunctionID.Property(): id}}
	}
	type event func(Region) Region
	report := func(functions ...string) event {
		return func(r Region) Region { return r.observe(functions, false).accept(functions) }
	}
	refused := func(functions ...string) event { // Placement does not accept the report
		return func(r Region) Region { return r.observe(functions, false) }
	}
	write := func(id, trait string, shown ...string) event {
		return func(r Region) Region {
			next, _, ok := r.write(of(id), trait, shown)
			if !ok {
				return r.lost(spoiled)
			}
			return next
		}
	}
	lose := func(to content) event { return func(r Region) Region { return r.lost(to) } }
	for name, tt := range map[string]struct {
		events  []event
		content content
		trait   string
		shows   bool // what a report of ZERO says
	}{
		"new":                                      {[]event{report(zero)}, reported, "", true},
		"written, not read":                        {[]event{report(zero), write("one", one, zero), report(zero)}, written, one, false},
		"written and read":                         {[]event{report(zero), write("one", one, one)}, written, one, true},
		"written by name, read later":              {[]event{report(zero), write("x", ""), report(two)}, written, two, true},
		"written over by others":                   {[]event{report(zero), write("one", one, one), report(two)}, reported, "", true},
		"written again while a guest hides it":     {[]event{report(zero), write("one", one, one), write("two", two)}, written, two, true},
		"written again, and it shows another":      {[]event{report(zero), write("one", one, one), write("two", two, one)}, spoiled, "", true},
		"spoiled, not read":                        {[]event{report(zero), lose(spoiled), report(zero)}, spoiled, "", false},
		"spoiled, not read, written again":         {[]event{report(zero), write("one", one, one), lose(spoiled), report(one), write("one", "", one)}, written, one, true},
		"spoiled, read":                            {[]event{report(zero), lose(spoiled), report(one)}, reported, "", true},
		"spoiled, read, refused by Placement":      {[]event{report(zero), lose(spoiled), refused(one)}, spoiled, "", false},
		"restarted":                                {[]event{report(zero), write("one", one, zero), lose(reset), report()}, reset, "", true},
		"restarted and reported":                   {[]event{report(zero), write("one", one, zero), lose(reset), report(zero)}, reported, "", true},
		"restarted, refused by Placement, spoiled": {[]event{report(zero), lose(reset), refused(zero), lose(spoiled), report(zero)}, spoiled, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Region
			for _, next := range tt.events {
				r = next(r)
			}
			got := []any{r.Content, r.Trait, r.shows([]string{zero})}
			if diff := cmp.Diff([]any{tt.content, tt.trait, tt.shows}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
