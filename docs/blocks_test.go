package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a fenced block of a page.
type block struct {
	page, section  string // the heading that it stands under
	language, text string
	file           string // the name that a reader saves it as
	before         string // the paragraph before it
	line           int
}

var (
	fileInComment = regexp.MustCompile(`^(?:#|//) ([a-z_]+\.(?:py|tf|go|json|yaml))\n`)
	fileInText    = regexp.MustCompile("as `([a-z_]+\\.[a-z]+)`:$")
)

// blocksOf returns the fenced blocks of a page. The file of a block is named by a comment in its first
// line, or by the line before it: Save this as `NAME`:
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var (
		list      []block
		paragraph []string
		section   string
		open      *block
	)
	for number, line := range strings.Split(string(data), "\n") {
		fence, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && open == nil:
			open = &block{page: page, section: section, language: fence, before: strings.TrimSpace(strings.Join(paragraph, "\n")), line: number + 1}
		case isFence:
			open.file = firstMatch(fileInComment, open.text) + firstMatch(fileInText, open.before)
			list = append(list, *open)
			open, paragraph = nil, nil
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "#"):
			section = strings.TrimLeft(line, "# ")
			paragraph = nil
		case line != "" && len(paragraph) > 0 && paragraph[len(paragraph)-1] == "":
			paragraph = []string{line}
		case line != "" || len(paragraph) > 0 && paragraph[len(paragraph)-1] != "":
			paragraph = append(paragraph, line)
		}
	}
	if open != nil {
		t.Errorf("%s:%d: the block has no end", page, open.line)
	}
	return list
}

func firstMatch(pattern *regexp.Regexp, text string) string {
	if match := pattern.FindStringSubmatch(text); match != nil {
		return match[1]
	}
	return ""
}

// snippets returns the texts of the blocks of one language.
func snippets(t *testing.T, page, language string) []string {
	t.Helper()
	var texts []string
	for _, b := range blocksOf(t, page) {
		if b.language == language {
			texts = append(texts, b.text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("%s has no %s snippets", page, language)
	}
	return texts
}

// typed is what a reader types for a block: its commands, or the file that it is.
func (b block) typed() string {
	switch {
	case b.language == "sh":
		return b.text
	case b.file != "":
		return "cat > " + b.file + " <<'END OF THE BLOCK'\n" + b.text + "END OF THE BLOCK\n"
	}
	return ""
}

var notRun = regexp.MustCompile(`(?m)^<!-- (Not run by [^:.]+: \S.*) -->\z`)

// note says why no test runs the block, in a comment on the line before it, which a reader of the page does not see.
func (b block) note() string { return firstMatch(notRun, b.before) }

// pages are all pages of the repository.
func pages(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, pattern := range []string{"../*.md", "*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}
