package tables

import (
	"fmt"
	"os"

	"github.com/gocyborg/gocyborg/internal/boltfile"
	"github.com/gocyborg/gocyborg/sim"
)

// checkMetas refuses a file if one of its meta pages is not as bbolt has written it. The error matches [sim.ErrRecords].
func checkMetas(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := boltfile.ReadMetas(file); err != nil {
		return fmt.Errorf("%w: %w", sim.ErrRecords, err)
	}
	return nil
}

// checkPages refuses a file in which a page below the root cannot be read. The size of a page is in bytes. The error matches
// [sim.ErrRecords].
func checkPages(path string, size int, root uint64) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	pages := boltfile.NewPages(file, uint32(size), uint64(info.Size()/int64(size)))
	var check func(boltfile.Element) error
	check = func(e boltfile.Element) error {
		if e.Flags&boltfile.BucketFlag == 0 {
			return nil
		}
		return pages.Bucket(e.Value, check)
	}
	if err := pages.Tree(root, check); err != nil {
		return fmt.Errorf("%w: %w", sim.ErrRecords, err)
	}
	return nil
}
