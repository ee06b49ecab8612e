//go:build histories

package linearizability

import (
	"fmt"
	"hash/maphash"
	"strings"

	"github.com/anishathalye/porcupine"
)

const (
	maxARQs   = 6
	gpus      = 2 // of a group, with one attach handle each
	instances = 2
)

// bindState is the state of an accelerator request.
type bindState string

const (
	absent      bindState = ""
	initial     bindState = "Initial"
	bindStarted bindState = "BindStarted"
	bound       bindState = "Bound"
	unbound     bindState = "Unbound"
	bindFailed  bindState = "BindFailed"
)

// arq is an accelerator request. The number is -1 without a GPU or an instance.
type arq struct {
	state         bindState
	gpu, instance int
	holds         bool  // the handle of the GPU
	bind          int64 // that is in progress
}

// arqWorld is the part of Cyborg that a piece is about. It is comparable.
type arqWorld struct {
	arqs [maxARQs]arq
	// listed are the requests that a client's deletion by instance has found.
	listed [clientsOfGroup]struct {
		call int64
		arqs [maxARQs]bool
	}
}

// The calls. A bind and a deletion by instance are several operations: others may see and do something in between.
type (
	readARQ      struct{ arq int }
	readInstance struct{ instance int }
	bind         struct {
		arq, gpu, instance int
		call               int64
	}
	finishBind     struct{ bind }
	failBind       struct{ bind } // after the end of the process
	unbind         struct{ arq int }
	deleteARQ      struct{ arq int }
	deleteInstance struct {
		instance, client int
		call             int64
	}
	deleteListed struct{ deleteInstance }
)

// What errors of Cyborg are about.
const (
	instanceInUse = "already has accelerator requests"
	notFound      = "not found with uuid"
	badState      = "Bad state"
	noHandle      = "AttachHandle not found"
	overtaken     = "was unbound or deleted while it was being bound"
)

// arqModel is the sequential specification, from a state.
func arqModel(first arqWorld) porcupine.Model {
	seed := maphash.MakeSeed()
	return porcupine.Model{
		Init: func() any { return first },
		Step: func(state, input, output any) (bool, any) {
			want, next, possible := state.(arqWorld).apply(input)
			got := output.(outcome)
			return possible && (got.unknown || got == want), next
		},
		Hash: func(state any) uint64 { return maphash.Comparable(seed, state.(arqWorld)) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%T%+v -> %+v", input, input, output)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

// apply returns the answer to an operation and the world after it, and whether the operation can happen now.
func (w arqWorld) apply(input any) (want outcome, after arqWorld, possible bool) {
	switch in := input.(type) {
	case readARQ:
		if w.arqs[in.arq].state == absent {
			return outcome{status: 404, code: notFound}, w, true
		}
		return outcome{status: 200, body: w.show(in.arq)}, w, true
	case readInstance:
		return outcome{status: 200, body: w.showInstance(in.instance)}, w, true
	case bind:
		want, after = w.startBind(in)
		return want, after, true
	case finishBind:
		want, after = w.finishBind(in.bind)
		return want, after, true
	case failBind:
		if a := &w.arqs[in.arq]; a.state == bindStarted && a.bind == in.call {
			a.state, a.holds, a.bind = bindFailed, false, 0
		}
		return want, w, true
	case unbind:
		if w.arqs[in.arq].state == absent {
			return outcome{status: 404, code: notFound}, w, true
		}
		w.arqs[in.arq] = arq{state: unbound, gpu: -1, instance: -1}
		return outcome{status: 202}, w, true
	case deleteARQ:
		if w.arqs[in.arq].state == absent {
			return outcome{status: 404, code: notFound}, w, true
		}
		w.arqs[in.arq] = arq{}
		return outcome{status: 204}, w, true
	case deleteInstance:
		mine := &w.listed[in.client]
		mine.call = in.call
		for i, a := range w.arqs {
			mine.arqs[i] = a.state != absent && a.instance == in.instance
		}
		return outcome{status: 204}, w, true
	case deleteListed:
		return w.deleteListed(in)
	}
	panic(fmt.Sprintf("no such call: %T", input))
}

func (w arqWorld) show(i int) string {
	return fmt.Sprint(w.arqs[i].state, w.arqs[i].gpu, w.arqs[i].instance)
}

func (w arqWorld) showInstance(instance int) string {
	var list []string
	for i, a := range w.arqs {
		if a.state != absent && a.instance == instance {
			list = append(list, fmt.Sprint(i, w.show(i)))
		}
	}
	return strings.Join(list, ", ")
}

// startBind stores the fields and takes the handle. Without a handle the request is BindFailed, and the instance's.
func (w arqWorld) startBind(in bind) (outcome, arqWorld) {
	for _, a := range w.arqs {
		if a.state != absent && a.instance == in.instance {
			return outcome{status: 400, code: instanceInUse}, w
		}
	}
	a := &w.arqs[in.arq]
	switch {
	case a.state == absent:
		return outcome{status: 404, code: notFound}, w
	case a.state != initial && a.state != unbound:
		return outcome{status: 409, code: badState}, w
	}
	for _, other := range w.arqs {
		if other.holds && other.gpu == in.gpu {
			*a = arq{state: bindFailed, gpu: in.gpu, instance: in.instance}
			return outcome{status: 404, code: noHandle}, w
		}
	}
	*a = arq{state: bindStarted, gpu: in.gpu, instance: in.instance, holds: true, bind: in.call}
	return outcome{status: 202}, w
}

// finishBind ends a bind that was started. Unless it was overtaken, the request is Bound.
func (w arqWorld) finishBind(in bind) (outcome, arqWorld) {
	a := &w.arqs[in.arq]
	if a.state != bindStarted || a.bind != in.call {
		return outcome{status: 409, code: overtaken}, w
	}
	a.state, a.bind = bound, 0
	return outcome{status: 202}, w
}

func (w arqWorld) deleteListed(in deleteListed) (outcome, arqWorld, bool) {
	mine := &w.listed[in.client]
	possible := mine.call == in.call
	for i := range w.arqs {
		if mine.arqs[i] {
			w.arqs[i] = arq{}
		}
	}
	*mine = arqWorld{}.listed[in.client]
	return outcome{status: 204}, w, possible
}
