package nova

import (
	"reflect"
	"testing"

	"github.com/gocyborg/gocyborg/sim"
)

// Whoever adds a field to the state decides here whether it is in the dump, and in the
// random histories that are compared after one.
func TestEveryFieldOfTheStateIsDumpedOrDerived(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		of     any
		fields map[string]string
	}{
		{Server{}, map[string]string{
			"cfg": "configuration", "clock": "configuration", "verifier": "configuration", "urlClient": "configuration",
			"service": "configuration; its ids are dumped", "later": "the goroutines of delayed", "mu": "a lock",
			"guests": "dumped", "handler": "the process's", "urls": "the process's", "received": "dumped", "dropped": "dumped", "delayed": "dumped",
		}},
		{sim.Guest{}, map[string]string{"UUID": "dumped", "Host": "dumped", "Domain": "dumped"}},
		{sim.ReceivedEvent{}, map[string]string{"Event": "dumped", "Code": "dumped", "At": "dumped", "Forwarded": "dumped", "Problems": "dumped"}},
		{sim.Event{}, map[string]string{"Name": "dumped", "ServerUUID": "dumped", "Tag": "dumped", "Status": "dumped"}},
		{putOff{}, map[string]string{"due": "dumped", "started": "false after a load, and true after Resume"}},
	} {
		of := reflect.TypeOf(tt.of)
		for i := range of.NumField() {
			if tt.fields[of.Field(i).Name] == "" {
				t.Errorf("%s.%s: is it dumped?", of, of.Field(i).Name)
			}
		}
		if of.NumField() != len(tt.fields) {
			t.Errorf("%s has %d fields, and %d are listed", of, of.NumField(), len(tt.fields))
		}
	}
}

func TestOnlyTheEventsThatAreShownAreDumped(t *testing.T) {
	t.Parallel()
	s := New(Config{})
	for range 2*maxReceived + 5 {
		s.receive(sim.ReceivedEvent{Event: sim.Event{Name: ARQBound, ServerUUID: "11111111-1111-4111-8111-111111111111", Status: statusCompleted}, Code: 200, At: s.clock.Now()})
	}
	data, err := s.Dump()
	if err != nil {
		t.Fatal(err)
	}
	other := New(Config{})
	if err := other.Load(data); err != nil {
		t.Fatal(err)
	}
	if len(other.received) != maxReceived || other.dropped != maxReceived+5 {
		t.Errorf("%d events after %d, want %d after %d", len(other.received), other.dropped, maxReceived, maxReceived+5)
	}
	again, err := other.Dump()
	if err != nil || string(again) != string(data) {
		t.Errorf("the dump of what was loaded differs, %v", err)
	}
	if a, b := s.receive(sim.ReceivedEvent{}), other.receive(sim.ReceivedEvent{}); a != b {
		t.Errorf("the next event has number %d, %d after the load", a, b)
	}
}
