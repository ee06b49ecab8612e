package spawn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestADeviceOfNovasPCIConfigurationIsAConflict(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		conf string
		want bool
	}{
		{"the address", `{"address": "0000:3b:00.0"}`, true},
		{"without a domain", `{"address": "3b:00.0"}`, true},
		{"any function", `{"address": "0000:3b:00.*"}`, true},
		{"any bus", `{"address": "0000:*:00.0", "physical_network": "x"}`, true},
		{"everything", `{"address": "*"}`, true},
		{"upper case", `{"address": "0000:3B:00.0"}`, true},
		{"by expressions", `{"address": {"domain": ".*", "bus": "3[a-c]", "slot": "00", "function": "[0-3]"}}`, true},
		{"in a list", `[{"vendor_id": "8086"}, {"address": "0000:3b:00.0"}]`, true},
		{"another bus", `{"address": "0000:3c:00.0"}`, false},
		{"an expression that fits the beginning", `{"address": {"bus": "3"}}`, true},
		{"an expression that fits the end", `{"address": {"bus": "b"}}`, false},
		{"an expression in upper case", `{"address": {"bus": "3B"}}`, false},
		{"parts left out", `{"address": "3b:0"}`, true},
		{"no address", `{"address": null}`, false},
		{"another function", `{"address": "0000:3b:00.1"}`, false},
		{"by vendor alone", `{"vendor_id": "10de", "product_id": "15f8"}`, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var config spawn.Config
			conf := "[pci]\ndevice_spec = {\"address\": \"0000:01:00.0\"}\ndevice_spec = " + tt.conf + "\n"
			settled(t, config.ReadNovaConf(strings.NewReader(conf)))
			w := newWorld(t, worldOpts{config: config})
			result, err := w.flow.Run(t.Context(), request("gpu"))
			w.checkPromise(t, result, err)
			var conflict *spawn.OwnerConflictError
			if got := errors.As(err, &conflict); got != tt.want {
				t.Fatalf("got %v, want a conflict: %v", err, tt.want)
			}
			if tt.want && (conflict.Address != "0000:3b:00.0" || !strings.Contains(conflict.Owners[0], "Nova") ||
				!strings.HasPrefix(conflict.Owners[1], "ARQ ") || !errors.Is(err, spawn.ErrOwnerConflict)) {
				t.Errorf("got %+v", conflict)
			}
		})
	}
}

// A handle without hardware does not end the search, even if it is the first one.
func TestADeviceBehindATestHandleIsAConflict(t *testing.T) {
	t.Parallel()
	model := simcloud.DefaultModel()
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "both", Groups: []map[string]string{
		{"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}, {"resources:PGPU": "1"},
	}})
	w := newWorld(t, worldOpts{model: &model, config: spawn.Config{PCIDeviceSpec: `{"address": "*:*:*.*"}`}})
	result, err := w.flow.Run(t.Context(), request("both"))
	if !errors.Is(err, spawn.ErrOwnerConflict) {
		t.Errorf("got error %v, want a conflict", err)
	}
	w.checkPromise(t, result, err)
}

func TestABadDeviceSpecIsRefused(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{`{`, `null`, `[null]`, `"x"`, `{"address": "nowhere"}`, `{"address": 7}`, `{"address": {"bus": "("}}`, `{"address": {"buss": "1"}}`, `[{"address": "1:2:3:4"}]`} {
		var config spawn.Config
		if err := config.ReadNovaConf(strings.NewReader("[pci]\ndevice_spec = " + spec + "\n")); !errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), "device_spec") {
			t.Errorf("%s: got error %v, want ErrConfig that names the option", spec, err)
		}
		w := newWorld(t, worldOpts{})
		if _, err := spawn.New(w.cyborg, w.placement(t), spawn.WithConfig(spawn.Config{PCIDeviceSpec: spec})); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("New with %s: got error %v, want ErrConfig", spec, err)
		}
	}
}

func TestADeviceOfTheDomainIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, worldOpts{})
	req := request("gpu")
	req.Domain = []byte(`<domain type="kvm"><name>vm</name><devices><hostdev mode="subsystem" type="pci" managed="yes">` +
		`<source><address domain="0x0000" bus="0x3b" slot="0x0" function="0x0"/></source></hostdev></devices></domain>`)
	result, err := w.flow.Run(t.Context(), req)
	var conflict *spawn.OwnerConflictError
	if !errors.As(err, &conflict) || conflict.Address != "0000:3b:00.0" || !strings.HasPrefix(conflict.Owners[1], "ARQ ") || !errors.Is(err, domainxml.ErrDuplicate) {
		t.Errorf("got %v, want a conflict", err)
	}
	w.checkPromise(t, result, err)
}

func TestConfigReadsCompat(t *testing.T) {
	t.Parallel()
	var config spawn.Config
	data := `{"max_attempts": 2, "placement_order": true, "pci_device_spec": "{\"address\": \"*\"}", "compat": {"rebind": true}}`
	settled(t, json.Unmarshal([]byte(data), &config))
	if config.MaxAttempts != 2 || !config.PlacementOrder || config.PCIDeviceSpec == "" || config.Compat != (spawn.Compat{Rebind: true}) {
		t.Errorf("got %+v", config)
	}
	before := config
	for _, bad := range []string{`{"compat": {"rebnd": true}}`, `{"compat": 1}`, `{"compat": {"rebind": "yes"}}`, `{"placement_order": 1}`} {
		if err := json.Unmarshal([]byte(bad), &config); !errors.Is(err, spawn.ErrConfig) {
			t.Errorf("%s: got error %v, want ErrConfig", bad, err)
		}
	}
	if config.Compat != before.Compat {
		t.Errorf("a refused configuration changed %+v to %+v", before, config)
	}
}
