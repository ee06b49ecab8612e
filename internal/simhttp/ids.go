package simhttp

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
)

// IDs makes the same sequence of identifiers for the same seed and name. It is
// safe for parallel use.
type IDs struct {
	seed uint64
	name string
	next atomic.Uint64
}

// NewIDs returns the sequence of a seed and a name.
func NewIDs(seed uint64, name string) *IDs {
	return &IDs{seed: seed, name: name}
}

// UUID returns the next identifier, in the form of a version 4 UUID.
func (g *IDs) UUID() string { return UUIDAt(g.seed, g.name, g.next.Add(1)) }

// UUIDAt is the n-th UUID of the sequence of a seed and a name, from 1 on.
func UUIDAt(seed uint64, name string, n uint64) string { return textAt("", seed, name, n) }

// textAt is UUIDAt with a prefix.
func textAt(prefix string, seed uint64, name string, n uint64) string {
	var room [64]byte
	input := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(room[:0], seed), n)
	sum := sha256.Sum256(append(input, name...))
	sum[6] = sum[6]&0x0f | 0x40
	sum[8] = sum[8]&0x3f | 0x80
	at := append(room[:0], prefix...)
	for i, part := range [...][]byte{sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]} {
		if i > 0 {
			at = append(at, '-')
		}
		at = hex.AppendEncode(at, part)
	}
	return string(at)
}

// RequestID returns the next identifier in the form of OpenStack's
// x-openstack-request-id header.
func (g *IDs) RequestID() string { return textAt("req-", g.seed, g.name, g.next.Add(1)) }

// Position is how many identifiers were made, for [IDs.Continue] of a sequence of the
// same seed and name.
func (g *IDs) Position() uint64 { return g.next.Load() }

// Continue goes on behind a position.
func (g *IDs) Continue(position uint64) { g.next.Store(position) }
