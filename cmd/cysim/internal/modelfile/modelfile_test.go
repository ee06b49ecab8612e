package modelfile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/internal/schema"
	"github.com/gocyborg/gocyborg/simcloud"
)

// must stops a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command of cysim model.
func run(t *testing.T, args ...string) (status int, text string) {
	t.Helper()
	var grammar struct {
		Model Command `cmd:""`
	}
	var out bytes.Buffer
	status = command.Run(t.Context(), &grammar, append([]string{"model"}, args...), &out, &out)
	return status, out.String()
}

// validator checks against the schema that is printed, with references resolved.
func validator(t *testing.T) func(data []byte) error {
	t.Helper()
	_, text := run(t, "schema")
	var whole map[string]any
	must(t, json.Unmarshal([]byte(text), &whole))
	defs := whole["$defs"].(map[string]any)
	var resolved func(value any) any
	resolved = func(value any) any {
		switch value := value.(type) {
		case []any:
			list := slices.Clone(value)
			for i := range list {
				list[i] = resolved(list[i])
			}
			return list
		case map[string]any:
			if ref, ok := value["$ref"].(string); ok {
				return resolved(defs[strings.TrimPrefix(ref, "#/$defs/")])
			}
			if all, ok := value["allOf"].([]any); ok {
				return resolved(all[0])
			}
			object := map[string]any{}
			for key, member := range value {
				if key == "additionalProperties" && member != false { // the validator knows it in this form
					if member != true {
						object["patternProperties"] = map[string]any{"^": resolved(member)}
					}
					continue
				}
				if _, text := member.(string); key != "description" || !text {
					object[key] = resolved(member)
				}
			}
			return object
		}
		return value
	}
	data, err := json.Marshal(resolved(defs["simcloud.Model"]))
	must(t, err)
	set, err := schema.Load(fstest.MapFS{"s/model.json": {Data: data}}, "s", func(string) bool { return true })
	must(t, err)
	return func(data []byte) error {
		value, err := schema.Decode(data)
		if err != nil {
			return err
		}
		return set.Validate("model", value)
	}
}

func TestSchemaFitsModels(t *testing.T) {
	t.Parallel()
	validate := validator(t)
	full, err := json.Marshal(simcloud.ScaleModel(3, 2))
	must(t, err)
	_, standard := run(t, "default")
	profiles, err := os.ReadFile(root + "/examples/profiles/cloud.json")
	must(t, err)
	for name, data := range map[string][]byte{
		"default": []byte(standard), "scale": full, "example": profiles, "nothing": []byte("{}"),
		"strict": []byte(`{"strict_requests": true, "token_lifetime": "90s", "cyborg": {"bind_delay": "2s", "placement_mode": "flat"}}`),
	} {
		if err := validate(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := simcloud.ParseModel(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{
		"unknown field": `{"colour": "red"}`, "field of a host": `{"hosts": [{"name": "a", "colour": 1}]}`, "type": `{"region": 4}`,
		"enum": `{"cyborg": {"placement_mode": "round"}}`, "duration": `{"token_lifetime": "soon"}`,
	} {
		if err := validate([]byte(text)); err == nil {
			t.Errorf("%s: the schema accepts %s", name, text)
		}
		if _, err := simcloud.ParseModel([]byte(text)); err == nil {
			t.Errorf("%s: a cloud accepts %s", name, text)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		text, want string
		status     int
	}{
		{"{}", "valid: the default hosts, the default device profiles, the default flavors\n", 0},
		{`{"hosts": [{"name": "cn0"}], "device_profiles": []}`, "valid: 1 host, 0 device profiles, the default flavors\n", 0},
		{`{"hosts": [{"name": "cn0", "colour": "red"}]}`, "hosts[0].colour", 2},
		{"{", "unexpected end", 2},
	} {
		file := filepath.Join(dir, "model.json")
		must(t, os.WriteFile(file, []byte(tt.text), 0o600))
		if status, text := run(t, "check", file); status != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s: got status %d, %q; want %d, %q", tt.text, status, text, tt.status, tt.want)
		}
	}
}
