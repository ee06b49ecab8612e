package keystone

import (
	"embed"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

var loadSchemas = sync.OnceValues(func() (*schema.Set, error) {
	return schema.Load(schemaFiles, "schemas", func(string) bool { return true })
})

// decodeValid decodes what a schema allows. The error says what it does not allow, as Keystone does, but does not
// quote the rest of the body, which may have a secret.
func decodeValid(name string, data []byte, into any) error {
	schemas, err := loadSchemas()
	if err != nil {
		return err
	}
	value, err := schema.Decode(data)
	if err != nil {
		return simhttp.Refuse(http.StatusBadRequest, "Malformed JSON in request body.")
	}
	var violation *schema.Violation
	switch err := schemas.Validate(name, value); {
	case errors.As(err, &violation) && len(violation.Path) > 0:
		return simhttp.Refuse(http.StatusBadRequest, "Invalid input for field '%s': %s", strings.Join(violation.Path, "/"), violation.Phrase)
	case err != nil:
		return simhttp.Refuse(http.StatusBadRequest, "%s", violation.Phrase)
	}
	return json.Unmarshal(data, into)
}
