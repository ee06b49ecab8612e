//go:build differential

package differential_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/differential"
)

// requestsPerWorld is how many random requests a world of Cyborg sees before the next one is built.
const requestsPerWorld = 80

func TestCyborgDiffersAsListed(t *testing.T) {
	t.Parallel()
	theirs := startCyborg(t)
	run.Compare(t, 2500, func(seed uint64, requests int, judges []*differential.Judge) {
		for world := run.World; requests > 0; world++ {
			requests -= runCyborgWorld(t, theirs, seed, world, min(requests, requestsPerWorld), judges)
		}
	}, differential.Cyborg(), differential.CyborgQuirks())
}

// runCyborgWorld asks about one world and returns how many requests were random. A cloud leaves the world at the first
// write that only one of it and the real one did, and the world ends when both clouds have left it.
func runCyborgWorld(t *testing.T, cyborg realCyborg, seed uint64, world, n int, judges []*differential.Judge) int {
	t.Helper()
	cyborg.reset(t)
	type cloud struct {
		*side
		judge *differential.Judge
	}
	var clouds []cloud
	for i, config := range []fakecyborg.Config{{}, {UpstreamQuirks: true}} {
		s, end := ours(t, judges[i].Report().Table, config)
		defer end()
		judges[i].At(seed, world)
		clouds = append(clouds, cloud{s, judges[i]})
	}
	w := &cyborgWorld{draws: newDraws(seed, world)}
	compare := cyborgComparison()
	ask := func(req request) {
		theirs := cyborg.send(t, req)
		if strings.Contains(theirs.body, "No reply on topic") {
			t.Logf("world %d of seed %d ends: a message between the real API and its conductor was lost", world, seed)
			clouds = nil
			return
		}
		created := w.learn(req, cyborg.side, theirs)
		w.note(req, created)
		stay := clouds[:0]
		for _, c := range clouds {
			got := c.send(t, req)
			w.learn(req, c.side, got)
			differences := compare.Differences(req.String(), relabelled(theirs, cyborg.side), relabelled(got, c.side))
			c.judge.Add(differences)
			if isRead(req) || (theirs.status < 300) == (got.status < 300) && !slices.ContainsFunc(differences, leftOff) {
				stay = append(stay, c)
			}
		}
		clouds = stay
		w.made += len(created)
		cyborg.awaitBinds(t, req, theirs)
	}
	for _, req := range w.firstProfiles() {
		ask(req)
	}
	asked := 0
	for ; asked < n && len(clouds) > 0; asked++ {
		ask(w.next())
	}
	return max(1, asked)
}

// leftOff reports whether a PATCH may have bound other requests on one side: it was refused for another reason.
func leftOff(d differential.Difference) bool {
	return strings.HasPrefix(d.Request, http.MethodPatch) && (d.Part == "status" || d.Part == "text") && !slices.Contains(d.Marks, differential.SameText)
}

// relabelled has labels for what the answer itself created.
func relabelled(a answer, s *side) differential.Answer {
	header := a.header.Clone()
	for _, values := range header {
		for i := range values {
			values[i] = s.labelled(values[i])
		}
	}
	return differential.Answer{Status: a.status, Header: header, Body: s.labelled(a.body)}
}

func isRead(req request) bool {
	return slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, req.method)
}

// note remembers what later requests can be about.
func (w *cyborgWorld) note(req request, created []string) {
	switch {
	case len(created) == 0:
	case strings.HasSuffix(req.path(), "/accelerator_requests"):
		w.arqs = append(w.arqs, created...)
		w.arqs = w.arqs[max(0, len(w.arqs)-10):]
	case strings.HasSuffix(req.path(), "/attributes"):
		w.attributes = append(w.attributes, created...)
	}
}

// awaitBinds waits until the real service has ended the binds that it goes on with after its answer.
func (s realCyborg) awaitBinds(t *testing.T, req request, got answer) {
	t.Helper()
	if req.method != http.MethodPatch || got.status != http.StatusAccepted {
		return
	}
	for range 100 {
		list := s.send(t, request{method: "GET", target: cyborgPath + "/accelerator_requests", header: [][2]string{{"X-Auth-Token", tokenOf("admin")}}})
		if !strings.Contains(list.body, `"BindStarted"`) && !strings.Contains(list.body, `"Unbinding"`) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// cyborgComparison says what to compare in answers of Cyborg.
func cyborgComparison() differential.Comparison {
	return differential.Comparison{
		Known: func(id string) bool {
			for _, begin := range []string{"11111111-", "22222222-", "33333333-", "99999999-", "44444444", "aaaaaaaa-0000-4000", "dddddddd-0000-4000", "eeeeeeee-0000-4000", "ffffffff-0000-4000"} {
				if strings.HasPrefix(strings.ToLower(id), begin) {
					return true
				}
			}
			return false
		},
		Number: func(key string) bool { return key == "id" || key == "device_id" || key == "deployable_id" },
		Text:   cyborgError,
		Opened: func(key, value string) (any, bool) {
			if key != "attributes_list" && key != "error_message" {
				return nil, false
			}
			var opened any
			err := json.Unmarshal([]byte(value), &opened)
			return opened, err == nil && opened != nil
		},
	}
}

// cyborgError takes the text out of the body of an error.
func cyborgError(body any) (text string, rest any) {
	fields, _ := body.(map[string]any)
	inner := fields["error_message"]
	switch inner := inner.(type) {
	case string:
		delete(fields, "error_message")
		return inner, fields
	case map[string]any:
		for _, key := range []string{"faultstring", "title"} {
			if text, ok := inner[key].(string); ok {
				delete(inner, key)
				return text, fields
			}
		}
	}
	return "", body
}
