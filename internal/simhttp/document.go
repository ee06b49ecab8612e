package simhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// DecodeStrict decodes one JSON value without unknown members, which nothing may follow.
func DecodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

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
