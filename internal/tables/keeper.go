package tables

import (
	"encoding/json"
	"errors"

	"github.com/gocyborg/gocyborg/sim"
)

// Keeper keeps the state of a component in a file.
type Keeper struct {
	File  *File
	Queue *Queue
}

// Keep writes every commit of a component from now on to a file, and first all there is if the
// file is new. Before, unless nil, is [Queue.Before].
func Keep(file *File, isNew bool, model json.RawMessage, from sim.Recorded, before func()) (*Keeper, error) {
	queue := NewQueue(file)
	queue.Before = before
	from.OnCommit(queue.Append)
	if isNew {
		if err := file.Init(model, from); err != nil {
			return nil, err
		}
	}
	return &Keeper{file, queue}, nil
}

// Sync is [Queue.Sync]. Without a keeper there is nothing to wait for.
func (k *Keeper) Sync() error {
	if k == nil {
		return nil
	}
	return k.Queue.Sync()
}

// Together calls change, which commits several times, so that the file gets all of it or nothing.
// Without a keeper it only calls it.
func (k *Keeper) Together(change func()) {
	if k != nil {
		defer k.Queue.Hold()()
	}
	change()
}

// Close writes what is pending and closes the file. Without a keeper it does nothing.
func (k *Keeper) Close() error {
	if k == nil {
		return nil
	}
	return errors.Join(k.Queue.Close(), k.File.Close())
}
