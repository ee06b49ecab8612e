package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"slices"
	"time"
)

// bbolt trusts what is in a file: a wrong number makes it panic, read outside of the file or follow a page to itself for
// ever. The file is therefore read here first, and given to bbolt once all pages that it can reach are in order. Pages
// that it does not reach do not matter; a write that the end of the machine interrupted has changed only those.
//
// Two meta pages come first. Transactions write them alternately, after all other pages, and the newer one counts. A meta
// is shorter than the sector that a disk writes as a whole, so that a broken one is damage, and not an interrupted write:
// the older one may lack records that were acknowledged.
//
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

	bucketFlag = 1

	firstTransaction = 1
	noFreePages      = ^uint64(0)
	metaPages        = 2
)

// meta is what a meta page has behind its header.
type meta struct {
	Magic, Version, PageSize, Flags        uint32
	Root, Sequence, Free, End, Transaction uint64
	Sum                                    uint64
}

const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaLength  = 64
)

var errPage = errors.New("not a page of a bbolt file")

// content is what a file has in its bucket, and the number of the transaction that wrote it last.
type content struct {
	transaction uint64
	pairs       []element
}

// element is an element of a leaf page.
type element struct {
	flags      uint32
	key, value []byte
}

// readContent reads a file that no process writes.
func readContent(file *os.File) (content, error) {
	newest, err := readMetas(file)
	if err != nil {
		return content{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	c := content{transaction: newest.Transaction}
	p := &pages{file: file, size: int64(newest.PageSize), end: newest.End, seen: make(map[uint64]bool)}
	if c.pairs, err = p.bucket(newest); err != nil {
		return content{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return c, nil
}

func readMetas(file *os.File) (newest meta, err error) {
	for i, offset := 0, int64(0); i < metaPages; i, offset = i+1, int64(newest.PageSize) {
		m, err := readMeta(file, offset)
		if err != nil {
			return meta{}, fmt.Errorf("page %d: %w", i, err)
		}
		if m.Transaction >= newest.Transaction {
			newest = m
		}
	}
	info, err := file.Stat()
	if err == nil && int64(newest.End) > info.Size()/int64(newest.PageSize) {
		err = fmt.Errorf("it has %d bytes, not %d pages of %d", info.Size(), newest.End, newest.PageSize)
	}
	return newest, err
}

func readMeta(file *os.File, offset int64) (m meta, err error) {
	data := make([]byte, metaLength)
	if _, err := file.ReadAt(data, offset+pageHeaderLength); err != nil {
		return m, errPage
	}
	if _, err := binary.Decode(data, binary.NativeEndian, &m); err != nil {
		return m, err
	}
	sum := fnv.New64a()
	sum.Write(data[:metaLength-8])
	if m.Magic != metaMagic || m.Version != metaVersion || m.Sum != sum.Sum64() || m.PageSize == 0 {
		return m, errPage
	}
	return m, nil
}

// pages reads the pages of a file.
type pages struct {
	file *os.File
	size int64  // of a page, in bytes
	end  uint64 // of the pages in use
	seen map[uint64]bool
}

// bucket returns what is in the bucket of a journal file. A file that has no transaction yet is empty.
func (p *pages) bucket(m meta) ([]element, error) {
	top, err := p.tree(m.Root, nil, nil)
	if err != nil {
		return nil, err
	}
	if len(top) == 0 && m.Transaction == firstTransaction {
		free, err := p.read(m.Free)
		if err == nil && (pageKind(free) != freePage || pageCount(free) != 0) {
			err = errPage
		}
		return nil, err
	}
	if len(top) != 1 || top[0].flags != bucketFlag || string(top[0].key) != bucketName || len(top[0].value) < bucketLength {
		return nil, errors.New("not a journal file of this version")
	}
	if m.Free != noFreePages {
		return nil, errors.New("another program has written it")
	}
	value := top[0].value
	var records []element
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		records, err = p.tree(root, nil, nil)
	} else {
		records, err = leaf(value[bucketLength:], nil, nil)
	}
	if err == nil && slices.ContainsFunc(records, func(e element) bool { return e.flags != 0 }) {
		err = errors.New("not a record")
	}
	return records, err
}

// tree returns the elements of the leaf pages below a page, whose keys are at least low and less than high, or nil for
// no bound.
func (p *pages) tree(number uint64, low, high []byte) ([]element, error) {
	page, err := p.read(number)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", number, err)
	}
	if pageKind(page) != branchPage {
		elements, err := leaf(page, low, high)
		if err != nil {
			return nil, fmt.Errorf("page %d: %w", number, err)
		}
		return elements, nil
	}
	below, err := branch(page, low, high)
	if err != nil {
		return nil, fmt.Errorf("page %d: %w", number, err)
	}
	var elements []element
	for i, b := range below {
		end := high
		if i+1 < len(below) {
			end = below[i+1].key
		}
		part, err := p.tree(b.number, b.key, end)
		if err != nil {
			return nil, err
		}
		elements = append(elements, part...)
	}
	return elements, nil
}

// read reads a page and its further pages, each once.
func (p *pages) read(number uint64) ([]byte, error) {
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

func leaf(page, low, high []byte) (elements []element, err error) {
	rests, err := elementsOf(page, leafPage)
	order := keyOrder{low, high}
	for _, rest := range rests {
		field := func(i int) uint32 { return binary.NativeEndian.Uint32(rest[4*i:]) }
		key, value, ok := cut(rest, field(1), field(2), field(3))
		if !ok || !order.next(key) {
			return nil, errPage
		}
		elements = append(elements, element{field(0), key, value})
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

// entries returns the journals of a file. All are abandoned, as far as this process can know.
func (c content) entries(opened time.Time) (map[string]*entry, error) {
	entries := make(map[string]*entry)
	if c.transaction == firstTransaction {
		return entries, nil
	}
	if len(c.pairs) == 0 || string(c.pairs[0].key) != totalKey {
		return nil, fmt.Errorf("%w: the number of records is missing", ErrDamaged)
	}
	want, err := readTotal(c.pairs[0].value)
	if err != nil {
		return nil, err
	}
	var got total
	for _, pair := range c.pairs[1:] {
		sum, data, err := unseal(pair.key, pair.value)
		if err != nil {
			return nil, err
		}
		got.Records, got.Sums = got.Records+1, got.Sums+uint64(sum)
		if err := addRecord(entries, pair.key, data, opened); err != nil {
			return nil, err
		}
	}
	if got != want {
		return nil, fmt.Errorf("%w: it has %d records, of %d", ErrDamaged, got.Records, want.Records)
	}
	return entries, nil
}

func addRecord(entries map[string]*entry, key, data []byte, opened time.Time) error {
	length := len(key) - 1 - numberLength
	if length < 1 || length != int(key[0]) {
		return fmt.Errorf("%w: key %q: not the key of a record", ErrDamaged, key)
	}
	instance, number := string(key[1:1+length]), binary.BigEndian.Uint64(key[1+length:])
	e := entries[instance]
	if e == nil {
		e = newEntry()
		e.abandoned = opened
		entries[instance] = e
	}
	if number != uint64(len(e.records)) {
		return fmt.Errorf("%w: instance %s: record %d instead of %d", ErrDamaged, instance, number, len(e.records))
	}
	e.records = append(e.records, clone(data))
	return nil
}
