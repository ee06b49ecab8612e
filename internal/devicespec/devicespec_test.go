package devicespec_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/devicespec"
)

// read returns the addresses of the entries that have one.
func read(text string) ([]devicespec.Address, error) {
	entries, err := devicespec.Entries(text)
	var list []devicespec.Address
	for _, data := range entries {
		var entry struct{ Address *devicespec.Address }
		if err := json.Unmarshal(data, &entry); err != nil {
			return nil, err
		}
		if entry.Address == nil {
			continue
		}
		if _, err := entry.Address.Pattern(); err != nil {
			return nil, err
		}
		list = append(list, *entry.Address)
	}
	return list, err
}

// A value of [pci]device_spec is read or refused, and an address that was read is the same
// when it is written and read again.
func FuzzEntries(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"address": "0000:0a:00.*"}`, `{"address": "*:0a:00.*", "physical_network": "x"}`, `{"address": "*"}`,
		`[{"vendor_id": "8086"}, {"address": {"bus": "0[a-c]"}}]`, `{"address": {"function": "("}}`, `{"address": "0a:00.9"}`, `null`, `[null]`,
	} {
		f.Add(seed, uint16(0), byte(0x0a), byte(0), byte(1))
	}
	f.Fuzz(func(t *testing.T, text string, domain uint16, bus, slot, function byte) {
		addresses, err := read(text)
		if err != nil {
			return
		}
		for _, address := range addresses {
			data, err := json.Marshal(address)
			if err != nil {
				t.Fatal(err)
			}
			again, err := read(`{"address": ` + string(data) + `}`)
			if diff := cmp.Diff([]devicespec.Address{address}, again); err != nil || diff != "" {
				t.Errorf("%s: %v, read again (-want +got):\n%s", data, err, diff)
			}
			pattern, err := address.Pattern()
			if err != nil {
				t.Fatal(err)
			}
			pattern.Match(uint(domain), uint(bus), uint(slot), uint(function))
		}
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`"0000:3b:0a.1"`:                     true,
		`"00000000:3B:a.1"`:                  true,
		`"0:3b:0x0a.1"`:                      true,
		`"10000:3b:0a.1"`:                    false,
		`"3b:0a.*"`:                          true,
		`"3b:0a.0"`:                          false,
		`"3b:0a"`:                            true,
		`":0a."`:                             true,
		`"*:*:0b.*"`:                         false,
		`".1"`:                               true,
		`"*"`:                                true,
		`""`:                                 true,
		`{}`:                                 true,
		`{"bus": "3[a-c]", "slot": "0a"}`:    true,
		`{"bus": "3"}`:                       true,
		`{"bus": "3$"}`:                      false,
		`{"bus": "b"}`:                       false,
		`{"bus": "3B"}`:                      false,
		`{"slot": "a"}`:                      false,
		`{"domain": "0", "function": "2|1"}`: true,
	} {
		addresses, err := read(`{"address": ` + text + `}`)
		if err != nil || len(addresses) != 1 {
			t.Errorf("%s: %v, %v", text, addresses, err)
			continue
		}
		pattern, err := addresses[0].Pattern()
		if err != nil || pattern.Match(0, 0x3b, 0x0a, 1) != want {
			t.Errorf("%s: %v; want a match: %t", text, err, want)
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		``:                              "neither an object nor a list of objects in JSON: unexpected end",
		`{}, {}`:                        "neither an object nor a list of objects in JSON: invalid character",
		`null`:                          "neither an object nor a list of objects",
		`[{}, null]`:                    "neither an object nor a list of objects",
		`[[{}]]`:                        "neither an object nor a list of objects",
		`{"address": 7}`:                "address: neither a string nor an object of expressions",
		`{"address": {"buss": "1"}}`:    `unknown field "buss"`,
		`{"address": {"bus": "("}}`:     `address bus "("`,
		`{"address": {"bus": "a)|(b"}}`: `address bus "a)|(b"`,
		`{"address": "1:2:3:4"}`:        `address "1:2:3:4" has more than domain, bus and slot`,
		`{"address": "nowhere"}`:        `address slot "nowhere" is neither * nor a hexadecimal number up to 1f`,
		`{"address": "00:20.0"}`:        `address slot "20"`,
		`{"address": "00:00.8"}`:        `address function "8"`,
		`{"address": "-1:00:00.0"}`:     `address domain "-1"`,
	} {
		if addresses, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", text, addresses, err, want)
		}
	}
}
