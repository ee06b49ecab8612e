package driver

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
