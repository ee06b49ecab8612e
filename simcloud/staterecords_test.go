package simcloud_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/simcloud"
)

// withMember returns a state in which one member of the row of a line has another value, or none. A value that is
// no JSON leaves the line out.
func withMember(state []byte, line, member int, value string) ([]byte, error) {
	lines := strings.SplitAfter(string(state), "\n")
	line = 1 + line%(len(lines)-2) // the first is the header, the last is empty
	if value != "" && !json.Valid([]byte(value)) {
		return []byte(strings.Join(slices.Delete(lines, line, line+1), "")), nil
	}
	var record struct {
		Table string                     `json:"table"`
		Key   string                     `json:"key"`
		Row   map[string]json.RawMessage `json:"row"`
	}
	if err := json.Unmarshal([]byte(lines[line]), &record); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(record.Row))
	if len(names) == 0 {
		return state, nil
	}
	name := names[member%len(names)]
	delete(record.Row, name)
	if value != "" {
		record.Row[name] = json.RawMessage(value)
	}
	data, err := json.Marshal(record)
	lines[line] = string(data) + "\n"
	return []byte(strings.Join(lines, "")), err
}

// A state with another value in a row is refused and changes nothing, or it is loaded: then the cloud can be looked at,
// and its own state is one that can be loaded and stays the same.
func FuzzStateRecords(f *testing.F) {
	values := []string{"", "null", "0", "-1", "7", `""`, `"x"`, `"Bound"`, `"BindStarted"`, `[]`, `{}`, `true`, `9223372036854775807`, "no JSON"}
	for line := range 60 {
		f.Add(uint16(line), uint8(line), values[line%len(values)])
	}
	var once sync.Once
	var good []byte
	f.Fuzz(func(t *testing.T, line uint16, member uint8, value string) {
		once.Do(func() {
			vgpu := givenBy(t, "nvidia-vgpu")
			cloud := closing(t)(simcloud.New(t.Context(), oneHost(vgpu), simcloud.WithClock(manual())))
			spawnerOn(t, cloud).spawn(t, 1, vgpu)
			good = dump(t, cloud)
		})
		bad, err := withMember(good, int(line), int(member), value)
		must(t, err)
		synctest.Test(t, func(t *testing.T) { checkRecords(t, good, bad) })
	})
}

func checkRecords(t *testing.T, good, other []byte) {
	cloud, err := simcloud.FromState(t.Context(), good)
	must(t, err)
	defer cloud.Close()
	synctest.Wait()
	before := dump(t, cloud)
	if err := cloud.Load(other); err != nil {
		if !errors.Is(err, simcloud.ErrState) {
			t.Errorf("not ErrState: %v", err)
		}
		synctest.Wait()
		sameState(t, "refused: "+err.Error(), before, dump(t, cloud))
		return
	}
	synctest.Wait() // binds that begin again
	_, _, _ = cloud.Leaks(), cloud.Findings(), cloud.SequenceDiagram()
	loaded := dump(t, cloud)
	if err := cloud.Load(loaded); err != nil {
		t.Fatalf("its own state: %v", err)
	}
	synctest.Wait()
	sameState(t, "its own state", loaded, dump(t, cloud))
}
