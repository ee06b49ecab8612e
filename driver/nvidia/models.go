package nvidia

import (
	"cmp"
	"slices"
	"strings"
)

// family is the name of a product in traits, up to its number: P100 of "GP100GL [Tesla P100 PCIe 16GB]".
// Products that are not listed have none.
func family(product uint16) string {
	_, marketed, _ := strings.Cut(model(product), "[")
	words := strings.Fields(strings.TrimPrefix(strings.TrimSuffix(marketed, "]"), "Tesla "))
	number := slices.IndexFunc(words, func(word string) bool { return strings.ContainsAny(word, "0123456789") })
	return strings.Join(words[:number+1], " ")
}

// model is the text that lspci shows for a product. The kernel has no such names, so
// the data centre cards are listed here; others get the text of lspci for a product its
// tables lack.
func model(product uint16) string {
	return "NVIDIA Corporation " + cmp.Or(chips[product], "Device")
}

var chips = map[uint16]string{
	0x13f2: "GM204GL [Tesla M60]",
	0x15f7: "GP100GL [Tesla P100 PCIe 12GB]",
	0x15f8: "GP100GL [Tesla P100 PCIe 16GB]",
	0x15f9: "GP100GL [Tesla P100 SXM2 16GB]",
	0x1b38: "GP102GL [Tesla P40]",
	0x1bb3: "GP104GL [Tesla P4]",
	0x1db1: "GV100GL [Tesla V100 SXM2 16GB]",
	0x1db4: "GV100GL [Tesla V100 PCIe 16GB]",
	0x1db5: "GV100GL [Tesla V100 SXM2 32GB]",
	0x1db6: "GV100GL [Tesla V100 PCIe 32GB]",
	0x1eb8: "TU104GL [Tesla T4]",
	0x20b0: "GA100 [A100 SXM4 40GB]",
	0x20b2: "GA100 [A100 SXM4 80GB]",
	0x20b5: "GA100 [A100 PCIe 80GB]",
	0x20f1: "GA100 [A100 PCIe 40GB]",
	0x2235: "GA102GL [A40]",
	0x2236: "GA102GL [A10]",
	0x2330: "GH100 [H100 SXM5 80GB]",
	0x2331: "GH100 [H100 PCIe]",
	0x2335: "GH100 [H200 SXM 141GB]",
	0x233b: "GH100 [H200 NVL]",
	0x26b5: "AD102GL [L40]",
	0x26b9: "AD102GL [L40S]",
	0x27b8: "AD104GL [L4]",
	0x2bb5: "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
}
