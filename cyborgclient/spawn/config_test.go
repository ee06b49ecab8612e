package spawn_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/internal/osloconf"
)

// configured returns a configuration with its defaults.
func configured(c spawn.Config) spawn.Config {
	if c.ARQBindingTimeout == 0 {
		c.ARQBindingTimeout = 300 * time.Second
	}
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 3
	}
	c.UnwindTimeout = 2 * time.Minute
	return c
}

func TestReadNovaConf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file string
		want       spawn.Config
		wantErr    string // part of the text; the option must be named
	}{
		{"set", "[DEFAULT]\narq_binding_timeout = 60\n", spawn.Config{ARQBindingTimeout: 60 * time.Second}, ""},
		{"no section header", "arq_binding_timeout=7\n", spawn.Config{ARQBindingTimeout: 7 * time.Second}, ""},
		{"both", "[DEFAULT]\narq_binding_timeout = 60\n[scheduler]\nmax_attempts=5\n", spawn.Config{ARQBindingTimeout: 60 * time.Second, MaxAttempts: 5}, ""},
		{"attempts alone", "[scheduler]\nmax_attempts=5\n", spawn.Config{MaxAttempts: 5}, ""},
		{"one second", "[DEFAULT]\narq_binding_timeout = 1\n", spawn.Config{ARQBindingTimeout: time.Second}, ""},
		{"the largest file", strings.Repeat("#", osloconf.MaxSize), spawn.Config{}, ""},
		{"larger", strings.Repeat("#", osloconf.MaxSize+1), spawn.Config{}, "larger than 4194304 bytes"},
		{"device_spec and its former names",
			"[DEFAULT]\npci_passthrough_whitelist = {\"address\":\"*:3b:00.0\"}\n[pci]\npassthrough_whitelist = {\"address\":\"*:3c:00.0\"}\ndevice_spec = {\"address\":\"*:3d:00.0\"}\n",
			spawn.Config{PCIDeviceSpec: `[{"address":"*:3d:00.0"},{"address":"*:3c:00.0"},{"address":"*:3b:00.0"}]`}, ""},
		{"commented out", "[DEFAULT]\n#arq_binding_timeout = 60\n", spawn.Config{}, ""},
		{"last one wins", "[DEFAULT]\narq_binding_timeout = 60\narq_binding_timeout = 90\n", spawn.Config{ARQBindingTimeout: 90 * time.Second}, ""},
		{"last one wins, a value of before, too", "[DEFAULT]\narq_binding_timeout = 60\narq_binding_timeout = 90\narq_binding_timeout = 60\n", spawn.Config{ARQBindingTimeout: 60 * time.Second}, ""},
		{"a backslash continues nothing", "[DEFAULT]\nhost = a\\\narq_binding_timeout = 90\n", spawn.Config{ARQBindingTimeout: 90 * time.Second}, ""},
		{"no option", "[DEFAULT]\nnonsense\n", spawn.Config{}, "line 2: it is neither [SECTION] nor OPTION = VALUE"},
		{"others passed over", "[libvirt]\nvirt_type = kvm\narq_binding_timeout = 5\n[vnc]\nserver_listen = $my_ip\n", spawn.Config{}, ""},
		{"empty", "", spawn.Config{}, ""},
		{"zero", "[DEFAULT]\narq_binding_timeout = 0\n", spawn.Config{}, "arq_binding_timeout"},
		{"negative", "[DEFAULT]\narq_binding_timeout = -300\n", spawn.Config{}, "arq_binding_timeout"},
		{"not whole", "[DEFAULT]\narq_binding_timeout = 1.5\n", spawn.Config{}, "arq_binding_timeout"},
		{"with unit", "[DEFAULT]\narq_binding_timeout = 300s\n", spawn.Config{}, "arq_binding_timeout"},
		{"inline comment is part of the value", "[DEFAULT]\narq_binding_timeout = 300 # default\n", spawn.Config{}, "arq_binding_timeout"},
		{"no value", "[DEFAULT]\narq_binding_timeout =\n", spawn.Config{}, "arq_binding_timeout"},
		{"a year", "[DEFAULT]\narq_binding_timeout = 31536000\n", spawn.Config{ARQBindingTimeout: 31536000 * time.Second}, ""},
		{"longer than a year", "[DEFAULT]\narq_binding_timeout = 31536001\n", spawn.Config{}, "arq_binding_timeout"},
		{"longer than a time.Duration", "[DEFAULT]\narq_binding_timeout = 9223372037\n", spawn.Config{}, "arq_binding_timeout"},
		{"overflow", "[DEFAULT]\narq_binding_timeout = 99999999999999999999\n", spawn.Config{}, "arq_binding_timeout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got spawn.Config
			err := got.ReadNovaConf(strings.NewReader(tt.file))
			if tt.wantErr == "" {
				tt.want = configured(tt.want)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			checkConfigError(t, err, tt.wantErr)
		})
	}
}

