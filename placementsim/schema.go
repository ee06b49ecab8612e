package placementsim

import (
	"embed"
	"math"
	"math/big"
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

// uuidKey is the form of the UUIDs that are keys of a body, as the schemas have it. For
// consumers, which need not exist, it accepts some invalid UUIDs.
var uuidKey = regexp.MustCompile(`^[0-9a-fA-F-]{36}$`)

var customName = regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`)

// maxName is the longest name of a trait or resource class.
const maxName = 255

// integer returns a number that a schema has found to be an integer, cut off
// far outside of every limit.
func integer(value any) int64 {
	const far = 1 << 53
	switch v := value.(type) {
	case int64:
		return max(-far, min(v, far))
	case *big.Int:
		if v.IsInt64() {
			return integer(v.Int64())
		}
		return int64(v.Sign()) * far
	case float64:
		return int64(max(-far, min(v, far)))
	}
	return 0
}

func number(value any) float64 {
	switch v := value.(type) {
	case int64:
		return float64(v)
	case *big.Int:
		return float64(v.Sign()) * math.MaxFloat64
	case float64:
		return v
	}
	return 0
}

func text(value any) string {
	s, _ := value.(string)
	return s
}

// object is an object, nil for anything else.
func object(value any) *schema.Object {
	o, _ := value.(*schema.Object)
	return o
}

func array(value any) []any {
	a, _ := value.([]any)
	return a
}

func textList(value any) []string {
	list := make([]string, 0, len(array(value)))
	for _, item := range array(value) {
		list = append(list, text(item))
	}
	return list
}
