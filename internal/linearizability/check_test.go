//go:build histories

package linearizability

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The bounds of the check of one piece. A piece that needs more is not decided, and that is a failure.
const (
	checkTime   = 60 * time.Second
	checkMemory = 4 << 30
)

// piece is a history that is checked as a whole.
type piece struct {
	name       string
	model      porcupine.Model
	operations []porcupine.Operation
}

// verdict is what the check of a piece came to.
type verdict string

const (
	fine      verdict = "linearizable"
	rejected  verdict = "not linearizable"
	undecided verdict = "undecided"
)

// check looks for an order, and draws a rejected history. The text says what is wrong.
func (p piece) check(picture string) (v verdict, text string) {
	var over atomic.Bool
	model, step := p.model, p.model.Step
	model.Step = func(state, input, output any) (bool, any) {
		if over.Load() {
			return false, state // lets the search end
		}
		return step(state, input, output)
	}
	end := watchMemory(&over)
	result, info := porcupine.CheckOperationsVerbose(model, p.operations, checkTime)
	end()
	switch {
	case over.Load() || result == porcupine.Unknown:
		return undecided, fmt.Sprintf("%s: %d operations are not decided in %s and %d MiB", p.name, len(p.operations), checkTime, checkMemory>>20)
	case result == porcupine.Illegal:
		text = fmt.Sprintf("%s: %d operations have no order; %s shows them. %s", p.name, len(p.operations), picture, p.stuck(info))
		if err := porcupine.VisualizePath(p.model, info, picture); err != nil {
			text += ": " + err.Error()
		}
		return rejected, text
	}
	return fine, ""
}

// watchMemory sets over when the heap grew by more than checkMemory, until end is called.
func watchMemory(over *atomic.Bool) (end func()) {
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				over.Store(over.Load() || now.HeapAlloc > before.HeapAlloc+checkMemory)
			}
		}
	}()
	return func() { close(stop); <-ended }
}

// stuck describes the end of the longest order found: its last operations and state, and the
// first operations that do not fit.
func (p piece) stuck(info porcupine.LinearizationInfo) string {
	var longest []porcupine.Operation
	for _, orders := range info.PartialLinearizationsOperations() {
		for _, order := range orders {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	ordered, state := make(map[any]bool), p.model.Init()
	key := func(o porcupine.Operation) any { return [2]int64{o.Call, int64(o.ClientId)} }
	for _, o := range longest {
		_, state = p.model.Step(state, o.Input, o.Output)
		ordered[key(o)] = true
	}
	rest := slices.DeleteFunc(slices.Clone(p.operations), func(o porcupine.Operation) bool { return ordered[key(o)] })
	slices.SortFunc(rest, func(a, b porcupine.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var text strings.Builder
	list := func(operations []porcupine.Operation) {
		for _, o := range operations {
			fmt.Fprintf(&text, "\n  %d..%d client %d: %s", o.Call, o.Return, o.ClientId, p.model.DescribeOperation(o.Input, o.Output))
		}
	}
	text.WriteString("The longest order ends with")
	list(longest[max(0, len(longest)-6):])
	fmt.Fprintf(&text, "\nin the state %s\nand none of these can be next:", p.model.DescribeState(state))
	list(rest[:min(len(rest), 6)])
	return text.String()
}

// picture is where a rejected history of the piece is drawn.
func (p piece) picture(folder string) string {
	return filepath.Join(folder, "rejected-"+strings.NewReplacer("/", "-").Replace(p.name)+".html")
}

// checker checks pieces one after the other, so that the memory is that of one.
type checker struct {
	pieces     chan piece
	done       chan struct{}
	checked    int
	operations int
	longest    time.Duration
	outcomes   map[string]int // by call and status
	bad        atomic.Int64
	texts      []string
	pictures   []string
}

func startChecker(folder string) *checker {
	c := &checker{pieces: make(chan piece, 64), done: make(chan struct{}), outcomes: make(map[string]int)}
	go func() {
		defer close(c.done)
		for p := range c.pieces {
			began := time.Now()
			if v, text := p.check(p.picture(folder)); v != fine {
				c.bad.Add(1)
				c.texts, c.pictures = append(c.texts, text), append(c.pictures, p.picture(folder))
			}
			for _, o := range p.operations {
				c.outcomes[fmt.Sprintf("%T %d", o.Input, o.Output.(outcome).status)]++
			}
			c.checked, c.operations, c.longest = c.checked+1, c.operations+len(p.operations), max(c.longest, time.Since(began))
		}
	}()
	return c
}

// end waits for the checks.
func (c *checker) end(t *testing.T) {
	t.Helper()
	close(c.pieces)
	<-c.done
	t.Logf("%d operations in %d pieces; the longest check took %s", c.operations, c.checked, c.longest.Round(time.Millisecond))
	for _, call := range slices.Sorted(maps.Keys(c.outcomes)) {
		t.Logf("%s: %d", strings.ReplaceAll(call, " 0", " unknown"), c.outcomes[call])
	}
}
