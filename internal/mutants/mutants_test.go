//go:build mutants

package mutants

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	sample = flag.Int("sample", 0, "try only so many patches, chosen by the seed; 0 for all")
	seed   = flag.Uint64("seed", 1, "of the choice")
)

// mutant is a patch of testdata.
type mutant struct {
	file string   // from the root of the module
	test []string // arguments of go test
}

var header = regexp.MustCompile(`\A\S[^@]*\.\n\nTest: (.+)\n\n--- a/(\S+)\n\+\+\+ b/(\S+)\n@@`)

func TestMutants(t *testing.T) {
	patches, err := filepath.Glob("testdata/*/*.patch")
	patches = slices.DeleteFunc(patches, func(patch string) bool { return strings.HasPrefix(patch, plantedIn) })
	if err != nil || len(patches) == 0 {
		t.Fatalf("no patches: %v", err)
	}
	chosen := choose(patches)
	t.Logf("%d of %d patches by seed %d", len(chosen), len(patches), *seed)
	for _, patch := range patches {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(patch, "testdata/"), ".patch"), func(t *testing.T) {
			m, err := read(patch)
			if err != nil {
				t.Fatal(err)
			}
			overlay := apply(t, patch, m.file)
			if !slices.Contains(chosen, patch) {
				return
			}
			args := append([]string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout", "2m"}, m.test...)
			out, err := run("../..", "go", args...)
			switch {
			case err == nil && strings.Contains(out, "[no tests to run]"):
				t.Errorf("%s names no test: go test %s", patch, strings.Join(m.test, " "))
			case err == nil:
				t.Errorf("survived: go test %s passes with %s", strings.Join(m.test, " "), patch)
			case strings.Contains(out, "[build failed]") || strings.Contains(out, "[setup failed]"):
				t.Errorf("%s does not compile:\n%s", patch, out)
			case !strings.Contains(out, "\nFAIL"):
				t.Errorf("%s: no result of go test: %v\n%s", patch, err, out)
			}
		})
	}
}

// choose returns the patches to try. Every patch must apply.
func choose(patches []string) []string {
	if *sample <= 0 || *sample >= len(patches) {
		return patches
	}
	chosen := slices.Clone(patches)
	random := rand.New(rand.NewPCG(*seed, 0))
	random.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen[:*sample]
}

func read(patch string) (mutant, error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return mutant{}, err
	}
	found := header.FindSubmatch(text)
	if found == nil || string(found[2]) != string(found[3]) {
		return mutant{}, fmt.Errorf("%s: want a sentence, an empty line, \"Test: ...\" and a diff of one file", patch)
	}
	return mutant{file: string(found[2]), test: strings.Fields(string(found[1]))}, nil
}

// apply patches a copy of the file and returns an overlay for go test that replaces the
// file with the copy.
func apply(t *testing.T, patch, file string) string {
	t.Helper()
	dir := t.TempDir()
	root, err1 := filepath.Abs("../..")
	absolute, err2 := filepath.Abs(patch)
	source, err3 := os.ReadFile(filepath.Join(root, file))
	copied := filepath.Join(dir, file)
	err4 := os.MkdirAll(filepath.Dir(copied), 0o755)
	err5 := os.WriteFile(copied, source, 0o600)
	overlay, err6 := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, file): copied}})
	path := filepath.Join(dir, "overlay.json")
	err7 := os.WriteFile(path, overlay, 0o600)
	for _, err := range []error{err1, err2, err3, err4, err5, err6, err7} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := run(dir, "git", "apply", "-C1", absolute); err != nil {
		t.Fatalf("%s no longer applies to %s: write it again for the present code\n%s", patch, file, out)
	}
	return path
}

func run(dir, name string, args ...string) (string, error) {
	command := exec.Command(name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir)) // a directory of its own, no work tree
	out, err := command.CombinedOutput()
	return "\n" + string(out), err
}
