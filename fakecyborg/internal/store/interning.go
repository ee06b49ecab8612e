package store

import (
	"strings"
	"unique"
)

// textsPiece is the size of a buffer that strings of rows share, in bytes.
const textsPiece = 2 << 10

// texts stores strings that differ in each row of the hardware in buffers that many rows share. A large cloud has a
// million of such strings, and the garbage collector would visit each.
type texts struct{ piece strings.Builder }

// keep copies a text.
func (x *texts) keep(text string) string {
	if x.piece.Cap()-x.piece.Len() < len(text) {
		x.piece.Reset() // rows have what it held
		x.piece.Grow(max(textsPiece, len(text)))
	}
	begin := x.piece.Len()
	x.piece.WriteString(text)
	return x.piece.String()[begin:]
}

// shared returns the single copy of a string that is the same in many rows.
func shared(text string) string { return unique.Make(text).Value() }
