package tables

import (
	"encoding/binary"
	"hash/crc32"

	"go.etcd.io/bbolt"

	"github.com/gocyborg/gocyborg/sim"
)

// place is where a row stands.
type place struct{ table, key string }

// checkLength is the length of the checksum before each row of a file, in bytes.
const checkLength = 4

// check is the checksum of a row: bbolt has one of its first pages only.
func (p place) check(row []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // made once
	head := make([]byte, 0, 128)
	head = append(append(append(append(head, p.table...), 0), p.key...), 0)
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, row)
}

// seal puts the checksum before a row.
func (p place) seal(row []byte) []byte {
	sealed := make([]byte, 0, checkLength+len(row))
	return append(binary.BigEndian.AppendUint32(sealed, p.check(row)), row...)
}

// open returns a row and its checksum, which it compares.
func (p place) open(sealed []byte) (row []byte, check uint32, err error) {
	check, ok := sealedCheck(sealed)
	if ok {
		row = sealed[checkLength:]
	}
	if !ok || check != p.check(row) {
		return nil, check, sim.Record{Table: p.table, Key: p.key}.Errorf("the checksum is wrong: the file is damaged")
	}
	return row, check, nil
}

func sealedCheck(sealed []byte) (check uint32, ok bool) {
	if len(sealed) < checkLength {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed), true
}

// sum detects missing rows of a file.
type sum struct {
	Rows   uint64
	Checks uint64 // added up
}

func (s *sum) add(check uint32)    { s.Rows, s.Checks = s.Rows+1, s.Checks+uint64(check) }
func (s *sum) remove(check uint32) { s.Rows, s.Checks = s.Rows-1, s.Checks-uint64(check) }

// put writes a row.
func (s *sum) put(tx *bbolt.Tx, at place, row []byte) error {
	bucket, err := tx.Bucket([]byte(rowsBucket)).CreateBucketIfNotExists([]byte(at.table))
	if err != nil {
		return err
	}
	key, sealed := []byte(at.key), at.seal(row)
	if old, ok := sealedCheck(bucket.Get(key)); ok {
		s.remove(old)
	}
	check, _ := sealedCheck(sealed)
	s.add(check)
	return bucket.Put(key, sealed)
}

// inOrder is the part of a page that is filled by rows in the order of their keys. bbolt fills
// half of each, for rows that may come between.
const inOrder = 0.95

// putBatch writes rows of about batchBytes, and reports whether there may be more.
func (s *sum) putBatch(tx *bbolt.Tx, next func() (sim.Record, error, bool)) (more bool, err error) {
	for length := 0; length < batchBytes; {
		r, err, ok := next()
		if err != nil || !ok {
			return false, err
		}
		if err := s.put(tx, place{r.Table, r.Key}, r.Row); err != nil {
			return false, err
		}
		tx.Bucket([]byte(rowsBucket)).Bucket([]byte(r.Table)).FillPercent = inOrder
		length += len(r.Row)
	}
	return true, nil
}

// delete deletes a row.
func (s *sum) delete(tx *bbolt.Tx, at place) error {
	bucket := tx.Bucket([]byte(rowsBucket)).Bucket([]byte(at.table))
	if bucket == nil {
		return nil
	}
	key := []byte(at.key)
	if old, ok := sealedCheck(bucket.Get(key)); ok {
		s.remove(old)
	}
	return bucket.Delete(key)
}

// sumAt is where the sum stands.
var sumAt = place{sumBucket, sumBucket}

func readSum(tx *bbolt.Tx) (s sum, err error) {
	bucket := tx.Bucket([]byte(sumBucket))
	if bucket == nil {
		return s, sim.Record{Table: sumBucket}.Errorf("it is missing")
	}
	data, _, err := sumAt.open(bucket.Get([]byte(sumBucket)))
	if err == nil {
		_, err = binary.Decode(data, binary.BigEndian, &s)
	}
	return s, err
}

func (s *sum) write(tx *bbolt.Tx) error {
	data, err := binary.Append(nil, binary.BigEndian, s)
	if err != nil {
		return err
	}
	return tx.Bucket([]byte(sumBucket)).Put([]byte(sumBucket), sumAt.seal(data))
}
