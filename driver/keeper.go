package driver

// Keeper is implemented by drivers that remember something at run time which is neither in
// their configuration nor in their tree. A driver without it can be made anew at any time.
type Keeper interface {
	// Dump returns what the driver remembers as one JSON document with the field
	// schema_version. The same state gives the same bytes, and a driver that has loaded a
	// dump gives the same dump.
	Dump() ([]byte, error)
	// Load makes the driver remember what a dump of a driver of the same configuration
	// says, in place of all it remembered. With an error the driver is as it was.
	Load(data []byte) error
}
