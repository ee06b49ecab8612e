package driver

import (
	"errors"
	"fmt"
	"strings"
)

// Attribute is one key and value of a deployable.
type Attribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// The attribute keys of upstream's drivers: rc has the resource class, and every key that
// begins with "trait" has a trait.
const (
	keyClass    = "rc"
	prefixTrait = "trait"
	fakeDriver  = "fake"
)

// AttributeList returns class, traits and further attributes as Cyborg stores and lists
// them: with the keys rc, trait0, trait1 and so on. Upstream's fake driver counts from
// traits1 and puts the class last.
func (d Deployable) AttributeList() []Attribute {
	list := make([]Attribute, 0, 1+len(d.Traits)+len(d.Attributes))
	key, first := prefixTrait, 0
	if d.DriverName == fakeDriver {
		key, first = "traits", 1
	} else if d.Class != "" {
		list = append(list, Attribute{keyClass, d.Class})
	}
	for i, trait := range d.Traits {
		list = append(list, Attribute{fmt.Sprint(key, first+i), trait})
	}
	if d.DriverName == fakeDriver && d.Class != "" {
		list = append(list, Attribute{keyClass, d.Class})
	}
	return append(list, d.Attributes...)
}

// SetAttributeList sets Class, Traits and Attributes from such a list. The conductor of
// upstream finds class and traits by these keys, too.
func (d *Deployable) SetAttributeList(list []Attribute) {
	d.Class, d.Traits, d.Attributes = "", nil, nil
	for _, a := range list {
		switch {
		case a.Key == keyClass && d.Class == "":
			d.Class = a.Value
		case strings.HasPrefix(a.Key, prefixTrait):
			d.Traits = append(d.Traits, a.Value)
		default:
			d.Attributes = append(d.Attributes, a)
		}
	}
}

// UnmarshalJSON decodes a deployable. Class and traits may also be in attribute_list, as
// upstream's drivers report them. Unknown fields are refused.
func (d *Deployable) UnmarshalJSON(data []byte) error {
	type fields Deployable
	var in fields
	if err := DecodeStrict(data, &in); err != nil {
		return err
	}
	listed := Deployable{}
	listed.SetAttributeList(in.Attributes)
	if listed.Class != "" && in.Class != "" || len(listed.Traits) > 0 && len(in.Traits) > 0 {
		return errors.New("class or traits are given twice, once of them in attribute_list")
	}
	in.Class += listed.Class
	in.Traits = append(in.Traits, listed.Traits...)
	in.Attributes = listed.Attributes
	*d = Deployable(in)
	return nil
}
