package requestspec

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// rockyForm is the granular syntax of the Rocky specification. A blank after
	// the colon is how the specification prints it.
	rockyForm = regexp.MustCompile(`^(resources|traits?|others)([1-9][0-9]{0,4})?(?::\s*(.*))?$`)
	// otherForm is what Nova does not interpret: in a key of its own, or behind othersN.
	otherForm = regexp.MustCompile(`^(function|function_name|bitstream|bitstream_id|bitstream_name):\s*(.+)$`)
)

// parseRocky reads one extra spec; false for one of no concern. The name may
// stand in the value, as in resources1: CUSTOM_ACCELERATOR_FPGA=1 read from a
// file of keys and values.
func parseRocky(key, text string) (number int, e rockyEntry, ok bool) {
	e = rockyEntry{key: key, text: text, value: strings.TrimSpace(text)}
	if m := otherForm.FindStringSubmatch(key); m != nil {
		e.kind, e.name = otherKind(m[1]), strings.TrimSpace(m[2])
		return 0, e, true
	}
	m := rockyForm.FindStringSubmatch(key)
	if m == nil {
		return 0, e, false
	}
	number, _ = strconv.Atoi(m[2]) // empty: 0
	e.kind, e.name = m[1], strings.TrimSpace(m[3])
	if e.name == "" && !strings.Contains(key, ":") {
		at := strings.LastIndexByte(text, '=')
		if at < 0 {
			return 0, e, false
		}
		e.name, e.value = strings.TrimSpace(text[:at]), strings.TrimSpace(text[at+1:])
	}
	switch e.kind {
	case "traits":
		e.kind = prefixTrait
	case "others":
		other := otherForm.FindStringSubmatch(e.name)
		if other == nil {
			return 0, e, false
		}
		e.kind, e.name = otherKind(other[1]), strings.TrimSpace(other[2])
	}
	return number, e, true
}

// otherKind is the key of the profile's group, less accel:, but for functions,
// whose name is taken apart.
func otherKind(word string) string {
	if word == "bitstream" {
		return "bitstream_id"
	}
	return word
}
