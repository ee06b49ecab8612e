package tables

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/gocyborg/gocyborg/sim"
)

// The form of a meta page of bbolt: the header of a page, then magic, version, page size and flags, the root with its
// sequence, the list of free pages, the number of pages, the number of the transaction, and the FNV-1a of all those.
const (
	metaPages  = 2
	metaNumber = headerLength + 48
	metaSum    = headerLength + 56
	metaLength = headerLength + 64
)

// checkMetas refuses a file of which a meta page is not one that bbolt wrote. Transactions write the two in turn, and bbolt
// takes the other one for a broken one: the file would be as it was before its last change, which was acknowledged. A meta
// is shorter than the sector that a disk writes as a whole, so it is never written in part. The error matches [sim.ErrRecords].
func checkMetas(path string, size int) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var numbers [metaPages]uint64
	for i := range numbers {
		meta := make([]byte, metaLength)
		if _, err := file.ReadAt(meta, int64(i*size)); err != nil && err != io.EOF {
			return fmt.Errorf("page %d: %w", i, err)
		}
		sum := fnv.New64a()
		sum.Write(meta[headerLength:metaSum])
		numbers[i] = binary.NativeEndian.Uint64(meta[metaNumber:])
		if binary.NativeEndian.Uint64(meta[metaSum:]) != sum.Sum64() || numbers[i]%metaPages != uint64(i) {
			return fmt.Errorf("%w: page %d: it is not as it was written, and the last change may be lost with it", sim.ErrRecords, i)
		}
	}
	if newest := max(numbers[0], numbers[1]); newest-min(numbers[0], numbers[1]) != 1 {
		return fmt.Errorf("%w: page %d: it belongs to change %d, not to the one before %d", sim.ErrRecords,
			(newest+1)%metaPages, min(numbers[0], numbers[1]), newest)
	}
	return nil
}
