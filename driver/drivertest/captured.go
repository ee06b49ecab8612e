package drivertest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// Unpack unpacks a captured sysfs, a .tar.gz with the directory sys, and returns that
// directory, for sysfs.OpenDir. It keeps symbolic links as they are.
func Unpack(t testing.TB, archive string) string {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	plain, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return filepath.Join(dir, "sys")
		}
		if err == nil {
			err = unpackOne(filepath.Join(dir, filepath.FromSlash(h.Name)), h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func unpackOne(path string, h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeSymlink {
		return os.Symlink(h.Linkname, path)
	}
	data, err := io.ReadAll(r)
	return errors.Join(err, os.WriteFile(path, data, 0o644))
}
