package file

import (
	"errors"
	"io/fs"
	"strings"
)

// IsName reports whether a text can be one part of a path.
func IsName(text string) bool {
	return text != "" && text != "." && text != ".." && !strings.ContainsAny(text, "/\x00\n")
}

// Cause returns what a path error wraps, for messages that name the file themselves.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
