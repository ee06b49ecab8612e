package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testdata/events.jsonl is what go test -json printed for a module whose packages pass, skip, fail, panic and do not build.
func TestTheTextIsThatOfGoTest(t *testing.T) {
	t.Parallel()
	events, err := os.ReadFile("testdata/events.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	results := filepath.Join(t.TempDir(), "out", "test.tsv")
	const plain = `# example.org/m/broken [example.org/m/broken.test]
broken/a.go:3:13: cannot use "" (untyped string constant) as int value in variable declaration
FAIL	example.org/m/broken [build failed]
    mixed_test.go:11: wrong
--- FAIL: TestFails/deep (0.01s)
--- FAIL: TestFails (0.01s)
FAIL
FAIL	example.org/m/mixed	0.01s
?   	example.org/m/none	[no test files]
ok  	example.org/m/ok	0.01s
--- FAIL: TestPanics (0.01s)
panic: the cause [recovered, repanicked]

example.org/m/panics.TestPanics(0x2adc78f3e248?)
FAIL	example.org/m/panics	0.01s
go: a line that is no event
`
	var text bytes.Buffer
	if err := run([]string{"--to", results}, strings.NewReader(string(events)+"go: a line that is no event\n"), &text); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plain, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text.Reset()
	if err := run([]string{"--to", results, "-v"}, bytes.NewReader(events), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"=== RUN   TestOK\n    ok_test.go:5: quiet\n--- PASS: TestOK (0.01s)\nPASS\nok  \texample.org/m/ok", "--- SKIP: TestSilent"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("-v: no %q in\n%s", want, &text)
		}
	}
	var list bytes.Buffer
	err = run([]string{"--summary", results}, nil, &list)
	const want = `example.org/m/mixed TestSilent: skipped in test, RAN IN NO STAGE: no reason
example.org/m/mixed TestSub/shell: skipped in test, RAN IN NO STAGE: mixed_test.go:6: no such shell
`
	if diff := cmp.Diff(want, list.String()); diff != "" || err == nil || err.Error() != "2 of 2 skipped tests ran in no stage" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
}

// The output of a process that ends in the middle of a test is kept.
func TestTheOutputOfATestWithoutAnEndIsPrinted(t *testing.T) {
	t.Parallel()
	const events = `{"Action":"output","Package":"p","Test":"TestHangs","Output":"panic: test timed out\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t600s\n"}
{"Action":"fail","Package":"p"}
`
	var text, results bytes.Buffer
	if err := convert(strings.NewReader(events), &text, &results, false); err != nil {
		t.Fatal(err)
	}
	if got, want := text.String(), "FAIL\tp\t600s\npanic: test timed out\n"; got != want || results.Len() > 0 {
		t.Errorf("got %q and results %q, want %q", got, &results, want)
	}
}

func TestATestThatRanInAnotherStageIsNoFailure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stage := func(name, text string) string {
		file := filepath.Join(dir, name+".tsv")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := stage("test", "skipped\tp\tTestA/zsh\ta_test.go:1: no zsh\nran\tp\tTestA\t\nskipped\tp\tFuzzB/seed#0\tnot an input\n")
	second := stage("race", "ran\tp\tTestA/zsh\t\nskipped\tp\tTestC\t-short\nran\tp\tTestC\t\n")
	for _, tt := range []struct {
		name  string
		files []string
		want  string
		err   string
	}{
		{"one stage", []string{first}, "p TestA/zsh: skipped in test, RAN IN NO STAGE: a_test.go:1: no zsh\n", "1 of 1 skipped tests ran in no stage"},
		{"both", []string{first, second}, "p TestA/zsh: skipped in test, ran in race: a_test.go:1: no zsh\np TestC: skipped in race, ran in race: -short\n", ""},
		{"nothing skipped", []string{stage("year", "ran\tp\tTestYear\t\n")}, "none\n", ""},
		{"damaged", []string{stage("bad", "ran\tp\n")}, "", filepath.Join(dir, "bad.tsv") + `: "ran\tp" is not a result of a test`},
	} {
		var list bytes.Buffer
		err := run(append([]string{"--summary"}, tt.files...), nil, &list)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, list.String()); diff != "" || got != tt.err {
			t.Errorf("%s: error %q, want %q (-want +got):\n%s", tt.name, got, tt.err, diff)
		}
	}
}
