package fakecyborg

import (
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/gocyborg/gocyborg/driver"
)

// packedInfo is the information of an attach handle: names and values in turn,
// ordered by name. There may be hundreds of thousands of handles, and a map for
// each would be most of the server's memory.
type packedInfo []string

func pack(info driver.Info) packedInfo {
	p := make(packedInfo, 0, 2*len(info))
	for _, name := range slices.Sorted(maps.Keys(info)) {
		p = append(p, unique.Make(name).Value(), unique.Make(info[name]).Value())
	}
	return p
}

// info is what was packed.
func (p packedInfo) info() driver.Info {
	info := make(driver.Info, len(p)/2)
	for i := 0; i < len(p); i += 2 {
		info[p[i]] = p[i+1]
	}
	return info
}

// key is the key of the information, see [driver.Info.Key].
func (p packedInfo) key() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, text := range p {
		if strings.ContainsFunc(text, escaped) {
			return p.info().Key() // JSON has its own way of writing this
		}
		switch {
		case i%2 == 1:
			b.WriteByte(':')
		case i > 0:
			b.WriteByte(',')
		}
		b.WriteByte('"')
		b.WriteString(text)
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// escaped reports whether encoding/json would write a character in another way.
func escaped(r rune) bool {
	return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
}

// spec is the handle as its driver reported it.
func (h *handleRow) spec() driver.AttachHandle {
	return driver.AttachHandle{Type: h.kind, Info: h.info.info()}
}
