package nvidia

import "strings"

// family is the word for a product in traits: P100 of "GP100GL [Tesla P100 PCIe 16GB]".
// Products that are not listed have none.
func family(product uint16) string {
	_, marketed, found := strings.Cut(model(product), "[")
	if !found {
		return ""
	}
	return strings.Fields(strings.TrimPrefix(strings.TrimSuffix(marketed, "]"), "Tesla "))[0]
}

// model is the text that lspci shows for a product. The kernel has no such names, so
// the data centre cards are listed here; others get the text of lspci for a product its
// tables lack.
func model(product uint16) string {
	chip := "Device"
	switch product {
	case 0x13f2:
		chip = "GM204GL [Tesla M60]"
	case 0x15f7:
		chip = "GP100GL [Tesla P100 PCIe 12GB]"
	case 0x15f8:
		chip = "GP100GL [Tesla P100 PCIe 16GB]"
	case 0x15f9:
		chip = "GP100GL [Tesla P100 SXM2 16GB]"
	case 0x1b38:
		chip = "GP102GL [Tesla P40]"
	case 0x1bb3:
		chip = "GP104GL [Tesla P4]"
	case 0x1db1:
		chip = "GV100GL [Tesla V100 SXM2 16GB]"
	case 0x1db4:
		chip = "GV100GL [Tesla V100 PCIe 16GB]"
	case 0x1db5:
		chip = "GV100GL [Tesla V100 SXM2 32GB]"
	case 0x1db6:
		chip = "GV100GL [Tesla V100 PCIe 32GB]"
	case 0x1eb8:
		chip = "TU104GL [Tesla T4]"
	case 0x20b0:
		chip = "GA100 [A100 SXM4 40GB]"
	case 0x20b2:
		chip = "GA100 [A100 SXM4 80GB]"
	case 0x20b5:
		chip = "GA100 [A100 PCIe 80GB]"
	case 0x20f1:
		chip = "GA100 [A100 PCIe 40GB]"
	case 0x2235:
		chip = "GA102GL [A40]"
	case 0x2236:
		chip = "GA102GL [A10]"
	case 0x2330:
		chip = "GH100 [H100 SXM5 80GB]"
	case 0x2331:
		chip = "GH100 [H100 PCIe]"
	case 0x2335:
		chip = "GH100 [H200 SXM 141GB]"
	case 0x26b5:
		chip = "AD102GL [L40]"
	case 0x26b9:
		chip = "AD102GL [L40S]"
	case 0x27b8:
		chip = "AD104GL [L4]"
	}
	return "NVIDIA Corporation " + chip
}
