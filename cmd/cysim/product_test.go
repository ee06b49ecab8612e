package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHelpAndVersionHaveTwoForms(t *testing.T) {
	t.Parallel()
	for _, forms := range [][2]string{
		{"--version", "version"}, {"--help", "help"}, {"serve --help", "help serve"}, {"state diff --help", "help state diff"},
	} {
		var texts [2]string
		for i, form := range forms {
			status, stdout, stderr := cysim(t, strings.Fields(form)...)
			if status != 0 || stderr != "" || stdout == "" {
				t.Errorf("cysim %s: got status %d, %q, errors %q", form, status, stdout, stderr)
			}
			texts[i] = stdout
		}
		if texts[0] != texts[1] {
			t.Errorf("cysim %s and cysim %s differ:\n%s\n%s", forms[0], forms[1], texts[0], texts[1])
		}
	}
	if status, _, stderr := cysim(t, "help", "paint"); status != 2 || !strings.Contains(stderr, "paint") {
		t.Errorf("help of an unknown command: got status %d, %q", status, stderr)
	}
}

func TestHelpIsAsWideAsTheTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "140")
	_, wide, _ := cysim(t, "serve", "--help")
	longest := slices.MaxFunc(strings.Split(wide, "\n"), func(a, b string) int { return len(a) - len(b) })
	if len(longest) < 100 || len(longest) > 140 {
		t.Errorf("the longest line has %d characters, want 100 to 140:\n%s", len(longest), longest)
	}
}

