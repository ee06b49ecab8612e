package journal_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/internal/testrun"
)

// childVariable has the path of the journal file in a process that is to be killed.
const childVariable = "GOCYBORG_TEST_JOURNAL"

const childInstances = 8

// child works on journals until it is killed, and reports on standard output what it begins and what is acknowledged: a
// line "begin N append K", "done N append K", "begin N clear 0" or "done N clear 0".
func child(path string) {
	f, err := journal.Open(path)
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	var all sync.WaitGroup
	for n := range childInstances {
		all.Go(func() {
			if err := childWork(f, n); err != nil {
				fmt.Println("failed", err)
			}
		})
	}
	all.Wait()
}

func childWork(f *journal.File, n int) error {
	ctx := context.Background()
	j, err := f.Lock(ctx, childInstance(n))
	if err != nil {
		return err
	}
	for k := len(j.Records()); ; k++ {
		report := func(what string) { os.Stdout.WriteString(fmt.Sprintf("%s %d append %d\n", what, n, k)) }
		report("begin")
		if err := j.Append(ctx, childRecord(n, k)); err != nil {
			return err
		}
		report("done")
		if k == 20+n {
			os.Stdout.WriteString(fmt.Sprintf("begin %d clear 0\n", n))
			if err := j.Clear(ctx); err != nil {
				return err
			}
			os.Stdout.WriteString(fmt.Sprintf("done %d clear 0\n", n))
			k = -1
		}
	}
}

func childInstance(n int) string { return fmt.Sprint("instance ", n) }

// childRecord returns a record that cannot be taken for another one, of up to some pages.
func childRecord(n, k int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), uint64(k)))
	record := fmt.Appendf(nil, "%d %d ", n, k)
	for range random.IntN(200) * (1 + 10*random.IntN(2)) {
		record = append(record, byte(random.Uint32()))
	}
	return record
}

// TestKilled kills a process at random and checks that the next one finds what was acknowledged, and of what was begun
// all or nothing.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	random := rand.New(rand.NewPCG(1, 2))
	for range testrun.Of(60, 20) {
		possible := readAll(t, path)
		for n, records := range killChild(t, path, 1+random.IntN(300)) {
			possible[n] = records.after(possible[n][0])
		}
		got := readAll(t, path)
		for n := range childInstances {
			if !slices.Contains(possible[n], got[n][0]) {
				t.Fatalf("%s has %s, want one of %s", childInstance(n), got[n][0], possible[n])
			}
		}
	}
}

// records are how many records an instance has: they are numbered from 0.
type records int

func (r records) String() string { return fmt.Sprint(int(r), " records") }

// readAll opens the file and returns, for each instance, the only possible number of records.
func readAll(t *testing.T, path string) [childInstances][]records {
	t.Helper()
	f, err := journal.Open(path)
	check(t, err)
	defer closeFile(t, f)
	var all [childInstances][]records
	for n := range all {
		j := lock(t, f, childInstance(n))
		for k, r := range j.Records() {
			if !bytes.Equal(r, childRecord(n, k)) {
				t.Fatalf("record %d of %s is torn: %q", k, childInstance(n), r)
			}
		}
		all[n] = []records{records(len(j.Records()))}
		j.Release()
	}
	return all
}

// events are the lines of an instance.
type events []string

// after returns how many records there may be: all that is done, and what was begun last or not.
func (e events) after(before records) []records {
	now := before
	for i, line := range e {
		next := now
		switch {
		case strings.HasSuffix(line, "clear 0"):
			next = 0
		case strings.HasPrefix(line, "begin"):
			next++
		}
		if strings.HasPrefix(line, "begin") {
			if i == len(e)-1 {
				return []records{now, next}
			}
			now = next
		}
	}
	return []records{now}
}

// killChild runs a child and kills it after some lines. It returns the lines of each instance.
func killChild(t *testing.T, path string, lines int) [childInstances]events {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	check(t, err)
	var all [childInstances]events
	scanner := bufio.NewScanner(out)
	for count := 0; scanner.Scan(); count++ {
		if count == lines {
			check(t, cmd.Process.Kill())
		}
		var what, operation string
		var n, k int
		if _, err := fmt.Sscan(scanner.Text(), &what, &n, &operation, &k); err != nil || what == "failed" {
			t.Fatalf("%q: %v", scanner.Text(), err)
		}
		all[n] = append(all[n], scanner.Text())
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("the child: %v, want a kill", err)
	}
	return all
}
