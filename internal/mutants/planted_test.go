//go:build mutants

package mutants

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// plantedIn has the defects that TestPlanted plants: each is a patch of one file after a sentence.
const plantedIn = "testdata/planted/"

var plantedTable = flag.String("planted", "", "a file for the table of TestPlanted")

// judges have to find each planted defect with what they try in a run of CI.
var judges = []struct {
	name string
	test []string
}{
	{"model", []string{"./internal/cloudmodel", "-run", "TestCloud$", "-timeout", "5m", "-cloud.scripts", "2000", "-cloud.shrink", "0"}},
	{"drill", []string{"./cyborgclient/spawn", "-tags", "drill", "-run", "TestDrillAxes|TestDrillOperations$", "-timeout", "9m"}},
}

func TestPlanted(t *testing.T) {
	patches, err := filepath.Glob(plantedIn + "*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	chosen := choose(patches)
	rows := []string{"| defect | model | drill |", "|---|---|---|"}
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(patch, plantedIn), ".patch"), func(t *testing.T) {
			text, err := os.ReadFile(patch)
			if err != nil {
				t.Fatal(err)
			}
			sentence, diff, _ := strings.Cut(string(text), "\n\n--- a/")
			file, _, found := strings.Cut(diff, "\n")
			if !found {
				t.Fatalf("%s: want a sentence, an empty line and a diff of one file", patch)
			}
			overlay := apply(t, patch, file)
			if !slices.Contains(chosen, patch) {
				return
			}
			row := "| " + sentence
			for _, judge := range judges {
				began := time.Now()
				args := append([]string{"test", "-overlay", overlay, "-vet=off", "-failfast"}, judge.test...)
				out, err := run("../..", "go", args...)
				row += fmt.Sprintf(" | %d s", int(time.Since(began).Seconds()))
				unjudged := strings.Contains(out, "[build failed]") || strings.Contains(out, "panic: test timed out")
				if err == nil || unjudged || !strings.Contains(out, "\nFAIL") {
					t.Errorf("%s does not find it: go %s: %v\n%.2000s", judge.name, strings.Join(args, " "), err, out)
				}
			}
			rows = append(rows, row+" |")
			t.Log(row)
		})
	}
	if *plantedTable != "" {
		if err := os.WriteFile(*plantedTable, []byte(strings.Join(rows, "\n")+"\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
}
