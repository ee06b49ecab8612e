package sim

import "fmt"

// Collation is how the databases of the services compare names and identifiers. What a service compares in Python, it compares
// byte by byte with each of them, such as traits and resource classes in Placement.
type Collation string

// The collations.
const (
	// CollationMySQL compares without regard to case, accents and trailing blanks, as MariaDB and MySQL do by default:
	// "GPU" exists if "gpu" does. Most clouds run on one of them.
	CollationMySQL Collation = "mysql"
	// CollationBinary compares byte by byte, as SQLite and PostgreSQL do.
	CollationBinary Collation = "binary"
)

// Check refuses an unknown collation. The empty one is the default of its service.
func (c Collation) Check() error {
	switch c {
	case "", CollationMySQL, CollationBinary:
		return nil
	}
	return fmt.Errorf("unknown collation %q (known: %s, %s)", c, CollationMySQL, CollationBinary)
}
