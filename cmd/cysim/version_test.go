package main

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheVersionNamesTheCommit(t *testing.T) {
	t.Parallel()
	const (
		commit = "0123456789abcdef0123456789abcdef01234567"
		time   = "2026-11-28T20:01:02Z"
	)
	system := runtime.GOOS + "/" + runtime.GOARCH
	recorded := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: time}, {Key: "vcs.modified", Value: modified}}
	}
	for _, tt := range []struct {
		name string
		info debug.BuildInfo
		want version
		text string
	}{
		{
			"a clone", debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}, Settings: recorded("false")},
			version{Version: "v0.1.0", Commit: commit, Time: time, Tree: "clean", Go: "go1.26.8", System: system},
			"cysim v0.1.0 (commit " + commit + ", " + time + ") go1.26.8 " + system + "\n",
		},
		{
			"a clone with changes", debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0+dirty"}, Settings: recorded("true")},
			version{Version: "v0.1.0+dirty", Commit: commit, Time: time, Tree: "modified", Go: "go1.26.8", System: system},
			"cysim v0.1.0+dirty (commit " + commit + ", " + time + ", modified) go1.26.8 " + system + "\n",
		},
		{
			"a module", debug.BuildInfo{GoVersion: "go1.26.8", Main: debug.Module{Version: "v0.1.0"}},
			version{Version: "v0.1.0", Go: "go1.26.8", System: system},
			"cysim v0.1.0 (commit not recorded) go1.26.8 " + system + "\n",
		},
		{
			"go run", debug.BuildInfo{},
			version{Version: "(devel)", Go: runtime.Version(), System: system},
			"cysim (devel) (commit not recorded) " + runtime.Version() + " " + system + "\n",
		},
	} {
		got := versionOf(&tt.info)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		var text strings.Builder
		if err := got.print(&text); err != nil || text.String() != tt.text {
			t.Errorf("%s: got %q, %v; want %q", tt.name, text.String(), err, tt.text)
		}
	}
}

func TestTheVersionAsJSON(t *testing.T) {
	t.Parallel()
	status, stdout, stderr := cysim(t, "version", "-o", "json")
	var got version
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 || stderr != "" {
		t.Fatalf("status %d, %v: %s%s", status, err, stdout, stderr)
	}
	if diff := cmp.Diff(currentVersion(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A cysim that go build makes in a clone names its commit, and the changes since.
func TestAProgramOfACloneNamesItsCommit(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"sh", "git", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	clone, binary := t.TempDir(), filepath.Join(t.TempDir(), "version")
	script := `set -e
git init -q . && git config user.name a && git config user.email a@example.org
printf 'module example.org/version\n\ngo 1.26\n' >go.mod
cat >main.go <<'END'
package main

import (
	"fmt"
	"runtime/debug"
)

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println(info)
}
END
git add . && git commit -q -m first
go build -buildvcs=true -o "$1" . && "$1"`
	command := exec.CommandContext(t.Context(), "sh", "-c", script, "sh", binary)
	command.Dir = clone
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := debug.ParseBuildInfo(string(out))
	if err != nil {
		t.Fatal(err)
	}
	if got := versionOf(info); len(got.Commit) != 40 || got.Time == "" || got.Tree != "clean" {
		t.Errorf("got %+v", got)
	}
}
