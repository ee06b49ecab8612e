package transfer

import "testing"

// The version of a UUID says whose a resource provider is: Cyborg's are of version 3.
func TestAReplacedUUIDKeepsItsVersion(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1f6a53c2b0003d0b9f0c2f7d3a526a0e", "1f6a53c2b0004d0b9f0c2f7d3a526a0e", "1f6a53c2b0005d0b9f0c2f7d3a526a0e"} {
		x := &anonymizer{Anonymization: Anonymization{IDs: true, Seed: 7}, ids: map[string]string{}, labels: map[string]string{}, names: map[string]string{}}
		x.learn("uuid", text)
		if got := x.ids[text]; len(got) != 36 || got[14] != text[12] {
			t.Errorf("%s became %q", text, got)
		}
	}
}
