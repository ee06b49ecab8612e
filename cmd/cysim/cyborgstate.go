package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/internal/tables"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// keptState is the file that keeps the state of a Cyborg alone.
type keptState struct {
	file    *tables.File
	name    string
	model   json.RawMessage // what the state depends on
	isNew   bool
	records []sim.Record
}

// openCyborgState opens the state file, nil for no name. The error is bad input: another process
// has the file open, or it is the state of other hosts or of another layout.
func openCyborgState(name string, model simcloud.Model, agents *simcloud.Agents) (k *keptState, err error) {
	if name == "" {
		return nil, nil
	}
	k = &keptState{name: name}
	of := simcloud.Model{Hosts: []simcloud.Host{}, Cyborg: fakecyborg.Config{PlacementMode: model.Cyborg.WithDefaults().PlacementMode}}
	for _, host := range agents.Hosts {
		of.Hosts = append(of.Hosts, simcloud.Host{Name: host.Name, Fallback: host.Fallback})
	}
	if k.model, err = json.Marshal(of); err != nil {
		return nil, err
	}
	if k.file, err = tables.OpenFile(name, false); err != nil {
		return nil, command.BadInput(fmt.Errorf("--state: %w", err))
	}
	var old json.RawMessage
	old, k.records, err = k.file.Read()
	if k.isNew = old == nil; err == nil && !k.isNew {
		err = k.check(old)
	}
	if err != nil {
		return nil, errors.Join(command.BadInput(fmt.Errorf("--state: %w", err)), k.close())
	}
	return k, nil
}

// check refuses the state of another Cyborg. The model of an older file may name a release, or not name the placement mode.
func (k *keptState) check(old json.RawMessage) error {
	var of simcloud.Model
	if err := json.Unmarshal(old, &of); err != nil {
		return fmt.Errorf("%s: model: %w", k.name, err)
	}
	of.Cyborg.Release, of.Cyborg.PlacementMode = "", of.Cyborg.WithDefaults().PlacementMode
	old, err := json.Marshal(of)
	if err != nil {
		return err
	}
	found, err := tables.DiffJSON(old, k.model)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%s belongs to another Cyborg: %s", k.name, found[0])
	}
	return err
}

func (k *keptState) hasRecords() bool { return k != nil && !k.isNew }

// keep loads the state if there is one, and writes every change from now on.
func (k *keptState) keep(into tables.Group, before func()) (*tables.Keeper, error) {
	if !k.isNew {
		if err := sim.Replace(context.Background(), into, k.records); err != nil {
			return nil, fmt.Errorf("--state %s: %w", k.name, err)
		}
	}
	keeper, err := tables.Keep(k.file, k.isNew, k.model, into, before)
	if err != nil {
		return nil, fmt.Errorf("--state: %w", err)
	}
	k.file, k.records = nil, nil // the keeper's
	return keeper, nil
}

func (k *keptState) close() error {
	if k == nil || k.file == nil {
		return nil
	}
	return k.file.Close()
}