func checkConfigError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("unexpected error: %v", err)
	case want != "" && (!errors.Is(err, spawn.ErrConfig) || !strings.Contains(err.Error(), want)):
		t.Errorf("got error %v, want ErrConfig naming %s", err, want)
	}
}

func TestConfigJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		want    spawn.Config
		wantErr string
	}{
		{`{"arq_binding_timeout": 300}`, spawn.Config{ARQBindingTimeout: 300 * time.Second}, ""},
		{`{}`, spawn.Config{}, ""},
		{`{"arq_binding_timeout": 0}`, spawn.Config{}, "arq_binding_timeout"},
		{`{"arq_binding_timeout": 2.5}`, spawn.Config{}, "arq_binding_timeout"},
		{`{"arq_binding_timeuot": 3}`, spawn.Config{}, "arq_binding_timeuot"},
		{`[]`, spawn.Config{}, "bad configuration"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			t.Parallel()
			var got spawn.Config
			err := json.Unmarshal([]byte(tt.text), &got)
			if tt.wantErr == "" {
				tt.want = configured(tt.want)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			checkConfigError(t, err, tt.wantErr)
		})
	}
}

func TestConfigJSONRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range []spawn.Config{{}, {ARQBindingTimeout: 60 * time.Second, MaxAttempts: 2}} {
		data, err := json.Marshal(want)
		settled(t, err)
		var got spawn.Config
		if err := json.Unmarshal(data, &got); err != nil || !cmp.Equal(got, configured(want)) {
			t.Errorf("%s: got %+v, %v; want %+v", data, got, err, want)
		}
	}
}

func TestNewRefusesABadConfiguration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		config spawn.Config
		want   string
	}{
		{spawn.Config{ARQBindingTimeout: -time.Second}, "arq_binding_timeout"},
		{spawn.Config{ARQBindingTimeout: 300}, "arq_binding_timeout: 300ns"}, // a unit was forgotten
		{spawn.Config{MaxAttempts: -1}, "max_attempts"},
		{spawn.Config{UnwindTimeout: -time.Second}, "unwind timeout"},
		{spawn.Config{}, "Cyborg client"}, // a valid configuration without clients
	}
	for _, tt := range tests {
		_, err := spawn.New(nil, nil, spawn.WithConfig(tt.config))
		checkConfigError(t, err, tt.want)
	}
	w := newWorld(t, worldOpts{})
	_, err := spawn.New(nil, w.placement(t))
	checkConfigError(t, err, "Cyborg client")
	for _, placement := range []*gophercloud.ServiceClient{nil, {}} {
		_, err = spawn.New(w.cyborg, placement)
		checkConfigError(t, err, "Placement client")
	}
}

func TestAnUnreadableNovaConfIsRefused(t *testing.T) {
	t.Parallel()
	var config spawn.Config
	err := config.ReadNovaConf(iotest.ErrReader(errors.New("input/output error")))
	checkConfigError(t, err, "input/output error")
}
