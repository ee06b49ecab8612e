package keystone_test

import (
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/internal/keystone"
	"github.com/gocyborg/gocyborg/sim"
)

// Where there are too many tokens, those that were issued first end, also while no time passes.
func TestTokensAreBounded(t *testing.T) {
	t.Parallel()
	const most = 64
	config := serverConfig()
	clock := sim.NewManualClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	config.MaxTokens, config.Clock = most, clock
	server := keystone.New(config)
	var issued []string
	for range 10 * most {
		issued = append(issued, issue(t, server, "demo"))
		clock.Advance(time.Second)
		valid := 0
		for i, token := range issued {
			if !server.IsValid(token) {
				continue
			}
			if valid++; i < len(issued)-most {
				t.Fatalf("after %d tokens number %d is valid", len(issued), i)
			}
		}
		if want := min(len(issued), most-most/16); valid < want || valid > most {
			t.Fatalf("after %d tokens %d are valid, want %d to %d", len(issued), valid, want, most)
		}
	}
}
