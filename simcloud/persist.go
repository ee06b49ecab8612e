package simcloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
)

// WithStateFile keeps the cloud in a file: [New] continues the cloud of that file, and
// [FromState] fills a new file. The change of a request is on disk before the request is
// answered. An acknowledged change therefore survives any end of the process, including kill -9.
// A change that cannot be written is answered 500. Background changes, such as a delayed bind,
// are written soon after, and an interrupted bind is started again.
//
// One process has the file open at a time. The error of New matches [ErrState] when the
// file holds the state of another model, or is no state file.
func WithStateFile(path string) Option { return func(s *settings) { s.stateFile = path } }

// newInFile makes a cloud with the state in the state file, if there is one, and keeps it
// there.
func newInFile(set settings, make func(old document, set settings) (*Cloud, error)) (*Cloud, error) {
	if set.external != nil {
		return nil, fmt.Errorf("%w: it would have an external Placement", ErrNoState)
	}
	file, err := tables.OpenFile(set.stateFile, false)
	if err != nil {
		return nil, stateError(err)
	}
	var old document
	if old.model, old.records, err = file.Read(); err != nil {
		return nil, errors.Join(stateError(err), file.Close())
	}
	set.keep = func(c *Cloud) error { return c.keepIn(file, old.model == nil) }
	c, err := make(old, set)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return c, nil
}

// keepIn writes every commit from now on to a file, and all there is to a new one.
func (c *Cloud) keepIn(file *tables.File, isNew bool) error {
	model, err := json.Marshal(c.model)
	if err != nil {
		return err
	}
	keeper, err := tables.Keep(file, isNew, model, c.state, c.faults.CommitCounts)
	if err != nil {
		return stateError(err)
	}
	c.keeper.Store(keeper)
	return nil
}

// stateError is an error of a state file.
func stateError(err error) error {
	switch {
	case errors.Is(err, tables.ErrEmpty):
		return fmt.Errorf("%w: %w: %w", ErrState, ErrEmptyState, err)
	case errors.Is(err, sim.ErrRecords):
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return fmt.Errorf("simcloud: %w", err)
}

// newKept makes a cloud of a model in a state file, or loads the cloud that the file holds.
func newKept(ctx context.Context, m Model, set settings) (*Cloud, error) {
	return newInFile(set, func(old document, set settings) (*Cloud, error) {
		if old.model == nil {
			return newBuilt(ctx, m, set)
		}
		if err := m.validate(set.drivers); err != nil {
			return nil, err
		}
		m = m.withDefaults()
		if err := old.isOf(m); err != nil {
			return nil, err
		}
		c, err := fromState(m, old, set)
		if err != nil {
			return nil, err
		}
		if err := c.rediscover(ctx, set.logger); err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return c, c.Save()
	})
}

// ReadStateFile returns the state in a file of [WithStateFile] as [Cloud.Dump] gives it.
// The error matches [ErrState] for a file that holds none, and names a file that another
// process has open.
func ReadStateFile(path string) (State, error) {
	var records []sim.Record
	model, err := readStateFile(path, func(file *tables.File) (model json.RawMessage, err error) {
		model, records, err = file.Read()
		return model, err
	})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = tables.WriteDocument(&out, model, func(yield func(sim.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	})
	return out.Bytes(), err
}

// ReadStateFileModel returns the model of the state in a file of [WithStateFile], without
// reading the state. The errors are those of [ReadStateFile].
func ReadStateFileModel(path string) (Model, error) {
	model, err := readStateFile(path, (*tables.File).Model)
	if err != nil {
		return Model{}, err
	}
	return document{model: model}.parseModel()
}

// readStateFile opens a file, which must not be new, to read it.
func readStateFile(path string, read func(*tables.File) (json.RawMessage, error)) (model json.RawMessage, err error) {
	file, err := tables.OpenFile(path, true)
	if err != nil {
		return nil, stateError(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if model, err = read(file); err == nil && model == nil {
		err = fmt.Errorf("%w: %s", tables.ErrEmpty, path)
	}
	if err != nil {
		return nil, stateError(err)
	}
	return model, nil
}

// Save waits until the state is in the file of [WithStateFile]. It is for what is done in Go
// rather than by a request, such as [Cloud.DefineGuest]; without a file it does nothing.
func (c *Cloud) Save() error {
	return c.keeper.Load().Sync()
}
