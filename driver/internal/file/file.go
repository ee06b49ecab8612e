package file

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// IsName reports whether a text can be one part of a path.
func IsName(text string) bool {
	return text != "" && text != "." && text != ".." && !strings.ContainsAny(text, "/\x00\n")
}

// Unread reports whether an error leaves open what is there: the name exists and could not be
// read. It is not for a name that is absent or of another kind than expected.
func Unread(err error) bool {
	return err != nil && !slices.ContainsFunc([]error{fs.ErrNotExist, fs.ErrInvalid, syscall.EINVAL, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP},
		func(kind error) bool { return errors.Is(err, kind) })
}

// Cause returns what a path error wraps, for messages that name the file themselves.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
