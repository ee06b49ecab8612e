package holding

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/internal/placement"
)

// arq is a Bound ARQ on a host that was created at a time; 0 is unknown.
func arq(host string, created int) cyborgclient.ARQ {
	a := cyborgclient.ARQ{UUID: host, Hostname: host, State: cyborgclient.StateBound}
	if created > 0 {
		a.CreatedAt = cyborgclient.Time{Time: time.Unix(int64(created), 0)}
	}
	return a
}

func inState(state cyborgclient.State, a cyborgclient.ARQ) cyborgclient.ARQ {
	a.State = state
	return a
}

// holds is a snapshot's allocation of one provider for each host.
func holds(s Snapshot, hosts ...string) Snapshot {
	s.Held, s.Nodes = placement.Resources{}, map[string]string{}
	for _, host := range hosts {
		s.Held["rp-"+host], s.Nodes["rp-"+host] = map[string]int{"VCPU": 1}, host
	}
	return s
}

func TestJudge(t *testing.T) {
	t.Parallel()
	guests := func(here, there Guest) map[string]Guest { return map[string]Guest{"here": here, "there": there} }
	arqs := func(arqs ...cyborgclient.ARQ) []cyborgclient.ARQ { return arqs }
	for name, tt := range map[string]struct {
		s    Snapshot
		want map[string]Verdict
	}{
		"ARQs on its own host only": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 1))}, map[string]Verdict{},
		},
		"the same under its short name": {
			Snapshot{Host: "here", ARQs: arqs(arq("here.example.org", 1))}, map[string]Verdict{},
		},
		"an older ARQ elsewhere, and the old guest": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 1)), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Kept},
		},
		"an older ARQ elsewhere without a guest": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 1)), Guests: guests(Silent, Absent)}, map[string]Verdict{"there": Free},
		},
		"an older ARQ on a host that is silent": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 1))}, map[string]Verdict{"there": Free},
		},
		"one ARQ there is newer": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 1), arq("there", 3)), Guests: guests(Silent, Present)},
			map[string]Verdict{"there": Moved},
		},
		"ARQs of the same time": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 2)), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Moved},
		},
		"ARQs without times": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 0), arq("there", 0)), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Moved},
		},
		"an ARQ without a time there": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 1), arq("there", 0)), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Moved},
		},
		"a newer ARQ there failed to bind": {
			Snapshot{Host: "here", ARQs: arqs(arq("here", 2), arq("there", 1), inState(cyborgclient.StateBindFailed, arq("there", 3))), Guests: guests(Silent, Present)},
			map[string]Verdict{"there": Kept},
		},
		"moved, without a guest yet": {
			Snapshot{Host: "here", ARQs: arqs(arq("there", 1)), Guests: guests(Silent, Absent)}, map[string]Verdict{"there": Free},
		},
		"moved, and the host is silent": {
			Snapshot{Host: "here", ARQs: arqs(arq("there", 1))}, map[string]Verdict{"there": Unknown},
		},
		"moved to a silent host without an allocation there": {
			holds(Snapshot{Host: "here", ARQs: arqs(arq("there", 1))}, "here"), map[string]Verdict{"there": Free},
		},
		"moved to a silent host with an allocation there": {
			holds(Snapshot{Host: "here", ARQs: arqs(arq("there", 1)), Guests: guests(Present, Silent)}, "here", "there"), map[string]Verdict{"there": Unknown},
		},
		"an ARQ with the state unknown": {
			Snapshot{Host: "here", ARQs: arqs(inState("unknown", arq("there", 1))), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Moved},
		},
		"an ARQ that is not bound": {
			Snapshot{Host: "here", ARQs: arqs(inState(cyborgclient.StateUnbound, arq("there", 1))), Guests: guests(Silent, Present)}, map[string]Verdict{},
		},
		"resources of two hosts, with a guest on each": {
			holds(Snapshot{Host: "here", Guests: guests(Present, Present)}, "here", "there"), map[string]Verdict{"there": Kept},
		},
		"resources of two hosts, with the other guest only": {
			holds(Snapshot{Host: "here", Guests: guests(Absent, Present)}, "here", "there"), map[string]Verdict{"there": Kept},
		},
		"resources of two hosts, and its own is silent": {
			holds(Snapshot{Host: "here", Guests: guests(Silent, Present)}, "here", "there"), map[string]Verdict{"there": Moved},
		},
		"resources of two hosts, and the other is silent": {
			holds(Snapshot{Host: "here", Guests: guests(Present, Silent)}, "here", "there"), map[string]Verdict{"there": Free},
		},
		"resources of two hosts, and both are silent": {
			holds(Snapshot{Host: "here", Guests: guests(Silent, Silent)}, "here", "there"), map[string]Verdict{"there": Unknown},
		},
		"resources of two hosts, and ARQs on its own": {
			holds(Snapshot{Host: "here", ARQs: arqs(arq("here", 1)), Guests: guests(Present, Present)}, "here", "there"), map[string]Verdict{},
		},
		"without a host, a guest with ARQs": {
			Snapshot{ARQs: arqs(arq("there", 1)), Guests: guests(Silent, Present)}, map[string]Verdict{"there": Moved},
		},
		"without a host, a guest with resources": {
			holds(Snapshot{ARQs: arqs(arq("here", 1)), Guests: guests(Absent, Present)}, "there"), map[string]Verdict{"here": Free, "there": Moved},
		},
		"without a host, and an ARQ on a silent host without an allocation there": {
			holds(Snapshot{ARQs: arqs(arq("there", 1))}), map[string]Verdict{"there": Free},
		},
		"without a host, and Placement does not answer": {
			Snapshot{ARQs: arqs(arq("there", 1))}, map[string]Verdict{"there": Unknown},
		},
		"a host that is down": {
			holds(Snapshot{Down: []string{"there"}, ARQs: arqs(arq("there.example.org", 1))}, "there.example.org"), map[string]Verdict{},
		},
	} {
		got := map[string]Verdict{}
		for _, host := range tt.s.Others() {
			got[host] = tt.s.Judge(host)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestElsewhere(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s    Snapshot
		want string
	}{
		"of another host":                 {holds(Snapshot{Host: "here"}, "there"), "there"},
		"of two others":                   {holds(Snapshot{Host: "here"}, "there", "elsewhere"), "elsewhere"},
		"of its own":                      {holds(Snapshot{Host: "here"}, "here"), ""},
		"of its own, by its short name":   {holds(Snapshot{Host: "here"}, "here.example.org"), ""},
		"of both":                         {holds(Snapshot{Host: "here"}, "here", "there"), ""},
		"nothing":                         {holds(Snapshot{Host: "here"}), ""},
		"of none that the caller has":     {holds(Snapshot{}, "there"), ""},
		"of another, and ARQs on its own": {holds(Snapshot{Host: "here", ARQs: []cyborgclient.ARQ{arq("here", 1)}}, "there"), ""},
	} {
		if got, moved := tt.s.Elsewhere(); got != tt.want || moved != (tt.want != "") {
			t.Errorf("%s: got %q, %t; want %q", name, got, moved, tt.want)
		}
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	s := holds(Snapshot{Host: "here", Guests: map[string]Guest{"here": Present, "there": Present, "third": Absent}}, "here", "there", "third")
	s.Held["disks"] = map[string]int{"DISK_GB": 1} // shared by all
	want := placement.Resources{"rp-here": {"VCPU": 1}, "rp-third": {"VCPU": 1}}
	if diff := cmp.Diff(want, s.Unused()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		s    Snapshot
		want []string
	}{
		"nothing":                           {holds(Snapshot{}), nil},
		"the newest ARQ":                    {Snapshot{ARQs: []cyborgclient.ARQ{arq("a", 2), arq("b", 3), arq("c", 1)}}, []string{"b"}},
		"the newest whose host has a guest": {Snapshot{ARQs: []cyborgclient.ARQ{arq("a", 2), arq("b", 3)}, Guests: map[string]Guest{"b": Absent}}, []string{"a"}},
		"the only guest":                    {holds(Snapshot{Guests: map[string]Guest{"b": Present}}, "a", "b"), []string{"b"}},
		"two guests":                        {holds(Snapshot{Guests: map[string]Guest{"a": Present, "b": Present, "c": Absent}}, "a", "b", "c"), []string{"a", "b"}},
		"hosts that are silent":             {holds(Snapshot{Guests: map[string]Guest{"c": Absent}}, "a", "b", "c"), []string{"a", "b"}},
		"no guest at all":                   {holds(Snapshot{Guests: map[string]Guest{"a": Absent}}, "a"), nil},
	} {
		if got := tt.s.Hosts(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func TestIn(t *testing.T) {
	t.Parallel()
	s := Snapshot{ARQs: []cyborgclient.ARQ{arq("here", 1), arq("there", 1), inState(cyborgclient.StateBindFailed, arq("there", 2)), arq("there", 3)}}
	if got := s.In("there"); len(got) != 2 || got[0].Hostname != "there" || got[1].Hostname != "there" {
		t.Errorf("got %v", got)
	}
}

func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"cn", "cn", true}, {"cn", "cn.example.org", true}, {"cn.example.org", "cn", true}, {"cn.a", "cn.b", false}, {"cn", "other", false},
		{"cn.example.org", "other", false}, {"cn.", "cn", false}, {"", "", true},
	} {
		if got := SameHost(tt.a, tt.b); got != tt.want {
			t.Errorf("%q and %q: got %t", tt.a, tt.b, got)
		}
	}
}

// A device of a running guest is never free, and an instance without a known host has no old guest.
func TestAVerdictLeavesEveryGuestItsDevices(t *testing.T) {
	t.Parallel()
	hosts := []string{"a", "b.example.org", "c"}
	rapid.Check(t, func(t *rapid.T) {
		s := Snapshot{Host: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "host"), Guests: map[string]Guest{}}
		for _, host := range hosts {
			s.Guests[host] = rapid.SampledFrom([]Guest{Silent, Absent, Present}).Draw(t, "guest on "+host)
		}
		for n := range rapid.IntRange(0, 4).Draw(t, "ARQs") {
			a := arq(rapid.SampledFrom(hosts).Draw(t, "ARQ on"), rapid.IntRange(0, 3).Draw(t, "created"))
			a.UUID = string(rune('0' + n))
			s.ARQs = append(s.ARQs, inState(rapid.SampledFrom([]cyborgclient.State{cyborgclient.StateBound, cyborgclient.StateUnbound}).Draw(t, "state"), a))
		}
		if rapid.Bool().Draw(t, "Placement answers") {
			s = holds(s, rapid.SliceOfDistinct(rapid.SampledFrom(hosts), rapid.ID).Draw(t, "holds")...)
		}
		for _, host := range s.Others() {
			verdict := s.Judge(host)
			isHere := s.Host != "" && (strings.HasPrefix(host, s.Host))
			newest := time.Time{}
			for _, a := range s.ARQs {
				if a.Hostname == host && a.State == cyborgclient.StateBound && a.CreatedAt.After(newest) {
					newest = a.CreatedAt.Time
				}
			}
			hasNewer := slices.ContainsFunc(s.ARQs, func(a cyborgclient.ARQ) bool {
				return s.Host != "" && strings.HasPrefix(a.Hostname, s.Host) && a.CreatedAt.After(newest)
			})
			switch {
			case isHere:
				t.Fatalf("%s is the instance's own host", host)
			case (s.Guests[host] == Present) != (verdict == Kept || verdict == Moved):
				t.Fatalf("%+v: %s has guest %d and verdict %d", s, host, s.Guests[host], verdict)
			case verdict == Kept && s.Host == "":
				t.Fatalf("%+v: %s has a guest of before", s, host)
			case verdict == Kept && s.Told() && !hasNewer:
				t.Fatalf("%+v: %s has a guest of before, and the newest ARQ", s, host)
			case verdict == Unknown && s.Guests[host] != Silent:
				t.Fatalf("%+v: %s has answered", s, host)
			}
		}
	})
}

func TestNewest(t *testing.T) {
	t.Parallel()
	arqs := []cyborgclient.ARQ{arq("here", 1), arq("here.example.org", 2), arq("there", 3), arq("", 4)}
	for host, want := range map[string]int{"here": 2, "there": 3, "": 0, "elsewhere": 0} {
		if got := Newest(host, arqs); !got.Equal(arq("", want).CreatedAt.Time) {
			t.Errorf("on %q: got %v", host, got)
		}
	}
}
