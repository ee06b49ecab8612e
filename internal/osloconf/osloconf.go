package osloconf

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// MaxSize is far above the size of a configuration file with all its comments, in bytes.
const MaxSize = 4 << 20

// File is a configuration file.
type File struct {
	values map[name][]string // in the order written
}

// name is the name of an option.
type name struct{ section, option string }

// nameOf ignores the case of a section, other than DEFAULT.
func nameOf(section, option string) name {
	if section != defaultSection {
		section = strings.ToLower(section)
	}
	return name{section, option}
}

const defaultSection = "DEFAULT"

// Parse reads a file. Options before the first section are those of DEFAULT. The error is for a
// line that is neither a section nor an option nor continues one, and does not quote it.
func Parse(data []byte) (File, error) {
	p := parser{values: make(map[name][]string), section: defaultSection}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\uFEFF")) {
		number++
		if err := p.line(strings.TrimRightFunc(line, unicode.IsSpace)); err != nil {
			return File{}, fmt.Errorf("line %d: %w", number, err)
		}
	}
	p.end()
	return File{p.values}, nil
}

// parser reads the lines as oslo_config/iniparser.py does.
type parser struct {
	values  map[name][]string
	section string
	option  string   // whose value may go on; empty: none
	value   []string // its lines
}

func (p *parser) line(line string) error {
	if line != "" && strings.ContainsRune(" \t", rune(line[0])) {
		if p.option == "" {
			return errors.New("it is indented and continues no option")
		}
		p.value = append(p.value, strings.TrimSpace(line))
		return nil
	}
	p.end()
	switch {
	case line == "", line[0] == '#', line[0] == ';':
		return nil
	case line[0] == '[':
		section, closed := strings.CutSuffix(line[1:], "]")
		if !closed || section == "" {
			return errors.New("it is not [SECTION]")
		}
		p.section = section
		return nil
	}
	at := strings.IndexAny(line, "=:")
	if at < 0 || strings.TrimSpace(line[:at]) == "" {
		return errors.New("it is neither [SECTION] nor OPTION = VALUE")
	}
	p.option, p.value = strings.TrimSpace(line[:at]), []string{unquoted(strings.TrimSpace(line[at+1:]))}
	return nil
}

// end ends the value of an option.
func (p *parser) end() {
	if p.option != "" {
		key := nameOf(p.section, p.option)
		p.values[key] = append(p.values[key], strings.Join(p.value, "\n"))
	}
	p.option = ""
}

// unquoted is a value without the quotes around it.
func unquoted(value string) string {
	if n := len(value); n > 1 && value[0] == value[n-1] && strings.ContainsRune(`"'`, rune(value[0])) {
		return value[1 : n-1]
	}
	return value
}

// All returns each value of an option, in the order written.
func (f File) All(section, option string) []string {
	return slices.Clone(f.values[nameOf(section, option)])
}

// Last returns the last value of an option, which is in force for options of one value,
// and whether it is set.
func (f File) Last(section, option string) (string, bool) {
	values := f.values[nameOf(section, option)]
	if len(values) == 0 {
		return "", false
	}
	return strings.TrimSpace(values[len(values)-1]), true
}

// List returns the parts of a comma-separated value, or nil if the option is not set.
func (f File) List(section, option string) []string {
	value, set := f.Last(section, option)
	if !set {
		return nil
	}
	parts := []string{}
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

// Flag returns the value of a boolean option, in the words that oslo.config accepts.
func (f File) Flag(section, option string) (bool, error) {
	value, set := f.Last(section, option)
	switch strings.ToLower(value) {
	case "true", "1", "on", "yes":
		return true, nil
	case "false", "0", "off", "no":
		return false, nil
	case "":
		if !set {
			return false, nil
		}
	}
	return false, fmt.Errorf("[%s] %s: %q is neither true nor false", section, option, value)
}
