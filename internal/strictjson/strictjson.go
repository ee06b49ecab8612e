package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// SnapshotVersion is the schema_version of the snapshots of this module.
const SnapshotVersion = 1

// Decode decodes one JSON value, with no unknown field and nothing after it.
func Decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if len(bytes.Trim(data[dec.InputOffset():], " \t\r\n")) > 0 {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// DecodeSnapshot decodes a snapshot and checks its schema_version, which is at version
// afterwards.
func DecodeSnapshot(data []byte, into any, version *int) error {
	if err := Decode(data, into); err != nil {
		return err
	}
	if *version != SnapshotVersion {
		return fmt.Errorf("schema_version %d, want %d", *version, SnapshotVersion)
	}
	return nil
}
