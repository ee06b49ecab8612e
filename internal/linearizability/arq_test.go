//go:build histories

package linearizability

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/anishathalye/porcupine"
	"github.com/google/uuid"
)

const (
	accelerator22 = "accelerator 2.2"
	arqsPath      = "/accelerator/v2/accelerator_requests"
)

// pool is a group's accelerator requests, the two GPUs of its host, and its instances.
type pool struct {
	host      string
	gpus      [gpus]string // resource providers
	instances [instances]string
	arqs      [maxARQs]string // "": was deleted, or not made yet
	calls     atomic.Int64
}

func newPool(name string, group int) *pool {
	p := &pool{host: fmt.Sprint("cn", group)}
	for i := range p.instances {
		p.instances[i] = uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s/instance/%d", name, i)).String()
	}
	return p
}

// prepare waits for the binds that an ended process left, and replaces deleted requests.
func (p *pool) prepare(c *caller) (porcupine.Model, bool) {
	if p.gpus[0] == "" && !p.findGPUs(c) {
		return porcupine.Model{}, false
	}
	var w arqWorld
	for i := range p.arqs {
		if p.arqs[i] != "" && !p.complete(c, i, &w) {
			return porcupine.Model{}, false
		}
		if p.arqs[i] == "" {
			if p.arqs[i] = p.create(c); p.arqs[i] == "" {
				return porcupine.Model{}, false
			}
			w.arqs[i] = arq{state: initial, gpu: -1, instance: -1}
		}
	}
	return arqModel(w), true
}

// complete reads a request; it reports false while that is being bound.
func (p *pool) complete(c *caller, i int, w *arqWorld) bool {
	a := c.send(http.MethodGet, arqsPath+"/"+p.arqs[i], accelerator22, nil)
	switch a.status {
	case http.StatusNotFound:
		p.arqs[i] = ""
		return true
	case http.StatusOK:
		w.arqs[i] = p.parse(a)
		return w.arqs[i].state != bindStarted
	}
	return false
}

func (p *pool) findGPUs(c *caller) bool {
	for i := range p.gpus {
		name := fmt.Sprintf("%s_0000:%s:00.0", p.host, busOf(i))
		a := c.send(http.MethodGet, "/placement/resource_providers?name="+strings.ReplaceAll(name, ":", "%3A"), placement139, nil)
		var body struct {
			Providers []struct{ UUID string } `json:"resource_providers"`
		}
		a.decode(&body)
		if len(body.Providers) != 1 {
			return false
		}
		p.gpus[i] = body.Providers[0].UUID
	}
	return true
}

func (p *pool) create(c *caller) string {
	a := c.send(http.MethodPost, arqsPath, accelerator22, map[string]string{"device_profile_name": "gpu"})
	var body struct{ ARQs []arqBody }
	a.decode(&body)
	if len(body.ARQs) != 1 {
		return "" // one without a client does no harm
	}
	return body.ARQs[0].UUID
}

func (p *pool) reads() (calls []any) {
	for i := range p.arqs {
		calls = append(calls, readARQ{i})
	}
	for i := range p.instances {
		calls = append(calls, readInstance{i})
	}
	return calls
}

func (p *pool) draw(client int, random *rand.Rand) any {
	arq, instance := random.IntN(maxARQs), random.IntN(instances)
	switch n := random.IntN(100); {
	case n < 25:
		return readARQ{arq}
	case n < 35:
		return readInstance{instance}
	case n < 70:
		return bind{arq, random.IntN(gpus), instance, p.calls.Add(1)}
	case n < 94:
		return unbind{arq}
	case n < 97:
		return deleteARQ{arq}
	}
	return deleteInstance{instance, client, p.calls.Add(1)}
}