func TestHelpOfServeHasHeadings(t *testing.T) {
	t.Parallel()
	_, text, _ := cysim(t, "serve", "--help")
	var headings []string
	for line := range strings.Lines(text) {
		if heading, ok := strings.CutSuffix(line, ":\n"); ok && !strings.HasPrefix(line, " ") {
			headings = append(headings, heading)
		}
	}
	want := []string{"Flags", "Server", "Faults", "State and time", "Nova and its events", "Cloud", "Hardware of this machine", "Cyborg", "Placement"}
	if diff := cmp.Diff(want, headings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	own, _, _ := strings.Cut(text, "\nServer:")
	if flags := strings.Count(own, "\n      --"); flags > 1 {
		t.Errorf("%d flags of serve stand under no heading:\n%s", flags, own)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ words, want string }{
		{"", "arq check clock completion cyborg discover explain fault guest help import lint list load mdev model placement ready requests serve state stop unflatten version"},
		{"st", "state stop"},
		{"state ", "diff load save show"},
		{"help st", "state stop"},
		{"fault ", "add clear list operations"},
		{"fault add --when ", "after before"},
		{"completion ", "bash fish zsh"},
		{"check --output ", "json text"},
		{"check -o j", "json"},
		{"check --output = j", "json"},
		{"check http://127.0.0.1 --o", "--output"},
		{"serve --cyborg-as", "--cyborg-async-bind"},
		{"serve --agent-loop --manual", "--manual-clock"},
		{"serve --model ", ""},
		{"state diff ", ""},
		{"paint --col", ""},
	} {
		words := strings.Split(tt.words, " ")
		status, stdout, stderr := cysim(t, append([]string{"complete", "--"}, words...)...)
		if got := strings.Join(strings.Fields(stdout), " "); status != 0 || stderr != "" || got != tt.want {
			t.Errorf("%q: got status %d, %q, errors %q; want %q", tt.words, status, got, stderr, tt.want)
		}
	}
}

// program makes a cysim that can be run by its name, and returns the environment for it.
func program(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	executable, err := os.Executable()
	if err == nil {
		err = os.Symlink(executable, filepath.Join(dir, "cysim"))
	}
	if err != nil {
		t.Skip(err)
	}
	return dir, append(os.Environ(), asCommand+"=1", "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestShellsComplete(t *testing.T) {
	t.Parallel()
	dir, env := program(t)
	must(t, os.WriteFile(filepath.Join(dir, "docs.json"), nil, 0o600)) // a file that begins as a command does
	const (
		bash = `eval "$(cysim completion bash)"; COMP_WORDS=(cysim state d); COMP_CWORD=2; _cysim; echo "${COMPREPLY[@]}"`
		zsh  = `autoload -Uz compinit && compinit -u; compadd() { print -l -- ${(P)2}; }; eval "$(cysim completion zsh)"; words=(cysim state d); CURRENT=3; _cysim`
		fish = `cysim completion fish | source; complete -C 'cysim state d'`
		file = `cysim completion fish | source; complete -C 'cysim serve --model d'`
	)
	for name, tt := range map[string]struct{ shell, script, want string }{
		"bash": {"bash", bash, "diff"}, "zsh": {"zsh", zsh, "diff"}, "fish": {"fish", fish, "diff"}, "a file in fish": {"fish", file, "docs.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(tt.shell)
			if err != nil {
				t.Skip(err)
			}
			command := exec.CommandContext(t.Context(), path, "-c", tt.script)
			command.Env, command.Dir = append(slices.Clip(env), "HOME="+t.TempDir()), dir // two fish make one directory at once
			out, err := command.CombinedOutput()
			if err != nil || strings.TrimSpace(string(out)) != tt.want {
				t.Errorf("got %q, %v; want %s", out, err, tt.want)
			}
		})
	}
}

func TestServeGoesOnInTheBackground(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	dir, env := program(t)
	// unread is the end of a script in which no process reads the variables of the server: it prints the exit status and, if the
	// server has ended, "ended".
	const unread = `until [ -s status ]; do sleep 0.1; done; cat status
case $(cysim ready "$(sed -n 's/^the cloud listens on //p' log)" 2>&1) in *"running there?") echo ended; esac; grep -c 'print the environment: .*; the server has ended, its log is log' errors`
	for _, tt := range []struct{ name, script, want string }{
		{"by a variable", `export CYSIM_DAEMON=1 CYSIM_LOG_FILE=` + dir + `/variable.log; eval "$(cysim serve)" && cysim ready && kill $CYSIM_PID && echo ${CYSIM_LOG##*/}`, "ready\nvariable.log\n"},
		{"unless its output is full", `mkdir ` + dir + `/full && cd ` + dir + `/full && [ -c /dev/full ] || { printf '1\nended\n1\n'; exit; }; cysim serve --daemon --log log >/dev/full 2>errors; echo $? >status; ` + unread, "1\nended\n1\n"},
		{"unless its reader has ended", `mkdir ` + dir + `/gone && cd ` + dir + `/gone && { cysim serve --daemon --log log 2>errors; echo $? >status; } | true; ` + unread, "1\nended\n1\n"},
		{"until it is killed", `eval "$(cysim serve --daemon -v --log ` + dir + `/cysim.log)" && cysim ready && cysim check && kill $CYSIM_PID && until grep -q /_sim/leaks "$CYSIM_LOG"; do sleep 0.1; done; echo logged`, "ready\nnothing leaked\nlogged\n"},
		{"with a log of its own", `eval "$(cysim placement --daemon)" && cysim ready "$CYSIM_PLACEMENT_URL"; kill $CYSIM_PID; grep -c "listens on $CYSIM_PLACEMENT_URL" "$CYSIM_LOG"; rm "$CYSIM_LOG"`, "ready\n1\n"},
		{"with a model at its standard input", `eval "$(echo '{"region": "Here"}' | cysim serve --daemon --model /dev/stdin --log ` + dir + `/stdin.log)" && kill $CYSIM_PID && echo $OS_REGION_NAME`, "Here\n"},
		{"unless it fails", `cysim serve --daemon --log ` + dir + `/failed.log --model ` + dir + `/none.json 2>&1; echo $?`, "cysim: --model: open " + dir + "/none.json: no such file or directory\n2\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			command := exec.CommandContext(t.Context(), sh, "-c", tt.script)
			command.Env = env
			out, err := command.CombinedOutput()
			if err != nil || string(out) != tt.want {
				t.Errorf("got %q, %v; want %q", out, err, tt.want)
			}
		})
	}
}

