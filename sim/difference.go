package sim

import (
	"strings"
	"time"
)

// Difference is a row that only one of two states has, or a value in which a row differs.
type Difference struct {
	// Path is TABLE[KEY], or TABLE[KEY].FIELD and further into the row. The key is followed
	// by the name or UUID of the row, if it has one.
	Path string `json:"path"`
	// Before and After are JSON values, empty where there is none.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// String is one line: "+ path: value", "- path: value" or "  path: before -> after".
func (d Difference) String() string {
	switch {
	case d.Before == "":
		return "+ " + d.Path + ": " + d.After
	case d.After == "":
		return "- " + d.Path + ": " + d.Before
	}
	return "  " + d.Path + ": " + d.Before + " -> " + d.After
}

// IsTime reports whether the value is a time in both states.
func (d Difference) IsTime() bool {
	for _, text := range []string{d.Before, d.After} {
		if _, err := time.Parse(`"`+time.RFC3339Nano+`"`, text); err != nil {
			return false
		}
	}
	return true
}

// IsToken reports whether the difference is in a table of tokens.
func (d Difference) IsToken() bool {
	table, _, _ := strings.Cut(d.Path, "[")
	return strings.HasSuffix(table, ".tokens")
}
