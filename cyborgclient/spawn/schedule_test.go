package spawn

import "testing"

func TestTheNodeOfAnInstanceIsNotItsSharedStorage(t *testing.T) {
	t.Parallel()
	held := map[string]map[string]int{
		"a-storage": {"DISK_GB": 20},
		"b-node":    {"MEMORY_MB": 512},
		"c-device":  {"PGPU": 1},
	}
	if got := nodeProvider(held); got != "b-node" {
		t.Errorf("got provider %s, want b-node", got)
	}
	delete(held, "b-node")
	if got := nodeProvider(held); got != "a-storage" {
		t.Errorf("without a node: got %s, want the first", got)
	}
}
