package scale

import (
	"fmt"
	"testing"
)

// Devices is the number of devices that each host of a benchmark has.
const Devices = 8

// smallest is the size that rates are compared with.
const smallest = 8

// Run runs a benchmark for 8, 1,000 and 10,000 hosts.
func Run(b *testing.B, bench func(b *testing.B, hosts int)) {
	b.Helper()
	for _, hosts := range []int{smallest, 1000, 10_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) { bench(b, hosts) })
	}
}

// Rates are what the rows of a benchmark reached at the smallest size. The zero value has
// none yet.
type Rates struct{ smallest map[string]float64 }

// Report adds to a row's metrics how many units it did each second, and the ratio of that
// to the rate of the same row at 8 hosts: 1.00 is as fast, 0.50 half as fast. It is called
// after the measured time; where b.N is tried several times, the last one counts.
func (r *Rates) Report(b *testing.B, row string, hosts int, units float64, unit string) {
	rate := units / b.Elapsed().Seconds()
	if r.smallest == nil {
		r.smallest = make(map[string]float64)
	}
	if hosts == smallest {
		r.smallest[row] = rate
	}
	b.ReportMetric(rate, unit+"/s")
	if base := r.smallest[row]; base > 0 {
		b.ReportMetric(rate/base, "of-8-hosts")
	}
}
