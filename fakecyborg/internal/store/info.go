package store

import (
	"encoding/json"

	"github.com/gocyborg/gocyborg/driver"
)

// Info is the information of an attach handle as [driver.Info.Key] writes it. A map for each
// of hundreds of thousands of handles would be most of the server's memory.
type Info string

// MarshalJSON writes the object.
func (i Info) MarshalJSON() ([]byte, error) { return []byte(i), nil }

// UnmarshalJSON reads the object.
func (i *Info) UnmarshalJSON(data []byte) error {
	var info driver.Info
	if err := json.Unmarshal(data, &info); err != nil {
		return err
	}
	*i = Info(info.Key())
	return nil
}

// Map is the information by name.
func (i Info) Map() driver.Info {
	var info driver.Info
	_ = json.Unmarshal([]byte(i), &info) // it was written by driver.Info.Key
	return info
}
