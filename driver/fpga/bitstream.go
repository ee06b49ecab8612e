package fpga

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// bitstream is the metadata of an image for Intel's FPGAs, a .gbs file: a mark of 16 bytes, the
// length of a JSON document in 4 bytes, little-endian, the document, and the data for the
// hardware. It follows the green bitstream format of OPAE, the library behind fpgaconf.
type bitstream struct {
	// RegionType is the type of region that the image was made for (interface-uuid), 32
	// hexadecimal digits in lower case.
	RegionType string
	// Functions are the ids of its functions (accelerator-type-uuid), one for each port.
	Functions []string
}

// gbsMark is 58656f6e-4650-4741-b747-425376303031.
const gbsMark = "XeonFPGA\xb7GBSv001"

// metadata is the JSON document of an image.
type metadata struct {
	Image struct {
		Interface string `json:"interface-uuid"`
		Clusters  []struct {
			Function string `json:"accelerator-type-uuid"`
		} `json:"accelerator-clusters"`
	} `json:"afu-image"`
}

// parseBitstream reads an image. The JSON document alone is accepted, too, for an image
// that is text in a file that describes a simulated cloud. The error wraps ErrBitstream.
func parseBitstream(image []byte) (bitstream, error) {
	document := image
	if rest, marked := bytes.CutPrefix(image, []byte(gbsMark)); marked {
		if len(rest) < 4 {
			return bitstream{}, fmt.Errorf("%w: it ends in its header, after %d bytes", ErrBitstream, len(image))
		}
		length := uint64(binary.LittleEndian.Uint32(rest))
		if rest = rest[4:]; length > uint64(len(rest)) {
			return bitstream{}, fmt.Errorf("%w: metadata of %d bytes, and %d follow", ErrBitstream, length, len(rest))
		}
		document = rest[:length]
	}
	var m metadata
	if err := json.Unmarshal(document, &m); err != nil {
		return bitstream{}, fmt.Errorf("%w: neither a .gbs file nor the JSON metadata of one: %w", ErrBitstream, err)
	}
	return m.bitstream()
}

func (m metadata) bitstream() (b bitstream, err error) {
	if text := m.Image.Interface; text != "" {
		var ok bool
		if b.RegionType, ok = normalID(text); !ok {
			return bitstream{}, fmt.Errorf("%w: interface-uuid is not a UUID", ErrBitstream)
		}
	}
	for i, c := range m.Image.Clusters {
		id, ok := normalID(c.Function)
		if !ok {
			return bitstream{}, fmt.Errorf("%w: accelerator-type-uuid of cluster %d is not a UUID", ErrBitstream, i)
		}
		b.Functions = append(b.Functions, id)
	}
	if len(b.Functions) == 0 {
		return bitstream{}, fmt.Errorf("%w: the metadata names no function (accelerator-type-uuid)", ErrBitstream)
	}
	return b, nil
}
