package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// readBounded reads a file that is no longer than so many bytes.
func readBounded(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return boundedBy(most, name, file)
}

// boundedBy reads to the end, which must come within so many bytes.
func boundedBy(most int64, name string, from io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return data, err
}

// writeWhole writes a file that a reader sees whole or not at all, and no other user sees.
func writeWhole(name string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".cysim-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // gone already if all went well
	_, err = temporary.Write(data)
	if err := errors.Join(err, temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
