package leaks

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/fakecyborg"
)

// Usage draws what is in use as a tree: providers, their attach handles and accelerator
// requests, and consumers.
func Usage(state State) string {
	s := index(state)
	var b strings.Builder
	b.WriteString("in use:\n")
	used := make(map[string][]string) // lines by provider
	for _, c := range s.consumers {
		for _, a := range c.allocations {
			used[a.Provider] = append(used[a.Provider], fmt.Sprintf("%s:%d allocated to %s", a.Class, a.Used, c.id))
		}
	}
	for _, h := range s.handles {
		if h.InUse {
			arq := new(fakecyborg.ARQ)
			if h.holder != nil {
				arq = h.holder.ARQ
			}
			used[h.ProviderUUID] = append(used[h.ProviderUUID], fmt.Sprintf("%s %s held by ARQ %s (%s), instance %s",
				h.Type, deviceText(h.Type, h.UUID, h.Info), orNone(h.ARQ), orNone(string(arq.State)), orNone(arq.InstanceUUID)))
		}
	}
	byName := func(a, b string) int {
		return cmp.Or(strings.Compare(s.providerText(a), s.providerText(b)), strings.Compare(a, b))
	}
	for _, id := range slices.SortedFunc(maps.Keys(used), byName) {
		fmt.Fprintf(&b, "  %s %s\n", s.providerText(id), id)
		for _, line := range used[id] {
			fmt.Fprintf(&b, "    %s\n", line)
		}
	}
	for _, r := range s.requests {
		if r.AttachHandleUUID == "" {
			fmt.Fprintf(&b, "  %s without a handle, instance %s\n", r.text(), orNone(r.InstanceUUID))
		}
	}
	for _, g := range s.guests {
		fmt.Fprintf(&b, "  guest %s on host %s\n", g.UUID, orNone(g.Host))
	}
	return b.String()
}

func orNone(text string) string { return cmp.Or(text, "none") }
