package placementsim

import (
	"embed"
	"regexp"
	"sync"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/uuids"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// loadSchemas compiles the embedded files once. They are part of the program,
// so a failure is a defect that every test meets.
var loadSchemas = sync.OnceValues(func() (*schema.Set, error) {
	return schema.Load(schemaFiles, "schemas", uuids.Like)
})

// validate checks a value against the schema of a name.
func validate(name string, value any) error {
	schemas, err := loadSchemas()
	if err != nil {
		return err
	}
	return schemas.Validate(name, value)
}

var (
	customName   = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)
	dashedUUID   = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	consumerType = regexp.MustCompile(`^([A-Z0-9_]+|unknown|all.*)$`)
)

// maxName is the longest name of a trait or resource class.
const maxName = 255
