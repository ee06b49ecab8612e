package archtest

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// Phrase is a turn of speech to replace: see Names and prose in CONTRIBUTING.md.
type Phrase struct {
	// Pattern is a regular expression. Case does not matter.
	Pattern string
	// Match and NoMatch are example texts: the pattern matches the first and not the second.
	Match, NoMatch string

	expression *regexp.Regexp
	literals   []string // each match contains one of them, in lower case; nil if unknown
}

// ParsePhrases reads lines of a pattern and its two examples, separated by tabs.
func ParsePhrases(text string) ([]Phrase, error) {
	var phrases []Phrase
	for i, line := range strings.Split(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("archtest: phrases line %d has %d fields, want 3", i+1, len(fields))
		}
		parsed, err := syntax.Parse(fields[0], syntax.Perl)
		if err != nil {
			return nil, fmt.Errorf("archtest: phrases line %d: %w", i+1, err)
		}
		phrases = append(phrases, Phrase{fields[0], fields[1], fields[2], regexp.MustCompile("(?i)" + fields[0]), literalsOf(parsed)})
	}
	return phrases, nil
}

// literalsOf returns texts in lower case such that each match contains at least one, or nil for an
// operator that it does not know. Without them a search is slower and has the same result.
func literalsOf(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{strings.ToLower(string(re.Rune))}
	case syntax.OpCapture:
		return literalsOf(re.Sub[0])
	case syntax.OpConcat:
		var best []string
		for _, sub := range re.Sub {
			if list := literalsOf(sub); shortest(list) > shortest(best) {
				best = list
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range re.Sub {
			list := literalsOf(sub)
			if len(list) == 0 {
				return nil
			}
			all = append(all, list...)
		}
		return all
	}
	return nil
}

// shortest returns the length of the shortest text; 0 for none.
func shortest(list []string) int {
	if len(list) == 0 {
		return 0
	}
	return len(slices.MinFunc(list, func(a, b string) int { return len(a) - len(b) }))
}

// find returns the matches in a text. The lower-case text is computed once for all phrases.
func (p Phrase) find(text, lower string) []string {
	possible := func(literal string) bool { return strings.Contains(lower, literal) }
	if p.literals != nil && !slices.ContainsFunc(p.literals, possible) {
		return nil
	}
	return p.expression.FindAllString(text, -1)
}

// countPhrases counts phrases in the comments and strings of Go files, tests included, and in pages.
func countPhrases(tree fs.FS, phrases []Phrase) (Counts, error) {
	counts := make(Counts)
	for _, p := range phrases {
		counts[Measure{"phrases", p.Pattern}] = nil
	}
	err := walk(tree, func(name string) error {
		prose := markdownProse
		switch {
		case strings.HasSuffix(name, ".go"):
			prose = goProse
		case !strings.HasSuffix(name, ".md"):
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, paragraph := range prose(source) {
			lower := strings.ToLower(paragraph.text)
			for _, p := range phrases {
				m := Measure{"phrases", p.Pattern}
				for _, match := range p.find(paragraph.text, lower) {
					counts[m] = append(counts[m], Place{name, paragraph.line, match})
				}
			}
		}
		return nil
	})
	return counts, err
}

// paragraph is a text without line breaks that begins in a line.
type paragraph struct {
	line int
	text string
}

// paragraphs splits a text at its empty lines.
func paragraphs(first int, text string) []paragraph {
	var list []paragraph
	var words []string
	begin := first
	for i, line := range strings.Split(text+"\n", "\n") {
		fields := strings.Fields(line)
		if len(fields) > 0 && len(words) == 0 {
			begin = first + i
		}
		words = append(words, fields...)
		if len(fields) == 0 && len(words) > 0 {
			list = append(list, paragraph{begin, strings.Join(words, " ")})
			words = nil
		}
	}
	return list
}

func markdownProse(source []byte) []paragraph { return paragraphs(1, string(source)) }

// goProse returns the comments and strings of a Go file. Consecutive comment lines are one text. Strings
// of one word are names, not prose.
func goProse(source []byte) []paragraph {
	var (
		list    []paragraph
		scan    scanner.Scanner
		comment strings.Builder
		first   int // line of comment
		last    int
	)
	flush := func() {
		if comment.Len() > 0 {
			list = append(list, paragraphs(first, comment.String())...)
			comment.Reset()
		}
	}
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	scan.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, literal := scan.Scan()
		line := file.Line(pos)
		switch {
		case kind == token.EOF:
			flush()
			return list
		case kind == token.COMMENT:
			if comment.Len() == 0 || line != last+1 {
				flush()
				first = line
			}
			text := strings.TrimSuffix(strings.TrimPrefix(literal, "/*"), "*/")
			comment.WriteString(strings.TrimPrefix(text, "//") + "\n")
			last = line + strings.Count(literal, "\n")
		case kind == token.STRING:
			flush()
			if text, err := strconv.Unquote(literal); err == nil && strings.Contains(text, " ") {
				list = append(list, paragraphs(line, text)...)
			}
		case literal != "\n": // the semicolon that the scanner inserts
			flush()
		}
	}
}
