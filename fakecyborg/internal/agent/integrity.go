package agent

import (
	"cmp"
	"crypto/md5"  //nolint:gosec // Glance's checksum field is MD5
	"crypto/sha1" //nolint:gosec // Glance may be configured with it
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
)

// integrity is Glance's metadata about the data of an image. Old images lack some or all of it.
type integrity struct {
	Size      *int64 `json:"size"`
	Algorithm string `json:"os_hash_algo"` // by the name that Python's hashlib has
	Hash      string `json:"os_hash_value"`
	Checksum  string `json:"checksum"` // the MD5
	header    string // Content-MD5 of the data, which Glance has in hexadecimal digits
}

// check compares the data with the size and with one sum: the hash, or else the checksum, or else the header.
// Upstream's client compares no size, and fails on a hash that it cannot compute.
func (i integrity) check(data []byte, quirks bool) error {
	if i.Size != nil && *i.Size != int64(len(data)) && !quirks {
		return fmt.Errorf("corrupt image download: %d bytes were received, the image's size is %d", len(data), *i.Size)
	}
	algorithm, want, sum := i.Algorithm, i.Hash, newHash(i.Algorithm)
	switch {
	case want != "" && sum != nil:
	case want != "" && quirks:
		return fmt.Errorf("unsupported hash type %s", algorithm)
	default:
		algorithm, want, sum = "md5", cmp.Or(i.Checksum, i.header), md5.New() //nolint:gosec // as Glance does
	}
	if want == "" {
		return nil
	}
	sum.Write(data)
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		return fmt.Errorf("corrupt image download: the %s of the received data is %s, want %s as in Glance", algorithm, got, want)
	}
	return nil
}

// newHash is the hash with a name of Python's hashlib; nil for an unknown one.
func newHash(name string) hash.Hash {
	switch strings.ToLower(name) {
	case "md5":
		return md5.New() //nolint:gosec // the image has no better one
	case "sha1":
		return sha1.New() //nolint:gosec // the image has no better one
	case "sha224":
		return sha256.New224()
	case "sha256":
		return sha256.New()
	case "sha384":
		return sha512.New384()
	case "sha512":
		return sha512.New()
	case "sha3_256":
		return sha3.New256()
	case "sha3_384":
		return sha3.New384()
	case "sha3_512":
		return sha3.New512()
	}
	return nil
}
