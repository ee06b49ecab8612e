package boltfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// Meta is the content of a meta page after its header. Root, Free and End are numbers of pages.
type Meta struct {
	Magic, Version, PageSize, Flags        uint32
	Root, Sequence, Free, End, Transaction uint64
	Sum                                    uint64
}

const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	metaLength  = 64
	metaPages   = 2
)

// FirstTransaction is Meta.Transaction of a file without a transaction yet, NoFreeList is Meta.Free of a file that stores no list of
// its free pages.
const (
	FirstTransaction = 1
	NoFreeList       = ^uint64(0)
)

var errMeta = errors.New("it is not as it was written, and the last change may be lost with it")

// ReadMetas returns the newer one of the two meta pages with which a file begins, if both are as bbolt has written them. Transactions
// write them alternately, after all other pages, and bbolt uses the older one if the newer one is broken: the file would be as it was
// before its last change, which was acknowledged. A meta is shorter than the sector that a disk writes as a whole, so that it is never
// written in part.
func ReadMetas(file io.ReaderAt) (newest Meta, err error) {
	older := Meta{Transaction: NoFreeList}
	for i, offset := uint64(0), int64(0); i < metaPages; i, offset = i+1, int64(newest.PageSize) {
		m, err := readMeta(file, offset)
		if err == nil && m.Transaction%metaPages != i {
			err = errMeta
		}
		if err != nil {
			return Meta{}, fmt.Errorf("page %d: %w", i, err)
		}
		if m.Transaction >= newest.Transaction {
			newest = m
		}
		if m.Transaction < older.Transaction {
			older = m
		}
	}
	if newest.Transaction-older.Transaction != 1 {
		return Meta{}, fmt.Errorf("page %d: it belongs to change %d, not to the one before %d", older.Transaction%metaPages, older.Transaction, newest.Transaction)
	}
	return newest, nil
}

func readMeta(file io.ReaderAt, offset int64) (m Meta, err error) {
	data := make([]byte, metaLength)
	if _, err := file.ReadAt(data, offset+pageHeaderLength); err != nil && err != io.EOF {
		return m, err
	}
	if _, err := binary.Decode(data, binary.NativeEndian, &m); err != nil {
		return m, err
	}
	sum := fnv.New64a()
	sum.Write(data[:metaLength-8])
	if m.Magic != metaMagic || m.Version != metaVersion || m.Sum != sum.Sum64() || m.PageSize == 0 {
		return m, errMeta
	}
	return m, nil
}
