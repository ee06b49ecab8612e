package spawn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// story has the events and states of the ARQs of an instance, with times since the bind request. All times differ.
type story struct {
	poll    bool
	timeout time.Duration
	arqs    []arqStory
	events  []eventStory
	outage  [2]time.Duration // Cyborg does not answer from the first to the second
}

type arqStory struct {
	until  time.Duration // when the answers show the final state
	final  cyborgclient.State
	before string // state until then; empty: not listed
}

type eventStory struct {
	at     time.Duration
	arq    int
	status externalevent.Status
}

func drawStory(t *rapid.T, arqs int) story {
	seconds := func(label string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, label)) * time.Second
	}
	s := story{poll: rapid.Bool().Draw(t, "poll"), timeout: time.Second + seconds("timeout", 400)}
	for i := range arqs {
		s.arqs = append(s.arqs, arqStory{
			until:  seconds("until", 500) + time.Duration(i+1)*time.Millisecond,
			final:  rapid.SampledFrom([]cyborgclient.State{cyborgclient.StateBound, cyborgclient.StateBound, cyborgclient.StateBound, cyborgclient.StateBindFailed}).Draw(t, "final"),
			before: rapid.SampledFrom([]string{"BindStarted", "BindStarted", "Initial", ""}).Draw(t, "before"),
		})
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "events") {
		s.events = append(s.events, eventStory{
			at: seconds("event", 500) + time.Duration(100+i)*time.Millisecond, arq: rapid.IntRange(0, arqs-1).Draw(t, "arq"),
			status: rapid.SampledFrom([]externalevent.Status{externalevent.StatusCompleted, externalevent.StatusFailed, externalevent.StatusInProgress}).Draw(t, "status"),
		})
	}
	from := seconds("outage", 500) + 10*time.Millisecond
	if to := from + seconds("for", 60) + time.Millisecond; to < s.timeout || from > s.timeout+longest { // what is known at the timeout is
		s.outage = [2]time.Duration{from, to}
	}
	return s
}

// outcome returns the expected result, independent of the events: the earliest time at which it can be known, and
// whether the ARQs are Bound. If known is false, it is not known before the timeout.
func (s story) outcome() (at time.Duration, bound, known bool) {
	bound = true
	for _, arq := range s.arqs {
		if arq.final == cyborgclient.StateBindFailed && arq.until <= s.timeout && (bound || arq.until < at) {
			at, bound = arq.until, false
		}
	}
	if !bound {
		return at, false, true
	}
	for _, arq := range s.arqs {
		if arq.until > s.timeout {
			return s.timeout, false, false
		}
		at = max(at, arq.until)
	}
	return at, true, true
}

// theater is a transport whose lists of ARQs follow a story.
type theater struct {
	next  http.RoundTripper
	story story
	arqs  []string
	began time.Time // of the bind
}

// RoundTrip implements http.RoundTripper.
func (p *theater) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := p.next.RoundTrip(req)
	if err != nil || !strings.HasSuffix(req.URL.Path, "/accelerator_requests") {
		return res, err
	}
	if req.Method == http.MethodPatch {
		p.began = time.Now()
	}
	if req.Method != http.MethodGet || req.URL.Query().Get("instance") == "" {
		return res, err
	}
	now := time.Since(p.began)
	if now >= p.story.outage[0] && now < p.story.outage[1] {
		res.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	var items []string
	for i, uuid := range p.arqs {
		arq := p.story.arqs[i]
		state := string(arq.final)
		if now < arq.until {
			state = arq.before
		}
		item, err := p.item(req, uuid)
		if err != nil {
			return nil, err
		}
		if state != "" && item != "" {
			items = append(items, strings.ReplaceAll(item, `"state":"Bound"`, `"state":"`+state+`"`))
		}
	}
	res.Body.Close()
	res.Body = io.NopCloser(strings.NewReader(`{"arqs":[` + strings.Join(items, ",") + `]}`))
	res.ContentLength = -1
	res.Header.Del("Content-Length")
	return res, nil
}

