package statuspage

import (
	"html/template"
	"regexp"
	"slices"
	"strings"
)

// word is a term of the page, with its other names, and what it means.
type word struct {
	Terms   []string
	Meaning string
}

// words are the terms that the page explains. A term comes before its own beginning.
var words = []word{
	{[]string{"accelerator request", "ARQ"}, "Cyborg's record of one accelerator for one instance. It is created from a device profile, bound to a device of a host, and deleted with the instance."},
	{[]string{"allocation candidate"}, "A set of resource providers that can serve a request, as GET /allocation_candidates answers it."},
	{[]string{"allocation"}, "Placement's record that an instance uses an amount of a resource class of a resource provider."},
	{[]string{"attach handle"}, "One unit of a device that Cyborg can give to an instance, such as a PCI function or a mediated device."},
	{[]string{"device profile"}, "A named list of the accelerators that a flavor requests, with their resource classes and traits."},
	{[]string{"guest"}, "An instance that runs on a host, with its libvirt domain."},
	{[]string{"leak"}, "A resource that no running instance owns, or an instance that lacks a device."},
	{[]string{"mediated device", "mdev"}, "A part of a card, such as a vGPU, that the kernel creates and libvirt attaches by its UUID."},
	{[]string{"resource class"}, "The name of a resource that is counted, such as PGPU or VGPU."},
	{[]string{"resource provider", "RP"}, "A host, a card or a part of a card, with its inventory in Placement."},
	{[]string{"trait"}, "A property of a resource provider that a request can require, such as CUSTOM_GPU_NVIDIA."},
}

var terms = regexp.MustCompile(`\b(?:` + strings.Join(patterns(words), "|") + `)s?\b`)

// patterns are the terms as regular expressions. An abbreviation in capitals is found in capitals only.
func patterns(words []word) (list []string) {
	for _, w := range words {
		for _, term := range w.Terms {
			if term == strings.ToUpper(term) {
				list = append(list, term)
			} else {
				list = append(list, "(?i:"+term+")")
			}
		}
	}
	return list
}

// meaning is what a term means, in the singular or in the plural.
func meaning(term string) string {
	at := slices.IndexFunc(words, func(w word) bool {
		return slices.ContainsFunc(w.Terms, func(t string) bool { return strings.EqualFold(strings.TrimSuffix(term, "s"), t) })
	})
	if at < 0 {
		return ""
	}
	return words[at].Meaning
}

// explained is a text with the meaning of each term at its first occurrence.
func explained(text string) template.HTML {
	var b strings.Builder
	seen := make(map[string]bool)
	from := 0
	for _, at := range terms.FindAllStringIndex(text, -1) {
		term := text[at[0]:at[1]]
		if means := meaning(term); !seen[means] {
			seen[means] = true
			b.WriteString(template.HTMLEscapeString(text[from:at[0]]) + `<abbr title="` + template.HTMLEscapeString(means) + `">` + term + `</abbr>`)
			from = at[1]
		}
	}
	b.WriteString(template.HTMLEscapeString(text[from:]))
	return template.HTML(b.String())
}
