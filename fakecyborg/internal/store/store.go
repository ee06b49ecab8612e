package store

import (
	"crypto/sha1" //nolint:gosec // UUIDs of version 5 are made with it
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/internal/tables"
)

// Tx is a view of the database, or a transaction.
type Tx struct {
	s  *Store
	tx *tables.Tx
}

// DB is the database as tables of records.
func (s *Store) DB() *tables.DB { return s.db }

// View calls read with a view of the database. Nothing changes during the call.
func (s *Store) View(read func(Tx)) {
	s.db.View(func(tx *tables.Tx) { read(Tx{s, tx}) })
}

// ViewPast is View as a reader of a replica sees the database, see fakecyborg.Config.ReadLag.
func (s *Store) ViewPast(read func(Tx)) {
	s.db.ViewPast(func(tx *tables.Tx) { read(Tx{s, tx}) })
}

// Loads returns how often the state was replaced.
func (t Tx) Loads() int { return t.tx.Loads() }

// Version increases with each change.
func (t Tx) Version() int { return t.tx.Version() }

// Read returns the result of read in a view of the database.
func Read[T any](s *Store, read func(Tx) T) (found T) {
	s.View(func(t Tx) { found = read(t) })
	return found
}

// Find is Read with an error result.
func Find[T any](s *Store, find func(Tx) (T, error)) (found T, err error) {
	s.View(func(t Tx) { found, err = find(t) })
	return found, err
}

// Update calls write with a transaction, which is committed when write returns. The changes are added to the log,
// which may be nil.
func (s *Store) Update(log *tables.ChangeLog, write func(Tx)) {
	s.db.Update(log, func(tx *tables.Tx) {
		write(Tx{s, tx})
		if n := s.cfg.requestIDs(); n > s.requestIDs.Last(tx) {
			s.requestIDs.Set(tx, n)
		}
	})
}

// Rollback makes [Store.Update] undo the transaction's writes when it ends.
func (t Tx) Rollback() { t.tx.Rollback() }

// RequestIDs returns the number of request IDs that had been issued at the last change.
func (s *Store) RequestIDs() (n int64) {
	s.View(func(t Tx) { n = s.requestIDs.Last(t.tx) })
	return n
}

// number names the next row of a kind by its number.
func (t Tx) number(kind string) string { return fmt.Sprint(t.s.names[kind].Next(t.tx)) }

// uuidOf returns the UUID of a row, derived from its name, so that hosts may report in any order. It equals
// uuid.NewSHA1, without the allocation of the hash.
func (s *Store) uuidOf(kind, name string) string {
	var room [256]byte
	text := strconv.AppendUint(append(room[:0], s.space[:]...), s.cfg.Seed, 10)
	text = append(append(append(append(text, '/'), kind...), '/'), name...)
	sum := sha1.Sum(text)
	id := uuid.UUID(sum[:16])
	id[6], id[8] = id[6]&0x0f|0x50, id[8]&0x3f|0x80
	return id.String()
}