// item reads an ARQ from Cyborg.
func (p *theater) item(req *http.Request, uuid string) (string, error) {
	one := req.Clone(req.Context())
	one.URL.Path += "/" + uuid
	one.URL.RawQuery = ""
	res, err := p.next.RoundTrip(one)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return "", err
	}
	return strings.TrimSpace(string(body)), nil
}

const (
	retried = 4 * time.Second          // the time of a request that is tried again
	longest = 38*time.Second + retried // the longest pause between two polls, and such a request
)

// perform runs a spawn with a story and returns the first violation, or "".
func (s story) perform(t *testing.T, arqs []string) string {
	w := newWorld(t, worldOpts{})
	w.cloud.HandleEvents(http.NotFoundHandler())
	play := &theater{story: s, arqs: arqs}
	w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper { play.next = next; return play })
	opts := []spawn.Option{spawn.WithConfig(spawn.Config{ARQBindingTimeout: s.timeout, MaxAttempts: 1})}
	if !s.poll {
		opts = append(opts, spawn.WithEvents(w.events))
	}
	var wait spawn.Progress
	opts = append(opts, spawn.WithObserver(func(_ context.Context, p spawn.Progress) {
		if p.Step == spawn.StepWait && p.Event == spawn.ProgressEnd {
			wait = p
		}
	}))
	flow, err := spawn.New(w.cyborg, w.placement(t), opts...)
	if err != nil {
		return err.Error()
	}
	req := request("mixed")
	req.Hooks.Claim = func(context.Context, *spawn.Attempt) error { // right after the bind
		for _, e := range s.events {
			time.AfterFunc(e.at, func() {
				w.events.Deliver(externalevent.Event{Name: externalevent.ARQBound, ServerUUID: instance, Tag: arqs[e.arq], Status: e.status})
			})
		}
		return nil
	}
	_, _ = flow.Run(t.Context(), req)
	if polls := w.lists(); polls > 90 { // 70 in 400 s, and each is sent four times during an outage of a minute
		return fmt.Sprintf("%d lists of ARQs", polls)
	}
	return s.check(wait)
}

// check compares the result of the wait with the outcome.
func (s story) check(wait spawn.Progress) string {
	at, bound, known := s.outcome()
	latest := at + longest
	if s.outage[0] < latest && at < s.outage[1] {
		latest = max(latest, s.outage[1]+longest)
	}
	if latest = min(latest, s.timeout); !known {
		at, latest = s.timeout, s.timeout
	}
	if s.outage[1]+retried > s.timeout {
		latest += retried // a request that began before the timeout is tried again after it
	}
	var problem string
	switch timedOut := errors.Is(wait.Err, externalevent.ErrTimeout); {
	case bound && wait.Err != nil:
		problem = "want success"
	case !bound && !errors.Is(wait.Err, spawn.ErrNotBound):
		problem = "want ErrNotBound"
	case timedOut == known:
		problem = fmt.Sprintf("want ErrTimeout: %t", !known)
	case wait.Duration < at || wait.Duration > latest:
		problem = fmt.Sprintf("want it from %s to %s", at, latest)
	default:
		return ""
	}
	return fmt.Sprintf("the wait ended after %s with %v, %s", wait.Duration, wait.Err, problem)
}

// The result of the wait depends only on the states. The wait ends neither before they can be known nor long after,
// for any order of states, true and forged events, and outages.
func TestTheWaitFollowsTheStates(t *testing.T) {
	t.Parallel()
	var arqs []string
	for _, arq := range knownARQs(t) {
		arqs = append(arqs, arq.UUID)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt, len(arqs))
		var problem string
		synctest.Test(t, func(t *testing.T) { problem = s.perform(t, arqs) })
		if problem != "" {
			rt.Fatalf("%+v: %s", s, problem)
		}
	})
}
