package journal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn/journal"
)

// A process is killed while an operation is under way. The next one finds its records.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "operations")
	if err := begin(path); err != nil {
		fmt.Println(err)
		return
	}
	if err := list(path); err != nil {
		fmt.Println(err)
	}
	// Output:
	// c0ffee00-0000-4000-8000-000000000001
	//   create one accelerator request
	//   bind it
}

// begin records two effects, and ends without Clear and Release.
func begin(path string) error {
	store, err := journal.Open(path)
	if err != nil {
		return err
	}
	defer store.Close() // so does the end of the process
	ctx := context.Background()
	j, err := store.Lock(ctx, "c0ffee00-0000-4000-8000-000000000001")
	if err != nil {
		return err
	}
	for _, effect := range []string{"create one accelerator request", "bind it"} {
		if err := j.Append(ctx, []byte(effect)); err != nil {
			return err
		}
	}
	return nil
}

// list prints the records of all unfinished operations and removes them.
func list(path string) error {
	store, err := journal.Open(path)
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := context.Background()
	instances, err := store.Unfinished(ctx)
	if err != nil {
		return err
	}
	for _, instance := range instances {
		j, err := store.Lock(ctx, instance)
		if err != nil {
			return err
		}
		defer j.Release()
		fmt.Println(instance)
		for _, record := range j.Records() {
			fmt.Printf("  %s\n", record)
		}
		if err := j.Clear(ctx); err != nil {
			return err
		}
	}
	return nil
}
