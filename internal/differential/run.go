package differential

import "flag"

// Run says what a test asks, by flags that begin with -differential.
type Run struct {
	// Chroot is the root directory of a Debian with the real services.
	Chroot string
	// Seed decides the requests, and World is the number of the first world. With the seed 0 no request decides.
	Seed  uint64
	World int
	// Requests is the number of random requests; zero means what the test asks in .ci/run.
	Requests int
	// Fresh is the seed of a tenth as many further requests, whose differences are reported only. Zero means none.
	Fresh uint64
	// Most is the number of differences without a class that are shown.
	Most int
	// Reports is a directory for the counts.
	Reports string
}

// Flags defines the flags of a test. It is called once, before the flags are parsed.
func Flags() *Run {
	r := new(Run)
	flag.StringVar(&r.Chroot, "differential.chroot", "", "root directory of a Debian with the real services")
	flag.Uint64Var(&r.Seed, "differential.seed", 1, "seed of the requests; 0: no request decides")
	flag.IntVar(&r.World, "differential.world", 0, "number of the first world")
	flag.IntVar(&r.Requests, "differential.n", 0, "random requests to compare, without the requests that build worlds; 0: as many as in .ci/run")
	flag.Uint64Var(&r.Fresh, "differential.fresh", 0, "seed of further requests, whose differences are reported only; 0: none")
	flag.IntVar(&r.Most, "differential.most", 20, "differences without a class to show")
	flag.StringVar(&r.Reports, "differential.reports", "", "directory for the counts, a JSON file for each table")
	return r
}

// TB is the part of testing.TB that an outcome needs.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
}

// Compare asks by a function, which adds differences to the judge of each table: for the seed that decides, and for the
// fresh one. A difference of the first without a class fails the test. Usual is the number of requests in .ci/run.
func (r *Run) Compare(t TB, usual int, ask func(seed uint64, requests int, judges []*Judge), tables ...Table) {
	t.Helper()
	n := r.Requests
	if n == 0 {
		n = usual
	}
	for _, each := range []struct {
		seed     uint64
		requests int
		report   func(t TB, judge *Judge)
	}{{r.Seed, n, r.decide}, {r.Fresh, n/10 + 1, r.showOnly}} {
		if each.seed == 0 {
			continue
		}
		judges, err := judgesOf(tables)
		if err != nil {
			t.Errorf("%v", err)
			return
		}
		ask(each.seed, each.requests, judges)
		for _, judge := range judges {
			each.report(t, judge)
		}
	}
}

// showOnly reports what a judge found, and fails nothing.
func (r *Run) showOnly(t TB, judge *Judge) {
	t.Helper()
	report := judge.Report()
	t.Logf("reported only: %s, seed %d: %d requests, %d differences without a class", report.Table, r.Fresh, report.Requests, report.Unlisted)
	for _, d := range judge.unlisted[:min(report.Unlisted, r.Most)] {
		t.Logf("reported only: %s, seed %d: a difference without a class:\n%s", report.Table, r.Fresh, d)
	}
}

func judgesOf(tables []Table) ([]*Judge, error) {
	var judges []*Judge
	for _, table := range tables {
		judge, err := NewJudge(table)
		if err != nil {
			return nil, err
		}
		judges = append(judges, judge)
	}
	return judges, nil
}

// decide reports what a judge found, and writes the counts.
func (r *Run) decide(t TB, judge *Judge) {
	t.Helper()
	report := judge.Report()
	for _, d := range judge.unlisted[:min(report.Unlisted, r.Most)] {
		t.Errorf("%s: a difference without a class:\n%s", report.Table, d)
	}
	for _, class := range judge.table.Classes {
		if report.Counts[class.Name] == 0 {
			t.Logf("%s: no request met: %s", report.Table, class.Name)
		}
	}
	t.Logf("%s: %d requests, %d differences without a class", report.Table, report.Requests, report.Unlisted)
	if r.Reports == "" {
		return
	}
	if err := report.Write(r.Reports); err != nil {
		t.Errorf("%v", err)
	}
}
