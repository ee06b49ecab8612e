package pciid

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/driver"
)

// Parse reads the id of a vendor or product as written in configurations: four hexadecimal digits
// in either case, with or without 0x before them. 0000 is invalid. The error wraps driver.ErrName
// and quotes the text.
func Parse(text string) (uint16, error) {
	digits := strings.TrimPrefix(text, "0x")
	id, err := strconv.ParseUint(digits, 16, 16)
	if err != nil || id == 0 || len(digits) != 4 {
		return 0, fmt.Errorf("%w: id %q is not four hexadecimal digits", driver.ErrName, text)
	}
	return uint16(id), nil
}

// ParseList reads the value of an option that lists such ids; nil means the defaults. The error
// wraps driver.ErrConfig and names the option.
func ParseList(option string, texts []string, defaults ...uint16) ([]uint16, error) {
	if texts == nil {
		return defaults, nil
	}
	var ids []uint16
	for _, text := range texts {
		id, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", driver.ErrConfig, option, err)
		}
		if slices.Contains(ids, id) {
			return nil, fmt.Errorf("%w: %s: %q appears twice", driver.ErrConfig, option, text)
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Word returns the word for a PCI vendor in traits and configuration, such as "intel". The words
// are taken from upstream's drivers, plus AMD and 144d, the id of Samsung's disks. The word of
// any other vendor is its id, four hexadecimal digits in lower case. It follows
// cyborg/accelerator/drivers/pci and drivers/ssd.
func Word(vendor uint16) string {
	return cmp.Or(vendors[vendor][0], fmt.Sprintf("%04x", vendor))
}

// Title returns the full name of a vendor that Word has a word for, and "" for
// another. It is as lspci writes it, but for ZTE, which lspci does not know by this id.
func Title(vendor uint16) string { return vendors[vendor][1] }

// vendors have a word and a title each.
var vendors = map[uint16][2]string{
	0x1002: {"amd", "Advanced Micro Devices, Inc. [AMD/ATI]"},
	0x102b: {"matrox", "Matrox Electronics Systems Ltd."},
	0x1099: {"samsung", "Samsung Electronics Co., Ltd"},
	0x144d: {"samsung", "Samsung Electronics Co Ltd"},
	0x10de: {"nvidia", "NVIDIA Corporation"},
	0x10ee: {"xilinx", "Xilinx Corporation"},
	0x19e5: {"huawei", "Huawei Technologies Co., Ltd."},
	0x1bd4: {"inspur", "Inspur Electronic Information Industry Co., Ltd."},
	0x1cf2: {"zte", "ZTE Corporation"},
	0x8086: {"intel", "Intel Corporation"},
}
