package driver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Snapshotter is implemented by drivers whose state is not all in their configuration and
// their tree, and by trees. A driver without it can be made anew at any time.
type Snapshotter interface {
	// Dump returns what the driver remembers as one JSON document with the field
	// schema_version. The same state gives the same bytes, and a driver that has loaded a
	// dump gives the same dump.
	Dump() ([]byte, error)
	// Load makes the driver remember what a dump of a driver of the same configuration
	// says, in place of all it remembered. The error matches ErrSnapshot, and the driver
	// is as it was.
	Load(data []byte) error
}

// SnapshotSchema is the schema_version of the snapshots of this module.
const SnapshotSchema = 1

// DecodeSnapshot decodes a snapshot strictly and checks its schema_version, which is at
// version afterwards.
func DecodeSnapshot(data []byte, into any, version *int) error {
	if err := DecodeStrict(data, into); err != nil {
		return err
	}
	if *version != SnapshotSchema {
		return fmt.Errorf("schema_version %d, want %d", *version, SnapshotSchema)
	}
	return nil
}

// DecodeStrict decodes one JSON value, with no unknown field and nothing after it.
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
