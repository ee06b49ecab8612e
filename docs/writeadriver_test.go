package docs_test

import (
	"os"
	"strings"
	"testing"
)

// The code of the page is that of the example, which is a module of its own and is tested as such.
func TestTheCodeOfADriverIsThatOfTheExample(t *testing.T) {
	t.Parallel()
	var example string
	for _, name := range []string{"npu.go", "npu_test.go"} {
		data, err := os.ReadFile("../examples/npu/" + name)
		if err != nil {
			t.Fatal(err)
		}
		example += string(data)
	}
	for _, code := range snippets(t, "write-a-driver.md", "go") {
		if !strings.Contains(example, code) {
			t.Errorf("examples/npu has no\n%s", code)
		}
	}
}
