package matching_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
	"pgregory.net/rapid"
)

// world is a profile with the requests and mappings that belong to it.
type world struct {
	profile  requestspec.Profile
	wanted   []int // requests per group, counted while drawing
	mappings map[string][]string
	arqs     []matching.Unmatched
}

func drawWorld(t *rapid.T) world {
	w := world{profile: requestspec.Profile{Name: "dp"}, mappings: map[string][]string{"": {"root"}}}
	for g := range rapid.IntRange(1, 5).Draw(t, "groups") {
		fpga, other := rapid.IntRange(1, 3).Draw(t, "fpga"), rapid.IntRange(0, 2).Draw(t, "other")
		xilinx := rapid.Bool().Draw(t, "xilinx")
		group := map[string]string{"resources:FPGA": fmt.Sprint(fpga), "accel:note": "7"}
		n := fpga + other
		if other > 0 {
			group["resources:CUSTOM_NIC"] = fmt.Sprint(other)
		}
		if xilinx {
			group["trait:CUSTOM_FPGA_XILINX"] = "required"
			n = 2 * fpga
		}
		w.profile.Groups = append(w.profile.Groups, group)
		w.wanted = append(w.wanted, n)
		w.mappings[fmt.Sprintf("device_profile_%d", g)] = []string{fmt.Sprintf("rp-%d", rapid.IntRange(0, 3).Draw(t, "rp"))}
		for range n {
			w.arqs = append(w.arqs, matching.Unmatched{UUID: fmt.Sprintf("arq-%d", len(w.arqs)), Group: g, DeviceProfileName: "dp"})
		}
	}
	w.arqs = rapid.Permutation(w.arqs).Draw(t, "order")
	return w
}

// fits is the obvious reference: does everything that was drawn, and perhaps
// damaged since, still belong together?
func (w world) fits() bool {
	left := slices.Clone(w.wanted)
	for i, a := range w.arqs {
		for _, b := range w.arqs[:i] {
			if a.UUID == b.UUID {
				return false
			}
		}
		if a.UUID == "" || a.DeviceProfileName != w.profile.Name || a.Group < 0 || a.Group >= len(left) {
			return false
		}
		left[a.Group]--
	}
	for g, n := range left {
		rps := w.mappings[fmt.Sprintf("device_profile_%d", g)]
		if n != 0 || len(rps) != 1 || rps[0] == "" {
			return false
		}
	}
	return true
}

// damage changes one thing, possibly back into something that fits.
func (w *world) damage(t *rapid.T) {
	at := rapid.IntRange(0, len(w.arqs)-1).Draw(t, "at")
	id := fmt.Sprintf("device_profile_%d", rapid.IntRange(0, len(w.wanted)).Draw(t, "mapping"))
	switch rapid.IntRange(0, 6).Draw(t, "damage") {
	case 0:
		w.arqs = slices.Delete(w.arqs, at, at+1)
	case 1:
		w.arqs = append(w.arqs, matching.Unmatched{UUID: "extra", Group: w.arqs[at].Group, DeviceProfileName: "dp"})
	case 2:
		w.arqs[at].Group = rapid.IntRange(-1, len(w.wanted)).Draw(t, "group")
	case 3:
		w.arqs[at].UUID = rapid.SampledFrom([]string{"", "arq-0", "arq-1"}).Draw(t, "uuid")
	case 4:
		w.arqs[at].DeviceProfileName = rapid.SampledFrom([]string{"", "dp", "other"}).Draw(t, "profile")
	case 5:
		delete(w.mappings, id)
	case 6:
		w.mappings[id] = append(w.mappings[id], rapid.SampledFrom([]string{"", "rp-9"}).Draw(t, "rp"))
	}
}

func TestMatchesAgreesWithReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range rapid.IntRange(0, 2).Draw(t, "damages") {
			if len(w.arqs) > 0 {
				w.damage(t)
			}
		}
		matches, err := matching.Matches(w.profile, w.mappings, w.arqs)
		if (err == nil) != w.fits() {
			t.Fatalf("Matches: %v, but the reference says %t", err, w.fits())
		}
		if err != nil {
			return
		}
		if len(matches) != len(w.arqs) {
			t.Fatalf("%d matches of %d ARQs", len(matches), len(w.arqs))
		}
		for i, a := range w.arqs {
			want := matching.Match{ARQ: a.UUID, Group: a.Group, DeviceRP: w.mappings[fmt.Sprintf("device_profile_%d", a.Group)][0]}
			if matches[i] != want {
				t.Fatalf("binding %d is %+v, want %+v", i, matches[i], want)
			}
		}
	})
}

func TestWeighIsAStableOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scores := rapid.SliceOfN(rapid.Float64Range(-2, 2), 0, 40).Draw(t, "scores")
		candidates := make([]matching.Candidate, len(scores))
		type place struct {
			score float64
			index int
		}
		want := make([]place, len(scores))
		for i := range scores {
			scores[i] = float64(int(scores[i])) // many equal ones
			candidates[i].Host = fmt.Sprint(i)
			want[i] = place{scores[i], i}
		}
		slices.SortFunc(want, func(a, b place) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index)) })
		at := 0
		weighed := matching.Weigh(candidates, func(matching.Candidate) (float64, string) {
			at++
			return scores[at-1], "because"
		})
		for i, w := range weighed {
			if w.Host != fmt.Sprint(want[i].index) || w.Index != want[i].index || w.Scores[0] != want[i].score || w.Reason != "because" {
				t.Fatalf("place %d: %+v, want %+v", i, w, want[i])
			}
		}
		if len(weighed) != len(candidates) {
			t.Fatalf("%d of %d candidates", len(weighed), len(candidates))
		}
	})
}
