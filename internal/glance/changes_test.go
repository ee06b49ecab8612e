package glance_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
)

func TestTheRecordedChangesAreTheDifference(t *testing.T) {
	t.Parallel()
	told := make(map[string]int)
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := newClient(t)
		var last sim.Exchange
		c.server.Service.Observe = func(e sim.Exchange) { last = e }
		for range 100 {
			before := c.things()
			id := fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", rng.IntN(3))
			token := []string{"admin", "demo:demo", "other:other"}[rng.IntN(3)]
			const images = "/v2/images"
			switch rng.IntN(4) {
			case 0:
				c.send(token, "POST", images, fmt.Sprintf(`{"id":%q,"name":"n","visibility":"public"}`, id))
			case 1:
				ops := []string{
					`[{"op":"add","path":"/p","value":""}]`, `[{"op":"add","path":"/p","value":"v"}]`, `[{"op":"remove","path":"/p"}]`,
					`[{"op":"replace","path":"/name","value":"m"},{"op":"remove","path":"/absent"}]`, `[{"op":"replace","path":"/name","value":"m"}]`, `[]`,
				}
				c.send(token, "PATCH", images+"/"+id, ops[rng.IntN(len(ops))])
			case 2:
				c.send(token, "PUT", images+"/"+id+"/file", "bits")
			case 3:
				c.send(token, "DELETE", images+"/"+id, "")
			}
			noted := []string{}
			for _, change := range last.Changes {
				noted = append(noted, change.Action+" "+change.Kind+" "+change.ID)
				told[change.Action]++
			}
			if diff := cmp.Diff(until(before, c.things()), noted); diff != "" {
				t.Fatalf("seed %d: %s %s answered %d: what differs and what is noted (-differs +noted):\n%s", seed, last.Method, last.Path, last.Status, diff)
			}
		}
	}
	for _, action := range []string{"created", "changed", "deleted"} {
		if told[action] == 0 {
			t.Errorf("the requests never %s an image", action)
		}
	}
}

// things are the images by id, without the times.
func (c client) things() map[string]string {
	all := make(map[string]string)
	for _, i := range c.server.Images() {
		all[i.ID] = fmt.Sprintf("%q %q %v %q %q %v", i.Name, i.Owner, i.Tags, i.Properties, i.Data, i.Data == nil)
	}
	return all
}

func until(before, after map[string]string) []string {
	diff := []string{}
	for id, value := range before {
		if now, still := after[id]; !still {
			diff = append(diff, "deleted image "+id)
		} else if now != value {
			diff = append(diff, "changed image "+id)
		}
	}
	for id := range after {
		if _, there := before[id]; !there {
			diff = append(diff, "created image "+id)
		}
	}
	slices.Sort(diff)
	return diff
}

func TestChangesOfAnImageInWords(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	var last sim.Exchange
	c.server.Service.Observe = func(e sim.Exchange) { last = e }
	const one = "/v2/images/" + imageA
	c.want(201, "admin", "POST", "/v2/images", `{"id":"`+imageA+`","name":"gzip"}`)
	c.want(204, "admin", "PUT", one+"/file", "bits")
	if diff := cmp.Diff([]sim.Change{{Action: "changed", Kind: "image", ID: imageA, What: "gzip: status queued -> active, size none -> 4"}}, last.Changes); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	c.want(200, "admin", "PATCH", one, `[{"op":"replace","path":"/name","value":"gzip 2"},{"op":"add","path":"/accel:bitstream_name","value":"g"}]`)
	if diff := cmp.Diff([]sim.Change{{Action: "changed", Kind: "image", ID: imageA, What: `gzip 2: name gzip -> gzip 2, properties none -> {"accel:bitstream_name":"g"}`}}, last.Changes); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}
