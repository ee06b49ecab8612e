package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocyborg/gocyborg/driver/internal/panicsite"
)

// The time that a driver has to discover, and to return once its context has ended.
const (
	discoverLimit = 30 * time.Second
	returnLimit   = time.Second
)

// Guard calls the drivers of one host, so that a driver that panics does not end the process, and
// one that ignores its context does not stop the agent. The zero value is ready. It is safe for
// concurrent use.
type Guard struct {
	mu sync.Mutex
	// stuck has the calls that were given up and have not returned, by the driver's name.
	stuck  map[string][]*stuckCall
	claims sync.Map // of the drivers that were asked to discover: []Claim by name
}

// stuckCall is a call that was given up.
type stuckCall struct {
	step  string
	since time.Time
}

// DiscoverAll is the function DiscoverAll. A driver that panics, or that has not returned within
// 30 seconds, has failed, and is not called again before it returns. Held are functions that guests
// have: of their IOMMU groups no other is offered.
func (g *Guard) DiscoverAll(ctx context.Context, drivers []Driver, held ...PCIAddress) []Report {
	reports, views := make([]Report, len(drivers)), make([]*View, len(drivers))
	for i, d := range drivers {
		if t, ok := d.(TreeDriver); ok && t.Tree() != nil {
			views[i] = viewOf(drivers, views[:i], t.Tree())
		}
		reports[i] = g.discover(ctx, d, views[i])
	}
	g.keepBesideFailed(ctx, drivers, reports, views)
	refuseDoubleClaims(drivers, reports)
	leaveOneOfEachGroup(drivers, reports, views, held)
	dropRepeatedProblems(reports)
	return reports
}

// discover calls one driver. view is a view of its tree, or nil.
func (g *Guard) discover(ctx context.Context, d Driver, view *View) Report {
	look := d.Discover
	if t, ok := d.(TreeDriver); ok && view != nil {
		look = func(ctx context.Context) (Report, error) { return t.DiscoverIn(ctx, view) }
	}
	var report Report
	err := g.Call(ctx, d, "discover", discoverLimit, func(ctx context.Context) (err error) {
		g.learn(d)
		report, err = look(ctx)
		return err
	})
	if err != nil { // the driver may be writing to report still
		return Report{Err: err}
	}
	return report
}

// learn asks a driver for its claims, once, for the time when it fails.
func (g *Guard) learn(d Driver) {
	if claimer, ok := d.(Claimer); ok {
		if _, known := g.claims.Load(d.Name()); !known {
			g.claims.Store(d.Name(), claimer.Claims())
		}
	}
}

// keepBesideFailed makes problems of the devices that are functions of a driver that failed, or are in
// an IOMMU group with one. What was reported of the latter is kept, so two guests would have
// functions of one group, or one function.
func (g *Guard) keepBesideFailed(ctx context.Context, drivers []Driver, reports []Report, views []*View) {
	for i, failed := range reports {
		if failed.Err == nil || views[i] == nil {
			continue
		}
		name := drivers[i].Name()
		learned, _ := g.claims.Load(name)
		claims, _ := learned.([]Claim)
		functions, _, err := views[i].PCIFunctions(ctx)
		if err != nil || len(claims) == 0 { // the others cannot read the bus, either
			continue
		}
		own := ownFunctions{view: views[i], driver: name, claimed: make(map[PCIAddress]bool), groups: make(map[string]PCIAddress)}
		for _, f := range functions {
			if slices.ContainsFunc(claims, func(c Claim) bool { return c.Covers(f) }) {
				own.add(f.Address)
			}
		}
		for j := range reports {
			if views[j] == views[i] {
				own.keepBeside(&reports[j])
			}
		}
	}
}

// Call calls do, which calls the driver, and returns its error. A panic is an error that names the
// driver, the step and the place. The context of do ends after the limit; a call that has not
// returned a second later is given up with an error, and until it returns the driver is not
// called again: do must not touch anything that is used after an error.
func (g *Guard) Call(ctx context.Context, d Driver, step string, limit time.Duration, do func(context.Context) error) error {
	if err := g.refuse(d.Name(), step); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	returned := make(chan error, 1)
	go run(ctx, d.Name(), step, do, returned)
	select {
	case err := <-returned:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-returned:
		return err
	case <-time.After(returnLimit):
	}
	g.giveUp(d.Name(), step, returned)
	return fmt.Errorf("%s: %s: no answer, and the driver ignores its context: %w", d.Name(), step, context.Cause(ctx))
}

// refuse is the error of a step of a driver that is stuck, or nil.
func (g *Guard) refuse(name, step string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if calls := g.stuck[name]; len(calls) > 0 {
		return fmt.Errorf("%s: %s: not tried, the driver has not returned from the step %s, given up at %s",
			name, step, calls[0].step, calls[0].since.UTC().Format(time.RFC3339))
	}
	return nil
}

// giveUp remembers a call until it returns.
func (g *Guard) giveUp(name, step string, returned <-chan error) {
	call := &stuckCall{step, time.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stuck == nil {
		g.stuck = make(map[string][]*stuckCall)
	}
	g.stuck[name] = append(g.stuck[name], call)
	go func() {
		<-returned
		g.mu.Lock()
		defer g.mu.Unlock()
		g.stuck[name] = slices.DeleteFunc(g.stuck[name], func(c *stuckCall) bool { return c == call })
	}()
}

// run calls do and sends its error, or an error if do panics or ends the goroutine.
func run(ctx context.Context, name, step string, do func(context.Context) error, returned chan<- error) {
	err := fmt.Errorf("%s: %s: the driver ended its goroutine", name, step)
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: %s: panic: %v%s", name, step, cause, panicsite.Text())
		}
		returned <- err
	}()
	err = do(ctx)
}
