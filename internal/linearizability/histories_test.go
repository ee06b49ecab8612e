//go:build histories

package linearizability

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
)

var (
	operations = flag.Int64("operations", 4000, "of the histories of each kind")
	seed       = flag.Uint64("seed", 1, "of the calls, the faults and the ends of the process")
	out        = flag.String("out", "../../.ci/out", "folder of the pictures of rejected histories")
)

// groups is how many groups there are: 64 clients.
const groups = 16

// history says how groups work.
type history struct {
	most    int   // operations of a piece
	left    int64 // operations in sum
	objects func(name string, group int) objects
	via     http.RoundTripper // nil: the transport of the server's client
}

// run returns the checks of what 64 clients saw, and ends them at the first that is bad.
func (h history) run(t *testing.T) *checker {
	t.Helper()
	if err := os.MkdirAll(*out, 0o755); err != nil {
		t.Fatal(err)
	}
	s, random := startServer(t, groups), rand.New(rand.NewPCG(*seed, 0))
	if err := s.setFaults(random); err != nil {
		t.Fatal(err)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() { defer close(ended); s.endOften(random, min(3000, 1+h.left/2), stop) }()
	checks := startChecker(*out)
	client := &http.Client{Transport: cmp.Or(h.via, s.client.Transport)}
	var left atomic.Int64
	left.Store(h.left)
	var working sync.WaitGroup
	for i := range groups {
		name := fmt.Sprintf("%s-%d-%d", t.Name(), *seed, i)
		g := newGroup(name, h.objects(name, i), &caller{s, client}, *seed*groups+uint64(i), h.most)
		working.Go(func() { g.run(&left, func() bool { return checks.bad.Load() > 0 }, checks.pieces) })
	}
	working.Wait()
	close(stop)
	<-ended
	checks.end(t)
	if _, err := s.address(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls; the process was killed or ended %d times", s.calls.Load(), s.ends.Load())
	return checks
}

// check fails the test if a piece is rejected or not decided.
func (h history) check(t *testing.T) {
	t.Helper()
	for _, text := range h.run(t).texts {
		t.Error(text)
	}
}

const mostOfPiece = 2000

func generations(name string, _ int) objects {
	return newTree(name, 1, mix{reads: 4, inventories: 4, traits: 3})
}

func TestHistoriesOfGenerations(t *testing.T) {
	history{mostOfPiece, *operations, generations, nil}.check(t)
}

func claims(name string, _ int) objects {
	return newTree(name, 1, mix{reads: 5, inventories: 1, claims: 6, releases: 2})
}

func TestHistoriesOfClaims(t *testing.T) { history{mostOfPiece, *operations, claims, nil}.check(t) }

func TestHistoriesOfReshapes(t *testing.T) {
	history{mostOfPiece, *operations, func(name string, _ int) objects {
		return newTree(name, 1, mix{reads: 6, inventories: 1, claims: 4, releases: 1, reshapes: 4})
	}, nil}.check(t)
}

func binds(name string, group int) objects { return newPool(name, group) }

// Requests that were deleted are replaced between pieces, so these are short.
func TestHistoriesOfBinds(t *testing.T) { history{200, *operations, binds, nil}.check(t) }

// A claim or a reshape over several trees cannot be cut by tree: the histories are short instead.
func TestHistoriesOverSeveralTrees(t *testing.T) {
	const calls = clientsOfGroup * 200
	history{calls, *operations, func(name string, _ int) objects {
		return newTree(name, 3, mix{reads: 6, inventories: 1, traits: 1, claims: 5, releases: 1, reshapes: 3})
	}, nil}.check(t)
}
