package ceiling

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is an amount of memory in bytes. As a text it has a unit, KiB, MiB, GiB or TiB, or its first letter, or none.
type Size int64

// least is the smallest size that a process can work with.
const least = 64 << 20

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), "KMGTiB")
	shift, known := map[string]int{"": 0, "B": 0, "K": 10, "KiB": 10, "M": 20, "MiB": 20, "G": 30, "GiB": 30, "T": 40, "TiB": 40}[string(text[len(digits):])]
	n, err := strconv.ParseInt(digits, 10, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange), !known:
		return fmt.Errorf("%s: not a size such as 512MiB or 2GiB", text)
	case err != nil || n > math.MaxInt64>>shift:
		return fmt.Errorf("%s: too large", text)
	case n<<shift < least:
		return fmt.Errorf("%s: less than %s", text, Size(least))
	}
	*s = Size(n << shift)
	return nil
}

// String is the size in GiB, or in MiB if that is not a whole number.
func (s Size) String() string {
	const gib = 1 << 30
	if s > 0 && s%gib == 0 {
		return fmt.Sprint(int64(s/gib), "GiB")
	}
	return fmt.Sprint(int64(s)>>20, "MiB")
}
