//go:build histories

package linearizability

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// outcome is what a call showed.
type outcome struct {
	unknown bool
	status  int
	code    string // of an error
	body    string // what a read showed
}

// objects are what a group of clients works on.
type objects interface {
	// prepare makes or completes the objects, and returns the model of a piece that begins now. It fails if the
	// server does not answer; then it is called again.
	prepare(c *caller) (porcupine.Model, bool)
	// draw chooses a call of a client; call makes it.
	draw(client int, random *rand.Rand) any
	call(c *caller, client int, input any) outcome
	// reads are the calls that show the state of all objects.
	reads() []any
	// parts are the operations of the model that a call is made of, most often itself.
	parts(o porcupine.Operation) []porcupine.Operation
}

// caller sends requests of a group.
type caller struct {
	*server
	via *http.Client
}

func (c *caller) do(method, path, version string, body any) answer {
	return c.sendBy(c.via, method, path, version, body)
}

// clientsOfGroup is how many calls of a group can be open.
const clientsOfGroup = 4

// group is some clients with their objects.
type group struct {
	name    string
	objects objects
	caller  *caller
	random  []*rand.Rand // of the clients
	most    int          // operations of a piece
	began   time.Time
}

func newGroup(name string, o objects, c *caller, seed uint64, most int) *group {
	g := &group{name: name, objects: o, caller: c, most: most, began: time.Now()}
	for client := range clientsOfGroup {
		g.random = append(g.random, rand.New(rand.NewPCG(seed, uint64(client))))
	}
	return g
}

// run makes pieces until as many operations were made in all groups as left says, or stop says so.
func (g *group) run(left *atomic.Int64, stop func() bool, pieces chan<- piece) {
	for number := 0; left.Load() > 0 && !stop(); number++ {
		model, ok := g.objects.prepare(g.caller)
		if !ok {
			if _, err := g.caller.address(); err != nil {
				return
			}
			number--
			continue
		}
		operations := g.work(left)
		if operations, ok = g.close(operations); !ok {
			return
		}
		pieces <- piece{fmt.Sprintf("%s-%d", g.name, number), model, operations}
	}
}

// work lets the clients call until the piece is long enough or a call has no known outcome.
func (g *group) work(left *atomic.Int64) []porcupine.Operation {
	var over atomic.Bool
	var made atomic.Int64
	lists := make([][]porcupine.Operation, clientsOfGroup)
	var working sync.WaitGroup
	for client := range clientsOfGroup {
		working.Go(func() {
			for !over.Load() {
				o := g.call(client, g.objects.draw(client, g.random[client]))
				lists[client] = append(lists[client], o)
				if o.Output.(outcome).unknown || made.Add(1) >= int64(g.most) || left.Add(-1) <= 0 {
					over.Store(true)
				}
			}
		})
	}
	working.Wait()
	return slices.Concat(lists...)
}

func (g *group) call(client int, input any) porcupine.Operation {
	o := porcupine.Operation{ClientId: client, Input: input, Call: time.Since(g.began).Nanoseconds()}
	o.Output, o.Return = g.objects.call(g.caller, client, input), time.Since(g.began).Nanoseconds()
	return o
}

// close appends reads of all objects, which have to be answered. The calls without an outcome stay open after them.
func (g *group) close(operations []porcupine.Operation) ([]porcupine.Operation, bool) {
	for _, read := range g.objects.reads() {
		o := g.call(0, read)
		for o.Output.(outcome).unknown {
			if _, err := g.caller.address(); err != nil {
				return nil, false
			}
			o = g.call(0, read)
		}
		operations = append(operations, o)
	}
	end := time.Since(g.began).Nanoseconds()
	var parts []porcupine.Operation
	for _, o := range operations {
		if o.Output.(outcome).unknown {
			end++
			o.Return = end
		}
		parts = append(parts, g.objects.parts(o)...)
	}
	return parts, true
}
