package discover

import (
	"fmt"
	"regexp"
	"strings"

	"gopkg.in/ini.v1"
)

// maxConf limits the size of a configuration file, in bytes.
const maxConf = 4 << 20

// openstackConf is a configuration file of an OpenStack service, read by the rules of
// oslo.config: options may be repeated, values may continue in indented lines, comments
// have lines of their own. Substitutions such as $host are not made.
type openstackConf struct {
	file *ini.File
}

func parseConf(data []byte) (openstackConf, error) {
	file, err := ini.LoadSources(ini.LoadOptions{
		IgnoreContinuation:         true, // a backslash at the end is a backslash
		IgnoreInlineComment:        true,
		AllowPythonMultilineValues: true,
		AllowShadows:               true,
		AllowDuplicateShadowValues: true,
		ChildSectionDelimiter:      "\x00", // a dot in a name is a dot
	}, data)
	return openstackConf{file}, err
}

// indent matches the beginning of a continued line.
var indent = regexp.MustCompile(`\n[ \t]+`)

// all returns each value of an option, in the order written.
func (c openstackConf) all(section, option string) []string {
	s, err := c.file.GetSection(section)
	if err != nil || !s.HasKey(option) {
		return nil
	}
	values := s.Key(option).ValueWithShadows()
	for i, value := range values {
		values[i] = indent.ReplaceAllString(value, "\n")
	}
	return values
}

// last returns the last value of an option, which is in force for options of one value,
// and whether it is set.
func (c openstackConf) last(section, option string) (string, bool) {
	values := c.all(section, option)
	if len(values) == 0 {
		s, err := c.file.GetSection(section)
		return "", err == nil && s.HasKey(option)
	}
	return strings.TrimSpace(values[len(values)-1]), true
}

// list returns the parts of a comma-separated value, or nil if the option is not set.
func (c openstackConf) list(section, option string) []string {
	value, set := c.last(section, option)
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

// flag returns the value of a boolean option, in the words that oslo.config accepts.
func (c openstackConf) flag(section, option string) (bool, error) {
	value, set := c.last(section, option)
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
