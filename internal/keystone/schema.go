package keystone

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/internal/simhttp"
)

//go:embed schemas/*.json
var schemaFiles embed.FS

// library is the release of jsonschema that Keystone 30 was compared with.
const library schema.Library = 26

var loadSchemas = sync.OnceValues(func() (*schema.Set, error) {
	set, err := schema.Load(schemaFiles, "schemas", func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	return set.In(library), nil
})

// decodeValid decodes what a schema allows. Otherwise it returns a refusal with the text that describe makes of the
// violation, which quotes no password, secret or token.
func decodeValid(name string, data []byte, describe func(*schema.Violation) string, into any) error {
	schemas, err := loadSchemas()
	if err != nil {
		return err
	}
	value, err := schema.Decode(data)
	if err != nil {
		return malformed("valid JSON", "request body")
	}
	var violation *schema.Violation
	if err := schemas.First(name, withoutSecrets("", "", value)); errors.As(err, &violation) {
		return simhttp.Refuse(http.StatusBadRequest, "%s", describe(violation))
	} else if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// describeAttribute is the text of keystone/api/validation, which names the last step of the path.
func describeAttribute(v *schema.Violation) string {
	if len(v.Path) == 0 {
		return v.Phrase
	}
	value, isText := v.Value().(string)
	if !isText {
		value = schema.Repr(v.Value())
	}
	return fmt.Sprintf("Invalid input for field/attribute %s. Value: %s. %s", v.Path[len(v.Path)-1], value, v.Phrase)
}

// describeField is the text of keystone/common/validation, which names the whole path and shows the schema.
func describeField(v *schema.Violation) string {
	if len(v.Path) == 0 {
		return v.Error()
	}
	return fmt.Sprintf("Invalid input for field '%s': %s", strings.Join(v.Path, "/"), v)
}

// withoutSecrets is a value whose passwords, secrets and tokens are replaced by others of the same type. The real
// service quotes them in its errors.
func withoutSecrets(parent, key string, value any) any {
	isSecret := key == "password" || key == "secret" || key == "passcode" || parent == "token" && key == "id"
	switch value := value.(type) {
	case *schema.Object:
		shown := new(schema.Object)
		for name, member := range value.All() {
			shown.Set(name, withoutSecrets(key, name, member))
		}
		return shown
	case []any:
		shown := make([]any, 0, len(value))
		for _, item := range value {
			shown = append(shown, withoutSecrets(parent, key, item))
		}
		return shown
	case nil, bool:
		return value
	case string:
		if isSecret {
			return "***"
		}
	default:
		if isSecret {
			return int64(0)
		}
	}
	return value
}
