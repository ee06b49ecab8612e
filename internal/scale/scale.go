package scale

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Devices is the number of devices that each host of a benchmark has.
const Devices = 8

// smallest is the size that rates are compared with.
const smallest = 8

// Sizes are the numbers of hosts: 8, 1,000 and, unless the tests are short, 10,000; and what
// the environment variable SCALE_HOSTS says, such as 100000.
func Sizes() []int {
	sizes := []int{smallest, 1000}
	if !testing.Short() {
		sizes = append(sizes, 10_000)
	}
	if hosts, err := strconv.Atoi(os.Getenv("SCALE_HOSTS")); err == nil {
		sizes = append(sizes, hosts)
	}
	return sizes
}

// Run runs a benchmark for each of the sizes.
func Run(b *testing.B, bench func(b *testing.B, hosts int)) {
	b.Helper()
	for _, hosts := range Sizes() {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) { bench(b, hosts) })
	}
}

// Rates are the rates of the rows of a benchmark at the smallest size. The zero value is empty.
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