// parts takes a bind and a deletion by instance apart.
func (p *pool) parts(o porcupine.Operation) []porcupine.Operation {
	got := o.Output.(outcome)
	later := func(lane int, input any) porcupine.Operation {
		part := o
		part.Input, part.ClientId = input, o.ClientId+lane*clientsOfGroup
		return part
	}
	switch in := o.Input.(type) {
	case readARQ, readInstance:
		if got.unknown {
			return nil
		}
	case bind:
		switch {
		case got.unknown:
			return []porcupine.Operation{o, later(1, finishBind{in}), later(2, failBind{in})}
		case got.code == overtaken || got.code == "":
			finish := later(1, finishBind{in})
			o.Output = outcome{status: http.StatusAccepted}
			return []porcupine.Operation{o, finish}
		}
	case deleteInstance:
		return []porcupine.Operation{o, later(1, deleteListed{in})}
	}
	return []porcupine.Operation{o}
}

func (p *pool) call(c *caller, _ int, input any) outcome {
	switch in := input.(type) {
	case readARQ:
		a := c.do(http.MethodGet, arqsPath+"/"+p.arqs[in.arq], accelerator22, nil)
		got := told(a)
		if a.status == http.StatusOK {
			w := arqWorld{}
			w.arqs[in.arq] = p.parse(a)
			got.body = w.show(in.arq)
		}
		return got
	case readInstance:
		a := c.do(http.MethodGet, arqsPath+"?instance="+p.instances[in.instance], accelerator22, nil)
		got := told(a)
		if a.status == http.StatusOK {
			got.body = p.parseList(a).showInstance(in.instance)
		}
		return got
	case bind:
		return told(p.patch(c, in.arq, "add", map[string]string{"hostname": p.host, "device_rp_uuid": p.gpus[in.gpu], "instance_uuid": p.instances[in.instance]}))
	case unbind:
		return told(p.patch(c, in.arq, "remove", map[string]string{"hostname": "", "device_rp_uuid": "", "instance_uuid": ""}))
	case deleteARQ:
		return told(c.do(http.MethodDelete, arqsPath+"?arqs="+p.arqs[in.arq], accelerator22, nil))
	case deleteInstance:
		return told(c.do(http.MethodDelete, arqsPath+"?instance="+p.instances[in.instance], accelerator22, nil))
	}
	panic(fmt.Sprintf("no such call: %T", input))
}

func (p *pool) patch(c *caller, arq int, op string, fields map[string]string) answer {
	var list []map[string]string
	for path, value := range fields {
		entry := map[string]string{"op": op, "path": "/" + path}
		if op == "add" {
			entry["value"] = value
		}
		list = append(list, entry)
	}
	return c.do(http.MethodPatch, arqsPath, accelerator22, map[string]any{p.arqs[arq]: list})
}

// told returns the outcome for a status and an error text.
func told(a answer) outcome {
	got := written(a)
	for _, cause := range []string{instanceInUse, notFound, badState, noHandle, overtaken} {
		if strings.Contains(got.code, cause) {
			got.code = cause
		}
	}
	return got
}

type arqBody struct {
	UUID     string
	State    bindState
	Provider string               `json:"device_rp_uuid"`
	Instance string               `json:"instance_uuid"`
	Handle   struct{ Bus string } `json:"attach_handle_info"`
}

// busOf is the PCI bus of a GPU of each host.
func busOf(gpu int) string { return fmt.Sprintf("%02x", 0x10+gpu) }

func (p *pool) parse(a answer) arq {
	var body arqBody
	a.decode(&body)
	return p.read(body)
}

// foreignHandle is in place of a GPU where the attach handle of a request does not belong to its
// resource provider.
const foreignHandle = -2

// read numbers what a body names. Whether the request holds the handle of its GPU follows from the state.
func (p *pool) read(body arqBody) arq {
	read := arq{state: body.State, gpu: -1, instance: -1, holds: body.State == bound}
	for i, id := range p.gpus {
		if id == body.Provider {
			read.gpu = i
		}
	}
	if bus := body.Handle.Bus; (bus != "" || read.holds) && (read.gpu < 0 || bus != busOf(read.gpu)) {
		read.gpu = foreignHandle
	}
	for i, id := range p.instances {
		if id == body.Instance {
			read.instance = i
		}
	}
	return read
}

func (p *pool) parseList(a answer) (w arqWorld) {
	var body struct{ ARQs []arqBody }
	a.decode(&body)
	for _, shown := range body.ARQs {
		for i, id := range p.arqs {
			if id == shown.UUID {
				w.arqs[i] = p.read(shown)
			}
		}
	}
	return w
}
