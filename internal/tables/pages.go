package tables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/gocyborg/gocyborg/sim"
)

// The form of a page of bbolt: the header with id, kind, number of elements and number of further pages, then an
// element for each key, and then keys and values. The element of a branch has the position of its key behind
// itself, the length of that, and the number of a page; that of a leaf has flags, the position of key and value,
// and their lengths. The value of a bucket begins with the number of its first page and a sequence; a small
// bucket has the number 0 and one page behind that.
const (
	headerLength  = 16
	elementLength = 16
	bucketLength  = 16
	branchPage    = 1
	leafPage      = 2
	bucketElement = 1
)

var (
	errPageKind  = errors.New("neither a branch nor a leaf")
	errPageBound = errors.New("it leads out of itself")
)

// pages is a file as bbolt writes it. bbolt takes all that is in it for right, and would follow a page that
// leads to itself for ever.
type pages struct {
	file *os.File
	size int64 // of a page, in bytes
	end  int64 // of the file
	seen map[uint64]bool
}

// checkPages refuses a file in which a page cannot be read or is reached twice. The error matches
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
	p := &pages{file: file, size: int64(size), end: info.Size(), seen: make(map[uint64]bool)}
	for rest := []uint64{root}; len(rest) > 0; {
		id := rest[len(rest)-1]
		data, err := p.read(id)
		var below []uint64
		if err == nil {
			below, err = pagesBelow(data)
		}
		if err != nil {
			return fmt.Errorf("%w: page %d: %w", sim.ErrRecords, id, err)
		}
		rest = append(rest[:len(rest)-1], below...)
	}
	return nil
}

// read reads a page and those that continue it.
func (p *pages) read(id uint64) ([]byte, error) {
	count := uint64(p.end / p.size)
	if id >= count {
		return nil, errPageBound
	}
	header := make([]byte, headerLength)
	if _, err := p.file.ReadAt(header, int64(id)*p.size); err != nil {
		return nil, err
	}
	length := 1 + uint64(binary.NativeEndian.Uint32(header[12:]))
	if length > count-id {
		return nil, errPageBound
	}
	for each := id; each < id+length; each++ {
		if p.seen[each] {
			return nil, errors.New("it is reached twice")
		}
		p.seen[each] = true
	}
	data := make([]byte, int64(length)*p.size)
	_, err := p.file.ReadAt(data, int64(id)*p.size)
	return data, err
}

// pagesBelow returns the numbers of the pages to which a page leads, if all that it consists of lies in it.
func pagesBelow(page []byte) (ids []uint64, err error) {
	if len(page) < headerLength {
		return nil, errPageBound
	}
	kind, count := binary.NativeEndian.Uint16(page[8:]), int(binary.NativeEndian.Uint16(page[10:]))
	if kind != branchPage && kind != leafPage {
		return nil, errPageKind
	}
	if headerLength+count*elementLength > len(page) {
		return nil, errPageBound
	}
	for i := range count {
		rest := page[headerLength+i*elementLength:]
		below, err := elementBelow(rest, kind == branchPage)
		if err != nil {
			return nil, err
		}
		ids = append(ids, below...)
	}
	return ids, nil
}

// elementBelow is pagesBelow for an element and what follows it.
func elementBelow(element []byte, ofBranch bool) ([]uint64, error) {
	field := func(i int) uint64 { return uint64(binary.NativeEndian.Uint32(element[4*i:])) }
	if ofBranch {
		if field(0)+field(1) > uint64(len(element)) {
			return nil, errPageBound
		}
		return []uint64{binary.NativeEndian.Uint64(element[8:])}, nil
	}
	from := field(1) + field(2)
	end := from + field(3)
	if end > uint64(len(element)) {
		return nil, errPageBound
	}
	if field(0)&bucketElement == 0 {
		return nil, nil
	}
	return bucketBelow(element[from:end])
}

// bucketBelow is pagesBelow for the value of a bucket.
func bucketBelow(value []byte) ([]uint64, error) {
	if len(value) < bucketLength {
		return nil, errPageBound
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return []uint64{root}, nil
	}
	below, err := pagesBelow(value[bucketLength:])
	if err == nil && len(below) > 0 {
		err = errPageKind // a small bucket leads nowhere
	}
	return nil, err
}
