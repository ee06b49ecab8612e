package requestspec

import "testing"

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
