package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gocyborg/gocyborg/internal/boltfile"
)

// content is what a file has in its bucket, and the number of the transaction that wrote it last.
type content struct {
	transaction uint64
	pairs       []boltfile.Element
}

// readContent reads a file that no process writes.
func readContent(file *os.File) (content, error) {
	newest, err := boltfile.ReadMetas(file)
	if err != nil {
		return content{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	info, err := file.Stat()
	if err != nil {
		return content{}, err
	}
	c := content{transaction: newest.Transaction}
	if int64(newest.End) > info.Size()/int64(newest.PageSize) {
		err = fmt.Errorf("it has %d bytes, not %d pages of %d", info.Size(), newest.End, newest.PageSize)
	} else {
		c.pairs, err = readPairs(boltfile.NewPages(file, newest.PageSize, newest.End), newest)
	}
	if err != nil {
		return content{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return c, nil
}

// readPairs returns what is in the bucket of a journal file. A file that has no transaction yet is empty.
func readPairs(p *boltfile.Pages, newest boltfile.Meta) (pairs []boltfile.Element, err error) {
	var top []boltfile.Element
	err = p.Tree(newest.Root, func(e boltfile.Element) error {
		top = append(top, e)
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(top) == 0 && newest.Transaction == boltfile.FirstTransaction:
		free, err := p.FreeList(newest.Free)
		if err == nil && free != 0 {
			err = errors.New("it has free pages before its first change")
		}
		return nil, err
	case len(top) != 1 || top[0].Flags != boltfile.BucketFlag || string(top[0].Key) != bucketName:
		return nil, errors.New("not a journal file of this version")
	case newest.Free != boltfile.NoFreeList:
		return nil, errors.New("another program has written it")
	}
	err = p.Bucket(top[0].Value, func(e boltfile.Element) error {
		if e.Flags != 0 {
			return errors.New("not a record")
		}
		pairs = append(pairs, e)
		return nil
	})
	return pairs, err
}

// entries returns the journals of a file. All are abandoned, as far as this process can know.
func (c content) entries(opened time.Time) (map[string]*entry, error) {
	entries := make(map[string]*entry)
	if c.transaction == boltfile.FirstTransaction {
		return entries, nil
	}
	if len(c.pairs) == 0 || string(c.pairs[0].Key) != totalKey {
		return nil, fmt.Errorf("%w: the number of records is missing", ErrDamaged)
	}
	want, err := readTotal(c.pairs[0].Value)
	if err != nil {
		return nil, err
	}
	var got total
	for _, pair := range c.pairs[1:] {
		sum, data, err := unseal(pair.Key, pair.Value)
		if err != nil {
			return nil, err
		}
		got.Records, got.Sums = got.Records+1, got.Sums+uint64(sum)
		if err := addRecord(entries, pair.Key, data, opened); err != nil {
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