func TestBannerSaysWhatIsSwitchedOn(t *testing.T) {
	t.Parallel()
	model, clouds := writeFile(t, "model.json", `{"strict_requests": true}`), filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--model", model, "--clouds-yaml", clouds, "--manual-clock", "--control-token", "secret", "--cyborg-bind-delay", "2s")
	url := served.env["CYSIM_URL"]
	served.stop()
	want := "the cloud listens on " + url + "\n" +
		"  status page  " + url + "/_sim/\n" +
		"  cloud        2 hosts, 5 device profiles\n" +
		"  clouds.yaml  " + clouds + ": sim (user admin), sim-demo (user demo), sim-svc (user nova)\n" +
		"  switched on  --control-token=... --manual-clock --model=" + model + " --strict-requests --cyborg-bind-delay=2s\n"
	if got := served.stderr.String(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The page is that of serve, and off where other machines can reach it without a token.
func TestTheBannerNamesNoPageThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"placement"}, ""},
		{[]string{"serve", "--listen", "0.0.0.0:0"}, "  status page  off without --control-token, because other machines can reach it\n"},
	} {
		served := start(t, tt.args...)
		served.stop()
		if got := served.stderr.String(); strings.Contains(got, "status page") != (tt.want != "") || !strings.Contains(got, tt.want) {
			t.Errorf("%v: got\n%s\nwant %q", tt.args, got, tt.want)
		}
	}
}

func TestVerboseLogsEachRequest(t *testing.T) {
	t.Parallel()
	quiet, verbose := start(t, "placement"), start(t, "placement", "-v")
	for _, p := range []*running{quiet, verbose} {
		get(t, p.env["CYSIM_PLACEMENT_URL"]+"/resource_providers?limit=3", "admin")
		p.stop()
	}
	if strings.Contains(quiet.stderr.String(), "/resource_providers") {
		t.Errorf("logged without -v: %s", quiet.stderr)
	}
	if text := verbose.stderr.String(); !strings.Contains(text, `msg=request method=GET path=/resource_providers query="limit=3" status=400`) {
		t.Errorf("got %s", text)
	}
}

func TestTheLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef0123456789abcdef"
	served := start(t, "placement", "-v")
	get(t, served.env["CYSIM_PLACEMENT_URL"]+"/resource_providers/"+token+"?password=hunter2&limit=3", token)
	served.stop()
	text := served.stderr.String()
	if want := `path=/resource_providers/*** query="password=***&limit=3"`; !strings.Contains(text, want) || strings.Contains(text, token) || strings.Contains(text, "hunter2") {
		t.Errorf("got %s, want %s and no secret", text, want)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	answers := func(status int) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/" {
				return
			}
			http.Error(w, "because of "+strconv.Itoa(status), status)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "sim.example" // a name that leads here
		listenFlags{Listen: "127.0.0.1:0"}.guard(http.NotFoundHandler(), nil).ServeHTTP(w, r)
	}))
	defer foreign.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	late := 0
	waits := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if late++; late < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer waits.Close()
	locked := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
		case r.Header.Get(controlTokenHeader) == "secret":
			http.Error(w, "waiting for a report", http.StatusServiceUnavailable)
		default:
			http.Error(w, "a token is required", http.StatusUnauthorized)
		}
	}))
	defer locked.Close()
	for _, tt := range []struct {
		url, want string
		status    int
	}{
		{locked.URL, "ready", 0},
		{locked.URL + " --control-token secret", "waiting for a report", 1},
		{locked.URL + " --control-token other", "not the server's", 1},
		{start(t, "serve").env["CYSIM_URL"], "ready", 0},
		{start(t, "serve", "--control-token", "secret").env["CYSIM_URL"] + "/", "ready", 0},
		{start(t, "serve", "--listen", "0.0.0.0:0").env["CYSIM_URL"], "ready", 0},
		{start(t, "placement").env["CYSIM_PLACEMENT_URL"], "ready", 0},
		{waits.URL, "ready", 0},
		{answers(403), "ready", 0},
		{foreign.URL, "use localhost or an IP address", 1},
		{answers(503), "because of 503", 1},
		{answers(404), "because of 404", 1},
		{closed.URL, "is cysim serve running there?", 1},
		{"127.0.0.1", "is not an absolute http", 2},
	} {
		args := append([]string{"ready"}, strings.Fields(tt.url)...)
		if tt.url == waits.URL {
			args = append(args, "--wait", "1m")
		}
		var out bytes.Buffer
		if status := run(t.Context(), args, &out, &out); status != tt.status || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: got status %d and %q, want %d and %q", tt.url, status, out.String(), tt.status, tt.want)
		}
	}
}

func TestLoadClampsItsDefaults(t *testing.T) {
	t.Parallel()
	if status, stdout, stderr := cysim(t, "load", "--spawns", "2", "--hosts", "1", "--devices", "2"); status != 0 {
		t.Errorf("got status %d, %s%s", status, stdout, stderr)
	}
}
