package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A page has a header with its number, kind, number of elements and number of further pages, then the elements, then their
// keys and values. An element of a branch page has the offset of its key behind itself, the length of the key, and a page
// number; an element of a leaf page has flags, the offset of its key, and the lengths of key and value. The value of a
// bucket has the number of its first page and a sequence number; the number is 0 for a small bucket, whose page follows.
const (
	pageHeaderLength = 16
	elementLength    = 16
	bucketLength     = 16

	branchPage = 1
	leafPage   = 2
	freePage   = 16
)

// BucketFlag is the only flag of an element: its value is a bucket.
const BucketFlag = 1

var errPage = errors.New("not a page of a bbolt file")

// Element is a key with its value. They are parts of the page that was read.
type Element struct {
	Flags      uint32
	Key, Value []byte
}

// Pages reads the pages of a file, each once.
type Pages struct {
	file io.ReaderAt
	size int64 // of a page, in bytes
	end  uint64
	seen map[uint64]bool
}

// NewPages returns the pages of a file with numbers below end. Their size is in bytes.
func NewPages(file io.ReaderAt, size uint32, end uint64) *Pages {
	return &Pages{file: file, size: int64(size), end: end, seen: make(map[uint64]bool)}
}

// Tree calls do with the elements of the leaf pages below a page, in the order of their keys, and returns its first error. It is an
// error if a page cannot be read, is not a page of bbolt's, has keys that are not in order, or is reached twice.
func (p *Pages) Tree(root uint64, do func(Element) error) error { return p.tree(root, nil, nil, do) }

// Bucket is Tree for the value of a bucket.
func (p *Pages) Bucket(value []byte, do func(Element) error) error {
	if len(value) < bucketLength {
		return errPage
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.Tree(root, do)
	}
	elements, err := leaf(value[bucketLength:], nil, nil)
	if err != nil {
		return err
	}
	for _, e := range elements {
		if e.Flags&BucketFlag != 0 {
			return errPage // a small bucket has no buckets
		}
		if err := do(e); err != nil {
			return err
		}
	}
	return nil
}

// FreeList returns the number of elements of the list of free pages that begins at a page.
func (p *Pages) FreeList(number uint64) (length int, err error) {
	page, err := p.read(number)
	if err == nil && pageKind(page) != freePage {
		err = errPage
	}
	if err != nil {
		return 0, fmt.Errorf("page %d: %w", number, err)
	}
	return pageCount(page), nil
}

// tree is Tree for keys that are at least low and less than high; nil means no bound.
func (p *Pages) tree(number uint64, low, high []byte, do func(Element) error) error {
	elements, below, err := p.elements(number, low, high)
	if err != nil {
		return fmt.Errorf("page %d: %w", number, err)
	}
	for _, e := range elements {
		if err := do(e); err != nil {
			return err
		}
	}
	for i, b := range below {
		end := high
		if i+1 < len(below) {
			end = below[i+1].key
		}
		if err := p.tree(b.number, b.key, end, do); err != nil {
			return err
		}
	}
	return nil
}

// elements returns what a leaf page or a branch page has.
func (p *Pages) elements(number uint64, low, high []byte) (elements []Element, below []branchElement, err error) {
	page, err := p.read(number)
	switch {
	case err != nil:
	case pageKind(page) == branchPage:
		below, err = branch(page, low, high)
	default:
		elements, err = leaf(page, low, high)
	}
	return elements, below, err
}

// read reads a page and its further pages, each once.
func (p *Pages) read(number uint64) ([]byte, error) {
	header := make([]byte, pageHeaderLength)
	if number < metaPages || number >= p.end {
		return nil, errors.New("outside of the file")
	}
	if _, err := p.file.ReadAt(header, int64(number)*p.size); err != nil {
		return nil, err
	}
	length := 1 + uint64(binary.NativeEndian.Uint32(header[12:]))
	if binary.NativeEndian.Uint64(header) != number || length > p.end-number {
		return nil, errPage
	}
	for each := number; each < number+length; each++ {
		if p.seen[each] {
			return nil, errors.New("in use twice")
		}
		p.seen[each] = true
	}
	data := make([]byte, int64(length)*p.size)
	_, err := p.file.ReadAt(data, int64(number)*p.size)
	return data, err
}

func pageKind(page []byte) uint16 { return binary.NativeEndian.Uint16(page[8:]) }
func pageCount(page []byte) int   { return int(binary.NativeEndian.Uint16(page[10:])) }

// elementsOf returns the rest of a page from each of its elements on.
func elementsOf(page []byte, kind uint16) (rests [][]byte, err error) {
	if len(page) < pageHeaderLength || pageKind(page) != kind || pageHeaderLength+pageCount(page)*elementLength > len(page) {
		return nil, errPage
	}
	for i := range pageCount(page) {
		rests = append(rests, page[pageHeaderLength+i*elementLength:])
	}
	return rests, nil
}

type branchElement struct {
	key    []byte
	number uint64
}

func branch(page, low, high []byte) (below []branchElement, err error) {
	rests, err := elementsOf(page, branchPage)
	if err == nil && len(rests) == 0 {
		err = errPage
	}
	order := keyOrder{low, high}
	for _, rest := range rests {
		key, _, ok := cut(rest, binary.NativeEndian.Uint32(rest), binary.NativeEndian.Uint32(rest[4:]), 0)
		if !ok || !order.next(key) {
			return nil, errPage
		}
		below = append(below, branchElement{key, binary.NativeEndian.Uint64(rest[8:])})
	}
	return below, err
}

func leaf(page, low, high []byte) (elements []Element, err error) {
	rests, err := elementsOf(page, leafPage)
	order := keyOrder{low, high}
	for _, rest := range rests {
		field := func(i int) uint32 { return binary.NativeEndian.Uint32(rest[4*i:]) }
		key, value, ok := cut(rest, field(1), field(2), field(3))
		if !ok || !order.next(key) {
			return nil, errPage
		}
		elements = append(elements, Element{field(0), key, value})
	}
	return elements, err
}

// cut returns the key at an offset and the value behind it.
func cut(rest []byte, offset, keyLength, valueLength uint32) (key, value []byte, ok bool) {
	from := uint64(offset)
	middle := from + uint64(keyLength)
	end := middle + uint64(valueLength)
	if from < elementLength || end > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[from:middle:middle], rest[middle:end:end], true
}

// keyOrder checks that keys ascend, from low on and below high.
type keyOrder struct{ low, high []byte }

func (o *keyOrder) next(key []byte) bool {
	if len(key) == 0 || o.low != nil && bytes.Compare(key, o.low) < 0 || o.high != nil && bytes.Compare(key, o.high) >= 0 {
		return false
	}
	o.low = append(bytes.Clone(key), 0) // the least key above it
	return true
}
