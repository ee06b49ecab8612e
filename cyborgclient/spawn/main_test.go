package spawn_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

// TestMain lets the garbage collector run less often: the tests make thousands of clouds of a few
// MiB, one after another. Benchmarks and a GOGC in the environment have their way.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("GOGC") == "" && flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(400)
	}
	m.Run()
}
