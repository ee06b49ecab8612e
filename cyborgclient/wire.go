package cyborgclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// timestamp reads a time of Cyborg. Lists and POST answers carry ISO 8601
// ("2026-11-20T20:31:37+00:00") or null; GET of one device profile carries
// Python's text of a datetime ("2026-11-20 20:31:37+00:00") or of None
// ("None"). Text that is no time at all is read as no time: a time is
// information, and to lose the answer of a create over it would lose devices.
type timestamp struct{ time *time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *timestamp) UnmarshalJSON(data []byte) error {
	t.time = nil
	if string(data) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	t.time = parseTime(text)
	return nil
}

// decodeTimed decodes a resource whose times have one of the forms that timestamp
// reads, and which has no other trouble.
func decodeTimed(data []byte, resource any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	for _, key := range []string{"created_at", "updated_at"} {
		var at timestamp
		if raw, ok := object[key]; !ok {
			continue
		} else if err := json.Unmarshal(raw, &at); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		text, err := json.Marshal(at.time)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		object[key] = text
	}
	plain, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, resource)
}

// parseTime tries the layouts seen on the wire. A time without zone is UTC,
// which is what Cyborg stores.
func parseTime(text string) *time.Time {
	for _, layout := range []string{
		time.RFC3339,
		"2006-01-02 15:04:05Z07:00",
		"2006-01-02T15:04:05",
		"2006-01-02 15:04:05",
	} {
		if parsed, err := time.Parse(layout, text); err == nil {
			parsed = parsed.UTC()
			return &parsed
		}
	}
	return nil
}

// groupID is a group's index, as a number or as text: Cyborg sends a number,
// some clients and older documents have text.
type groupID int

// UnmarshalJSON implements json.Unmarshaler.
func (g *groupID) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" || text == strconv.Itoa(NoGroup) {
		*g = NoGroup
		return nil
	}
	index, err := strconv.Atoi(text)
	if err != nil || index < 0 || index > math.MaxInt32 {
		return fmt.Errorf("device_profile_group_id %s is not a group index", clip(string(data), 40))
	}
	*g = groupID(index)
	return nil
}

// group is one group of a device profile. Cyborg sends text for every value,
// except null for an accel: key without one; numbers are accepted too.
type group map[string]groupValue

// groupValue is one value of a group as text.
type groupValue string

// UnmarshalJSON implements json.Unmarshaler.
func (v *groupValue) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(v))
	case '{', '[':
		return fmt.Errorf("group value %s is neither text nor number", clip(string(data), 40))
	case 'n':
		*v = ""
	default: // a number, true or false: its JSON text
		*v = groupValue(data)
	}
	return nil
}

func plainGroups(groups []group) []map[string]string {
	if groups == nil {
		return nil
	}
	plain := make([]map[string]string, len(groups))
	for i, g := range groups {
		plain[i] = make(map[string]string, len(g))
		for key, value := range g {
			plain[i][key] = string(value)
		}
	}
	return plain
}

// Pairs reads AttributesList: the attributes in the order in which Cyborg
// lists them. An empty text is no attributes; text that is not a list of
// objects is an error for which errors.Is(err, ErrMalformed) holds.
func (d Deployable) Pairs() ([]Pair, error) {
	if d.AttributesList == "" {
		return nil, nil
	}
	var objects []group
	if err := json.Unmarshal([]byte(d.AttributesList), &objects); err != nil {
		return nil, fmt.Errorf("cyborgclient: attributes_list of deployable %s: %w: %w", d.UUID, ErrMalformed, err)
	}
	var pairs []Pair
	for _, object := range objects {
		for _, key := range sortedKeys(object) {
			pairs = append(pairs, Pair{Key: key, Value: string(object[key])})
		}
	}
	return pairs, nil
}

// member decodes one required member of a JSON object into value. An answer
// without it, or with null, is not one of Cyborg's.
func member(data []byte, key string, value any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	raw, ok := object[key]
	if !ok || bytes.Equal(raw, []byte("null")) {
		return fmt.Errorf("the answer has no %q", key)
	}
	return json.Unmarshal(raw, value)
}
