package spawn_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
	"github.com/gocyborg/gocyborg/simcloud"
)

// recoverAll undoes or finishes the operations that were running when the agent was killed. It runs at the start.
func recoverAll(ctx context.Context, flow *spawn.Flow) error {
	recovery, err := flow.Recover(ctx)
	if err != nil {
		return err
	}
	operations, err := recovery.Wait(ctx) // at most LateWindow after the start, unless a service is down
	for _, o := range operations {
		fmt.Println("undone:", len(o.Undone), "remains:", o.Leftovers)
	}
	return err
}

func ExampleFlow_Recover() {
	ctx := context.Background()
	cloud, err := simcloud.New(ctx, simcloud.Model{})
	if err != nil {
		panic(err)
	}
	defer cloud.Close()
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	store, err := journal.Open(filepath.Join(dir, "journal.db"))
	if err != nil {
		panic(err)
	}
	killed, err := exampleFlow(ctx, cloud, spawn.WithJournal(store))
	if err != nil {
		panic(err)
	}
	a, err := killed.Begin(ctx, spawn.Request{Instance: instance, Flavor: flavor("gpu")})
	if err != nil {
		panic(err)
	}
	for _, step := range []func(context.Context) error{
		a.ReadProfile, a.BuildRequest, a.FindCandidates, a.Select, a.Claim, a.CreateARQs, a.Match, a.Bind,
	} {
		if err := step(ctx); err != nil {
			panic(err)
		}
	}
	store.Close() // the agent is killed here: nothing is undone

	store, err = journal.Open(filepath.Join(dir, "journal.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()
	flow, err := exampleFlow(ctx, cloud, spawn.WithJournal(store))
	if err != nil {
		panic(err)
	}
	fmt.Println("leaks:", len(cloud.Leaks()))
	if err := recoverAll(ctx, flow); err != nil {
		panic(err)
	}
	fmt.Println("leaks:", len(cloud.Leaks()))
	// Output:
	// leaks: 2
	// undone: 2 remains: []
	// leaks: 0
}
