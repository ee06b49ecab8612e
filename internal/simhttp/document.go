package simhttp

import (
	"fmt"
	"time"
)

// LastYear is the last year of a time in JSON.
const LastYear = 9999

// CheckTime refuses a time that cannot stand in JSON once it is in UTC, and the zero one.
func CheckTime(name string, t time.Time) error {
	switch year := t.UTC().Year(); {
	case t.IsZero():
		return fmt.Errorf("%s is missing", name)
	case year < 0 || year > LastYear:
		return fmt.Errorf("%s is in the year %d", name, year)
	}
	return nil
}
