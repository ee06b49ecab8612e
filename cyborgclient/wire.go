package cyborgclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Time is a time of Cyborg, or zero for null and None.
type Time struct{ time.Time }

// UnmarshalJSON reads ISO 8601 and null, which lists and POST answer, and the
// text of a Python datetime ("2026-11-20 20:31:37+00:00") or of None, which GET
// of a device profile answers. A time without zone is UTC. Other text gives the
// zero time: the answer to a create must not be lost because of a time.
func (t *Time) UnmarshalJSON(data []byte) error {
	t.Time = time.Time{}
	var text string
	if plain := bytes.Trim(data, `"`); len(plain) == len(data)-2 && bytes.IndexByte(plain, '\\') < 0 {
		text = string(plain) // most of the cost of decoding a time is that of decoding its text
	} else if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if len(text) > len(time.DateOnly) && text[len(time.DateOnly)] == ' ' {
		text = text[:len(time.DateOnly)] + "T" + text[len(time.DateOnly)+1:]
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if parsed, err := time.Parse(layout, text); err == nil {
			t.Time = parsed.UTC()
			return nil
		}
	}
	return nil
}

// noGroup is the group of an accelerator request without one.
const noGroup = -1

// groupID is a group's index. Cyborg sends a number; some clients and older
// documents have a string.
type groupID int

// UnmarshalJSON implements json.Unmarshaler.
func (g *groupID) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" || text == strconv.Itoa(noGroup) {
		*g = noGroup
		return nil
	}
	index, err := strconv.Atoi(text)
	if err != nil || index < 0 || index > math.MaxInt32 {
		return fmt.Errorf("device_profile_group_id %s is not a group index", clip(string(data), 40))
	}
	*g = groupID(index)
	return nil
}

// group is one group of a device profile. Cyborg sends strings, and null for an
// accel: key without a value; numbers are accepted too.
type group map[string]groupValue

type groupValue string

// UnmarshalJSON implements json.Unmarshaler.
func (v *groupValue) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '"':
		return json.Unmarshal(data, (*string)(v))
	case '{', '[':
		return fmt.Errorf("group value %s is neither a string nor a number", clip(string(data), 40))
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

// wireProfile is a device profile in an answer. Lists are decoded in its form, because
// encoding/json reads a type with a method UnmarshalJSON several times.
type wireProfile struct {
	plainProfile
	Groups []group `json:"groups"`
}

type plainProfile DeviceProfile

func (w *wireProfile) profile() DeviceProfile {
	w.plainProfile.Groups = plainGroups(w.Groups)
	return DeviceProfile(w.plainProfile)
}

// wireARQ is an ARQ in an answer.
type wireARQ struct {
	plainARQ
	Group *groupID `json:"device_profile_group_id"`
}

type plainARQ ARQ

func (w *wireARQ) arq() ARQ {
	w.DeviceProfileGroupID = noGroup
	if w.Group != nil {
		w.DeviceProfileGroupID = int(*w.Group)
	}
	return ARQ(w.plainARQ)
}

// Attributes parses AttributesList and preserves its order. Text that is not a list
// of objects is an error that matches ErrMalformed.
func (d Deployable) Attributes() ([]Attribute, error) {
	if d.AttributesList == "" {
		return nil, nil
	}
	var objects []group
	if err := json.Unmarshal([]byte(d.AttributesList), &objects); err != nil {
		return nil, fmt.Errorf("cyborgclient: attributes_list of deployable %s: %w: %w", d.UUID, ErrMalformed, err)
	}
	var attributes []Attribute
	for _, object := range objects {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			attributes = append(attributes, Attribute{Key: key, Value: string(object[key])})
		}
	}
	return attributes, nil
}

// required returns a mandatory member of an answer; err is the error of decoding the answer.
func required[T any](key string, member *T, err error) (T, error) {
	if err == nil && member == nil {
		err = fmt.Errorf("the answer has no %q", key)
	}
	if err != nil {
		var none T
		return none, err
	}
	return *member, nil
}

// decodeObject decodes an object that is not wrapped in another; it must have a
// UUID.
func decodeObject[T any](body []byte) (*T, error) {
	var object struct {
		UUID string `json:"uuid"`
	}
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	if object.UUID == "" {
		return nil, errors.New("the answer has no uuid")
	}
	return &value, nil
}
