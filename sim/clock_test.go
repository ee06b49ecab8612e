package sim_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/sim"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestAManualClockWakesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(start)
		woken := make(chan string, 3)
		for _, name := range []string{"30s", "10s", "20s"} {
			go func() {
				d, _ := time.ParseDuration(name)
				if err := clock.Wait(context.Background(), d); err != nil {
					t.Error(err)
				}
				woken <- name
			}()
		}
		cancelled, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- clock.Wait(cancelled, time.Second) }()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil {
			t.Error("a wait whose context ended returned no error")
		}
		if got := clock.Waiting(); got != 3 {
			t.Errorf("%d wait, want 3", got)
		}
		got := []string{}
		for _, step := range []time.Duration{9 * time.Second, time.Second, -time.Hour, 10 * time.Second, 10 * time.Second} {
			clock.Advance(step)
			synctest.Wait()
			select {
			case name := <-woken:
				got = append(got, name)
			default:
				got = append(got, "")
			}
		}
		if diff := cmp.Diff([]string{"", "10s", "", "20s", "30s"}, got); diff != "" {
			t.Errorf("woken at 9, 10, 10, 20 and 30 seconds (-want +got):\n%s", diff)
		}
		if now := clock.Now(); !now.Equal(start.Add(30 * time.Second)) {
			t.Errorf("now %s, want 30s after the start", now)
		}
	})
}

// Two loops with periods of 10 and 15 seconds see each of their periods in one Advance.
func TestAdvanceWakesALoopOncePerPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(start)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var seen []time.Duration // appended by one goroutine at a time
		for _, period := range []time.Duration{10 * time.Second, 15 * time.Second} {
			go func() {
				for clock.Wait(ctx, period) == nil {
					seen = append(seen, clock.Now().Sub(start)/time.Second)
				}
			}()
		}
		synctest.Wait()
		clock.Advance(45 * time.Second)
		synctest.Wait()
		want := []time.Duration{10, 15, 20, 30, 30, 40, 45}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("seconds (-want +got):\n%s", diff)
		}
		if got := clock.Waiting(); got != 2 {
			t.Errorf("%d wait, want both loops", got)
		}
	})
}

func TestSetKeepsWaitsAsLongAsBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(start)
		woken := false
		go func() { woken = clock.Wait(context.Background(), time.Minute) == nil }()
		synctest.Wait()
		clock.Set(start.Add(-time.Hour))
		clock.Advance(59 * time.Second)
		synctest.Wait()
		if woken {
			t.Error("woken before a minute has passed")
		}
		clock.Advance(time.Second)
		synctest.Wait()
		if !woken {
			t.Error("not woken after a minute")
		}
	})
}

// An advance that begins while another one lets a woken caller run follows it.
func TestParallelAdvancesAddUp(t *testing.T) {
	t.Parallel()
	clock := sim.NewManualClock(start)
	var woken sync.WaitGroup
	woken.Go(func() {
		if err := clock.Wait(t.Context(), time.Minute); err != nil {
			t.Error(err)
		}
		if err := clock.Advance(time.Minute); err != nil {
			t.Error(err)
		}
	})
	for clock.Waiting() == 0 {
		runtime.Gosched()
	}
	if err := clock.Advance(2 * time.Minute); err != nil {
		t.Error(err)
	}
	woken.Wait()
	if got := clock.Now().Sub(start); got != 3*time.Minute {
		t.Errorf("advances of two minutes and of one are %s", got)
	}
}

// A loop does its work in each of the periods by which the clock is advanced, however long that
// takes.
func TestALoopWorksInEveryPeriod(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(time.Unix(0, 0))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		worked := 0
		go func() {
			for sim.WaitAgain(ctx, clock, time.Minute) == nil {
				time.Sleep(time.Second)
				worked++
			}
		}()
		synctest.Wait()
		if err := clock.Advance(10*time.Minute + time.Second); err != nil {
			t.Fatal(err)
		}
		if worked != 10 {
			t.Errorf("the loop worked %d times in 10 periods", worked)
		}
	})
}

// A year of a loop takes long. Who does not wait for it does not keep the clock from others.
func TestAnAdvanceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := sim.NewManualClock(start)
		ctx, cancel := context.WithCancel(t.Context())
		loop, end := context.WithCancel(t.Context())
		defer end()
		periods := 0
		go func() {
			for sim.WaitAgain(loop, clock, time.Minute) == nil {
				if periods++; periods == 3 {
					cancel()
				}
			}
		}()
		synctest.Wait()
		if err := clock.AdvanceContext(ctx, 365*24*time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("the advance ended with %v, want that its context was canceled", err)
		}
		synctest.Wait()
		if now := clock.Now(); now.Before(start.Add(3*time.Minute)) || now.After(start.Add(4*time.Minute)) {
			t.Errorf("the clock stands at %s, want about 3 minutes after the start", now)
		}
		if err := clock.AdvanceContext(ctx, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("an advance whose context has ended: %v", err)
		}
		from := clock.Now()
		if err := clock.Advance(time.Hour); err != nil || !clock.Now().Equal(from.Add(time.Hour)) {
			t.Errorf("the next advance: %v, from %s to %s", err, from, clock.Now())
		}
	})
}

func TestAnAdvanceThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := new(sim.ManualClock)
		if err := clock.Set(start); err != nil {
			t.Fatal(err)
		}
		first, endFirst := context.WithCancel(t.Context())
		go func() {
			_ = sim.WaitAgain(t.Context(), clock, time.Minute)
		}()
		synctest.Wait()
		ended := make(chan error, 2)
		go func() { ended <- clock.AdvanceContext(first, time.Hour) }() // it waits 10 s for the work of the loop
		synctest.Wait()
		second, endSecond := context.WithCancel(t.Context())
		go func() { ended <- clock.AdvanceContext(second, time.Hour) }()
		synctest.Wait()
		endSecond()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the second ended with %v", err)
		}
		endFirst()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the first ended with %v", err)
		}
		if now := clock.Now(); !now.Equal(start.Add(time.Minute)) {
			t.Errorf("the clock stands at %s", now)
		}
	})
}
