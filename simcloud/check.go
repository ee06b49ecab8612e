package simcloud

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gocyborg/gocyborg/internal/plural"
	"github.com/gocyborg/gocyborg/sim"
)

// maxShown is how many of the last requests a failed check shows.
const maxShown = 15

// CheckNoLeaks fails the test if [Cloud.Leaks] finds anything. The text has a sentence
// for each leak, then what is in use as a tree, then the last requests.
func (c *Cloud) CheckNoLeaks(t sim.TB) {
	t.Helper()
	leaks := c.Leaks()
	if len(leaks) == 0 {
		return
	}
	text := "simcloud: " + plural.Count(len(leaks), "leak") + ":\n"
	for _, l := range leaks {
		text += "  " + l.Text + "\n"
	}
	t.Errorf("%s", text+c.Summary())
}

// Summary is what failing checks show of a cloud: what is in use as a tree, then the last
// requests.
func (c *Cloud) Summary() string { return c.look().tree() + lastRequests(c.Requests()) }

// tree draws what is in use: provider, attach handle or request, and consumer.
func (w *view) tree() string {
	var b strings.Builder
	b.WriteString("in use:\n")
	providers := make(map[string]bool)
	for _, consumer := range w.consumers {
		for _, a := range w.allocations[consumer] {
			providers[a.provider] = true
		}
	}
	for _, h := range w.handles {
		if h.InUse {
			providers[h.ProviderUUID] = true
		}
	}
	sorted := make([]string, 0, len(providers))
	for id := range providers {
		sorted = append(sorted, id)
	}
	slices.SortFunc(sorted, func(a, b string) int { return strings.Compare(w.providerText(a), w.providerText(b)) })
	for _, id := range sorted {
		w.drawProvider(&b, id)
	}
	for _, a := range w.arqs {
		if a.AttachHandleUUID == "" {
			fmt.Fprintf(&b, "  %s without a handle, instance %s\n", w.arqText(a), orNone(a.InstanceUUID))
		}
	}
	for _, g := range w.guests {
		fmt.Fprintf(&b, "  guest %s on host %s\n", g.UUID, orNone(g.Host))
	}
	return b.String()
}

func (w *view) drawProvider(b *strings.Builder, id string) {
	fmt.Fprintf(b, "  %s %s\n", w.providerText(id), id)
	for _, consumer := range w.consumers {
		for _, a := range w.allocations[consumer] {
			if a.provider == id {
				fmt.Fprintf(b, "    %s:%d allocated to %s\n", a.class, a.used, consumer)
			}
		}
	}
	for _, h := range w.handles {
		if h.InUse && h.ProviderUUID == id {
			arq := w.arqByUUID[h.ARQ]
			fmt.Fprintf(b, "    %s %s taken by ARQ %s (%s), instance %s\n",
				h.Type, deviceText(h.Type, h.UUID, h.Info), orNone(h.ARQ), orNone(string(arq.State)), orNone(arq.InstanceUUID))
		}
	}
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func lastRequests(list []sim.Exchange) string {
	var b strings.Builder
	b.WriteString("last requests:\n")
	for _, r := range list[max(0, len(list)-maxShown):] {
		path := r.Path
		if r.Query != "" {
			path += "?" + r.Query
		}
		fmt.Fprintf(&b, "  %s %s: %d", r.Method, path, r.Status)
		if r.Fault != "" {
			fmt.Fprintf(&b, " (fault: %s)", r.Fault)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
