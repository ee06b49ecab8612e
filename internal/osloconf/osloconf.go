package osloconf

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/ini.v1"
)

// MaxSize is far above the size of a configuration file with all its comments, in bytes.
const MaxSize = 4 << 20

// File is a configuration file.
type File struct {
	file *ini.File
}

// Parse reads a file. The error is for a line that is neither a section nor an option.
func Parse(data []byte) (File, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreContinuation:         true, // a backslash at the end is a backslash
		IgnoreInlineComment:        true,
		AllowPythonMultilineValues: true,
		AllowShadows:               true,
		AllowDuplicateShadowValues: true,
		ChildSectionDelimiter:      "\x00", // a dot in a name is a dot
	}, data)
	return File{file}, err
}

// indent matches the beginning of a continued line.
var indent = regexp.MustCompile(`\n[ \t]+`)

// All returns each value of an option, in the order written.
func (f File) All(section, option string) []string {
	s, err := f.file.GetSection(section)
	if err != nil || !s.HasKey(option) {
		return nil
	}
	values := s.Key(option).ValueWithShadows()
	for i, value := range values {
		values[i] = indent.ReplaceAllString(value, "\n")
	}
	return values
}

// Last returns the last value of an option, which is in force for options of one value,
// and whether it is set.
func (f File) Last(section, option string) (string, bool) {
	values := f.All(section, option)
	if len(values) == 0 {
		s, err := f.file.GetSection(section)
		return "", err == nil && s.HasKey(option)
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
