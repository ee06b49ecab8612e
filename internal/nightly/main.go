// Nightly runs tests that take hours: each fuzz target for ten minutes, tests with their own
// process, socket or clock 200 times with 1 and with 4 processors, all others 10 times, histories
// for the check of linearizability, and a cloud for a virtual year. It keeps a ledger, and
// continues where the last run ended.
//
//	go run ./internal/nightly --minutes 480 --shard 1/2
//	go run ./internal/nightly --table
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as with nohup
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "nightly:", err)
		os.Exit(1)
	}
}

// night is one run.
type night struct {
	out    string // folder of the ledger, the logs and what was found
	commit string
	only   *regexp.Regexp
	limits limits
	ledger ledger
	until  time.Time // no slice begins later; zero for never
	print  io.Writer
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	n := night{print: stdout}
	flags := flag.NewFlagSet("nightly", flag.ContinueOnError)
	minutes := flags.Int("minutes", 0, "begin nothing new after so many minutes; 0: until everything is complete")
	part := flags.String("shard", "1/1", "i/n: the i-th of n parts")
	only := flags.String("only", "", "regular expression of the steps, such as '^fuzz placementsim '")
	table := flags.Bool("table", false, "print the ledger as a table of Markdown, and run nothing")
	list := flags.Bool("list", false, "print the steps, and run nothing")
	flags.StringVar(&n.out, "out", ".ci/nightly-out", "folder of the ledger, the logs and what was found")
	flags.DurationVar(&n.limits.fuzz, "fuzz", 10*time.Minute, "time of each fuzz target")
	flags.IntVar(&n.limits.suspects, "suspects", 200, "runs of each test with a process, a socket or a clock, with 1 and with 4 processors")
	flags.IntVar(&n.limits.tests, "tests", 10, "runs of every other test, with 1 and with 4 processors")
	flags.IntVar(&n.limits.operations, "operations", 1_000_000, "operations of the histories that are checked")
	flags.IntVar(&n.limits.hours, "hours", 8760, "virtual hours of a cloud")
	err := flags.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if n.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if n.ledger, err = readLedger(filepath.Join(n.out, "ledger.tsv")); err != nil {
		return err
	}
	if *table {
		_, err := io.WriteString(stdout, n.ledger.table())
		return err
	}
	if *minutes > 0 {
		n.until = time.Now().Add(time.Duration(*minutes) * time.Minute)
	}
	steps, err := n.steps(ctx, *part)
	if err != nil || *list {
		for _, s := range steps {
			fmt.Fprintf(stdout, "%-60s %d tests, %d %s\n", s, max(s.count, 1), s.goal, s.kind.unit())
		}
		return err
	}
	return n.runAll(ctx, steps)
}

// steps lists the steps of a part that are not complete, in the order in which they run.
func (n *night) steps(ctx context.Context, part string) ([]step, error) {
	commit, err := describeCommit(ctx)
	if err != nil {
		return nil, err
	}
	n.commit = commit
	packages, err := listPackages(ctx)
	if err != nil {
		return nil, err
	}
	var steps []step
	for _, p := range packages {
		found, err := p.steps(n.limits)
		if err != nil {
			return nil, err
		}
		steps = append(steps, found...)
	}
	steps = append(steps, histories(n.limits)...)
	steps = append(steps, years(n.limits)...)
	if steps, err = shard(steps, part); err != nil {
		return nil, err
	}
	return n.ledger.order(steps, n.commit, n.only), nil
}

// runAll runs the steps until the time is over. Failures do not end the night.
func (n *night) runAll(ctx context.Context, steps []step) error {
	if err := os.MkdirAll(n.out, 0o755); err != nil {
		return err
	}
	var failed []error
	for i, s := range steps {
		if n.late() || ctx.Err() != nil {
			fmt.Fprintf(n.print, "%d of %d steps remain for the next run\n", len(steps)-i, len(steps))
			break
		}
		if err := n.runStep(ctx, s); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}

func (n *night) late() bool { return !n.until.IsZero() && !time.Now().Before(n.until) }

// describeCommit returns the short hash of the commit, with a + if tracked files differ.
func describeCommit(ctx context.Context) (string, error) {
	hash, err := output(ctx, "git", "rev-parse", "--short", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := output(ctx, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return "", err
	}
	if strings.TrimSpace(changed) != "" {
		return strings.TrimSpace(hash) + "+", nil
	}
	return strings.TrimSpace(hash), nil
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, exit.Stderr)
	}
	return string(out), err
}
