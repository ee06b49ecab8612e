package requestspec

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

// The grammar is written by hand for speed; it must agree with Nova's expression.
func TestKeysAreReadAsNovasExpressionReadsThem(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)$`)
	class, trait := regexp.MustCompile(`^CUSTOM_[A-Z0-9_]+$`), regexp.MustCompile(`^[A-Z0-9_]+$`)
	key := rapid.StringMatching(`(resources|trait|resource|Trait| |)[a-zA-Z0-9_ü-]{0,3}([a-z]{60})?[:.]?(CUSTOM_|:|\n)?[A-Za-z0-9_:\n -]{0,5}`)
	rapid.Check(t, func(t *rapid.T) {
		text := key.Draw(t, "key")
		got, ok := parseKey(text)
		m := form.FindStringSubmatch(text)
		if ok != (m != nil) || ok && (got != specKey{prefix: m[1], suffix: m[2], name: m[3]}) {
			t.Fatalf("%q: %+v, %t; Nova: %q", text, got, ok, m)
		}
		if validTrait(got.name) != trait.MatchString(got.name) || validClass(got.name) != (class.MatchString(got.name) || standardClasses[got.name]) {
			t.Fatalf("name %q: trait %t, class %t", got.name, validTrait(got.name), validClass(got.name))
		}
	})
}

func TestFunctionIDReadsEverySpelling(t *testing.T) {
	const (
		gzipUUID  = "d8424dc4-a4a3-c413-f89e-433683f9040b"
		gzipTrait = "CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B"
	)
	for trait, want := range map[string]string{
		gzipTrait:                                gzipUUID,
		"CUSTOM_FPGA_FUNCTION_INTEL_" + gzipUUID: gzipUUID,
		"CUSTOM_FPGA_FUNCTION_ID_INTEL_D8424DC4A4A3C413F89E433683F9040B": gzipUUID,
		gzipUUID:                          gzipUUID,
		"CUSTOM_FPGA_FUNCTION_INTEL_GZIP": "",
		"CUSTOM_FPGA_FUNCTION_INTELD8424DC4_A4A3_C413_F89E_433683F9040B":     "",
		"CUSTOM_FPGA_FUNCTION_INTEL_D8424DC4_A4A3_C413_F89E_433683F9040B_V2": "",
	} {
		if got, ok := functionID(trait); got != want || ok != (want != "") {
			t.Errorf("functionID(%q) = %q, %t, want %q", trait, got, ok, want)
		}
	}
}
