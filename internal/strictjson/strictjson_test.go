package strictjson_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/strictjson"
)

func TestDecodeReadsOneValueWithoutUnknownMembers(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name": "a"}`: "<nil>",
		`{} `:           "<nil>",
		``:              "EOF",
		`{"name": "a"`:  "unexpected EOF",
		`{} {}`:         "something follows the JSON value",
		`{}]`:           "something follows the JSON value",
		`[]`:            "cannot unmarshal array",
		`{"more": 1}`:   `unknown field "more"`,
	} {
		var value struct {
			Name string `json:"name"`
		}
		if err := strictjson.Decode([]byte(text), &value); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
