package testrun

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"
)

const (
	sampledChecks = "30" // of each property, in place of a hundred
	gcPercent     = 400
)

// Main is the TestMain of a package. Unless the tests are Whole, the properties that rapid checks are checked with 30
// inputs, or with as many as -rapid.checks says. The garbage collector runs less often, because tests make thousands of
// clouds of a few MiB, one after another; benchmarks and a GOGC in the environment have their way. Directories of tests are
// in memory where there is room: a disk takes ten times as long for the thousands of files of a sysfs. A TMPDIR in the
// environment is kept.
func Main(m *testing.M) {
	checks := flag.Lookup("rapid.checks")
	if checks != nil && !Whole {
		if err := checks.Value.Set(sampledChecks); err != nil {
			panic(err) // a flag of rapid that is no number
		}
	}
	flag.Parse()
	if os.Getenv("GOGC") == "" && flag.Lookup("test.bench").Value.String() == "" {
		debug.SetGCPercent(gcPercent)
	}
	if dir := memoryDir(); dir != "" && os.Getenv("TMPDIR") == "" {
		if err := os.Setenv("TMPDIR", dir); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// Of returns how many cases a test tries: all, or only a sample.
func Of(all, sample int) int {
	if Whole {
		return all
	}
	return sample
}
