package requestspec

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	// rockyForm is the granular syntax of the Rocky specification, which prints a
	// space after the colon.
	rockyForm = regexp.MustCompile(`^(resources|traits?|others)([1-9][0-9]{0,4})?(?::\s*(.*))?$`)
	// otherForm matches programming keys, alone or after othersN.
	otherForm = regexp.MustCompile(`^(function|function_name|bitstream|bitstream_id|bitstream_name):\s*(.+)$`)
)

// parseRocky parses one extra spec; ok is false for others. The name may be part of
// the value, as in resources1: CUSTOM_ACCELERATOR_FPGA=1 of a file of keys and
// values.
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

// otherKind returns the key of the profile's group without accel:.
func otherKind(word string) string {
	if word == "bitstream" {
		return "bitstream_id"
	}
	return word
}
