package simcloud

import (
	"bytes"
	"encoding/json"
	"iter"
	"strings"
	"sync"

	"github.com/gocyborg/gocyborg/sim"
)

// recorded returns a service as a component: itself, or its dump as one record.
func recorded(name string, service any) sim.Recorded {
	if r, ok := service.(sim.Recorded); ok {
		return r
	}
	return &dumped{table: name + ".dump", service: service.(dumper)}
}

// dumper is a service that does not keep its rows in tables yet.
type dumper interface {
	Dump() ([]byte, error)
	Load([]byte) error
}

type dumped struct {
	table   string
	service dumper

	mu        sync.Mutex
	last      []byte
	listeners []func([]sim.RecordChange)
}

// commit tells of a change since it was last called.
func (d *dumped) commit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	data, err := d.service.Dump()
	if err != nil || bytes.Equal(data, d.last) {
		return
	}
	d.last = data
	for _, listener := range d.listeners {
		listener([]sim.RecordChange{{Table: d.table, Key: "dump", After: json.RawMessage(data)}})
	}
}

func (d *dumped) Records() iter.Seq2[sim.Record, error] {
	return func(yield func(sim.Record, error) bool) {
		data, err := d.service.Dump()
		var row bytes.Buffer
		if err == nil {
			err = json.Compact(&row, data)
		}
		yield(sim.Record{Table: d.table, Key: "dump", Row: row.Bytes()}, err)
	}
}

func (d *dumped) Replace(records []sim.Record) error {
	if len(records) != 1 || records[0].Table != d.table {
		return sim.Record{Table: d.table, Key: "dump"}.Errorf("it is missing")
	}
	if err := d.service.Load(records[0].Row); err != nil {
		return records[0].Errorf("%w", err)
	}
	d.commit()
	return nil
}

func (d *dumped) OnCommit(listener func([]sim.RecordChange)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listeners = append(d.listeners, listener)
	d.last, _ = d.service.Dump()
}

// commitDumped tells of the changes of the services that do not do so themselves.
func (c *Cloud) commitDumped() {
	for _, m := range c.state {
		if d, ok := m.Recorded.(*dumped); ok {
			d.commit()
		}
	}
}

// changesDumped reports whether a request may change a service that has no records. What it
// causes there by way of other services is committed later.
func changesDumped(path string) bool {
	return strings.HasPrefix(path, "/accelerator") || strings.HasPrefix(path, "/_sim") && !strings.HasPrefix(path, "/_sim/guests")
}

// commitLater is commitDumped for what nothing waits for.
func (k *keeper) commitLater() {
	for _, m := range k.cloud.state {
		if _, ok := m.Recorded.(*dumped); ok {
			go k.cloud.commitDumped()
			return
		}
	}
}
