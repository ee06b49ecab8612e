package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"go.etcd.io/bbolt"
)

// change is a change of a journal that is waiting to be written.
type change struct {
	instance string
	entry    *entry
	record   []byte        // nil to remove all records
	done     chan struct{} // closed after the change, or after it failed with err
	err      error
}

// enqueue adds a change to the queue, and starts the goroutine that writes it if necessary.
func (f *File) enqueue(c *change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.closed:
		return fmt.Errorf("journal file %s: %w", f.path, ErrClosed)
	default:
	}
	f.queue = append(f.queue, c)
	if len(f.queue) == 1 {
		go f.drain()
	}
	return nil
}

// drain writes changes until the queue is empty. Each transaction contains all changes that arrived while the
// previous one was written. bbolt's own Batch waits for a fixed time, and its Update flushes the disk for each
// change.
func (f *File) drain() {
	for {
		f.mu.Lock()
		batch := f.queue
		f.mu.Unlock()
		err := f.commit(batch)
		f.mu.Lock()
		f.queue = f.queue[len(batch):]
		idle := len(f.queue) == 0
		if idle {
			f.queue = nil
		}
		f.mu.Unlock()
		for _, c := range batch {
			c.err = err
			close(c.done)
		}
		if idle {
			return
		}
	}
}

// commit writes changes to the disk, and then to the table. After an error of the last flush bbolt continues with what
// it could not flush, and so does the table.
func (f *File) commit(batch []*change) error {
	var number uint64
	err := f.update(func(tx *bbolt.Tx) error {
		number = uint64(tx.ID())
		return write(tx, batch)
	})
	if err != nil {
		err = fmt.Errorf("journal file %s: %w", f.path, err)
		if now, unread := f.transaction(); unread != nil || now != number {
			return err
		}
	}
	for _, c := range batch {
		f.table.change(c.entry, c.record)
	}
	return err
}

// update runs a transaction. A failed transaction may be repeated, for example when the disk has room again.
func (f *File) update(do func(*bbolt.Tx) error) error {
	if now, err := os.Stat(f.path); err != nil || !os.SameFile(f.info, now) {
		return errors.Join(errors.New("it was removed or replaced while it was open"), err)
	}
	return f.protect(func() error { return f.db.Update(do) })
}

// transaction returns the number of the last transaction.
func (f *File) transaction() (number uint64, err error) {
	err = f.protect(func() error {
		return f.db.View(func(tx *bbolt.Tx) error {
			number = uint64(tx.ID())
			return nil
		})
	})
	return number, err
}

// protect calls bbolt. After a panic, bbolt's locks may stay locked, so it is not called again.
func (f *File) protect(call func() error) (err error) {
	if f.broken != nil {
		return f.broken
	}
	var panicked error
	func() {
		defer guard(&panicked)()
		err = call()
	}()
	if panicked != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.broken = fmt.Errorf("it was changed or became unreadable while it was open: %w", panicked)
		return f.broken
	}
	return err
}

// The file has one bucket, whose name contains the version of its form. The key of a record is the length of the
// instance's name in one byte, the name, and the number of the record in eight bytes; the key of the total is one byte 0.
// Each value begins with a checksum of its key and itself, because bbolt has checksums of its first two pages only.
const (
	bucketName   = "gocyborg journals 1"
	totalKey     = "\x00"
	numberLength = 8
	sumLength    = 4
)

// total is the number of records and the sum of their checksums, because bbolt does not notice a lost record.
type total struct{ Records, Sums uint64 }

func create(tx *bbolt.Tx) error {
	bucket, err := tx.CreateBucket([]byte(bucketName))
	if err != nil {
		return err
	}
	return total{}.write(bucket)
}

// write makes changes, in their order.
func write(tx *bbolt.Tx, batch []*change) error {
	bucket := tx.Bucket([]byte(bucketName))
	t, err := readTotal(bucket.Get([]byte(totalKey)))
	if err != nil {
		return err
	}
	next := make(map[*entry]int)
	for _, c := range batch {
		number, ok := next[c.entry]
		if !ok {
			number = len(c.entry.records) // only this goroutine changes their number
		}
		prefix := keyPrefix(c.instance)
		if c.record == nil {
			err = t.deleteAll(bucket, prefix)
			next[c.entry] = 0
		} else {
			err = t.put(bucket, binary.BigEndian.AppendUint64(prefix, uint64(number)), c.record)
			next[c.entry] = number + 1
		}
		if err != nil {
			return err
		}
	}
	return t.write(bucket)
}

func keyPrefix(instance string) []byte {
	key := make([]byte, 0, 1+len(instance)+numberLength)
	return append(append(key, byte(len(instance))), instance...)
}

func (t *total) put(bucket *bbolt.Bucket, key, record []byte) error {
	sum, value := seal(key, record)
	t.Records, t.Sums = t.Records+1, t.Sums+uint64(sum)
	return bucket.Put(key, value)
}

func (t *total) deleteAll(bucket *bbolt.Bucket, prefix []byte) error {
	var keys [][]byte
	cursor := bucket.Cursor()
	for key, value := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		sum, _, err := unseal(key, value)
		if err != nil {
			return err
		}
		t.Records, t.Sums = t.Records-1, t.Sums-uint64(sum)
		keys = append(keys, key)
	}
	for _, key := range keys { // not with the cursor, which a deletion moves
		if err := bucket.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

func readTotal(value []byte) (t total, err error) {
	_, data, err := unseal([]byte(totalKey), value)
	if err == nil {
		_, err = binary.Decode(data, binary.BigEndian, &t)
	}
	return t, err
}

func (t total) write(bucket *bbolt.Bucket) error {
	data, err := binary.Append(nil, binary.BigEndian, t)
	if err != nil {
		return err
	}
	key := []byte(totalKey)
	_, value := seal(key, data)
	return bucket.Put(key, value)
}

func seal(key, data []byte) (sum uint32, value []byte) {
	sum = checksum(key, data)
	value = binary.BigEndian.AppendUint32(make([]byte, 0, sumLength+len(data)), sum)
	return sum, append(value, data...)
}

func unseal(key, value []byte) (sum uint32, data []byte, err error) {
	if len(value) >= sumLength {
		sum, data = binary.BigEndian.Uint32(value), value[sumLength:]
		if sum == checksum(key, data) {
			return sum, data, nil
		}
	}
	return 0, nil, fmt.Errorf("%w: key %q: wrong checksum", ErrDamaged, key)
}

func checksum(key, data []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // made once
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, data)
}
