package spawn_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/domainxml"
	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/simcloud"
)

// missingRows are the scenarios that Nova lacks.
func missingRows() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"BindFailed_before_the_wait": func(t *testing.T) {
			notBound(t, fault.Rule{Operation: fault.ARQList, Action: fault.Delay, Delay: 20 * time.Second})
		},
		"timeout_with_one_of_two_bound":            timeoutWithSomeBound,
		"Deleting":                                 deletingIsNoSuccess,
		"missing_service_token_403":                missingServiceToken,
		"profile_changed_between_parse_and_create": profileChanged,
		"Xilinx_doubling":                          xilinxDoubling,
		"mixture_PCI_TEST_PCI_MDEV":                mixture,
		"mdev_duplicate":                           mdevDuplicate,
	}
}

// notBound has one failed bind of four.
func notBound(t *testing.T, rules ...fault.Rule) {
	w := newWorld(t, worldOpts{model: slowModel(10 * time.Second), config: spawn.Config{MaxAttempts: 1}})
	w.fail(t, append(rules, fault.Rule{Operation: fault.MdevCreate, Action: fault.Status})...)
	result, err := w.flow.Run(t.Context(), request("mixed"))
	var failure *spawn.NotBoundError
	if !errors.As(err, &failure) || !strings.Contains(err.Error(), "BindFailed") {
		t.Errorf("got %v, want a NotBoundError that tells of BindFailed", err)
	}
	w.checkPromise(t, result, err)
}

func timeoutWithSomeBound(t *testing.T) {
	arqs := knownARQs(t)
	w := newWorld(t, worldOpts{model: slowModel(10 * time.Second)})
	w.fail(t, fault.Rule{Operation: fault.MdevCreate, Subject: arqs[2].AttachHandleUUID, Action: fault.Delay, Delay: 50 * time.Minute})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	var failure *spawn.NotBoundError
	if !errors.As(err, &failure) || !errors.Is(err, externalevent.ErrTimeout) {
		t.Fatalf("got %v, want a timeout", err)
	}
	states := map[cyborgclient.State]int{}
	for _, arq := range failure.ARQs {
		states[arq.State]++
	}
	time.Sleep(time.Hour) // the slow creation ends, and is undone
	if states[cyborgclient.StateBound] == 0 || states[cyborgclient.StateBindStarted] == 0 {
		t.Errorf("states %v, want some Bound and some not", states)
	}
	w.checkPromise(t, result, err)
}

func deletingIsNoSuccess(t *testing.T) {
	w := newWorld(t, worldOpts{})
	w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper {
		return &rewrite{next: next, method: http.MethodGet, path: "/accelerator_requests", change: func(_ int, body []byte) []byte {
			return bytes.Replace(body, []byte(`"state":"Bound"`), []byte(`"state":"Deleting"`), 1)
		}}
	})
	result, err := w.flow.Run(t.Context(), request("mixed"))
	w.failed(t, result, err, spawn.StepWait, spawn.ErrNotBound)
}

func missingServiceToken(t *testing.T) {
	w := newWorld(t, worldOpts{})
	w.connect(t, w.cloud.Provider(t), spawn.WithServiceProvider(nil))
	result, err := w.flow.Run(t.Context(), request("gpu"))
	w.failed(t, result, err, spawn.StepBind, cyborgclient.ErrServiceToken)
}

// profileChanged: the profile is changed to two GPUs after it was read and before the ARQs are created.
func profileChanged(t *testing.T) {
	model := simcloud.DefaultModel()
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "gpu2", Groups: []map[string]string{{"resources:PGPU": "2"}}})
	w := newWorld(t, worldOpts{model: &model})
	w.through(t, spawn.Config{}, func(next http.RoundTripper) http.RoundTripper { return renamed{next, `"gpu"`, `"gpu2"`} })
	result, err := w.flow.Run(t.Context(), request("gpu"))
	w.failed(t, result, err, spawn.StepMatch, nil)
	if err != nil && !errors.Is(err, matching.ErrProfile) && !errors.Is(err, matching.ErrCount) {
		t.Errorf("got %v", err)
	}
}

// xilinxDoubling: Cyborg creates two ARQs for each FPGA of a Xilinx card, one for its management function.
func xilinxDoubling(t *testing.T) {
	model := simcloud.DefaultModel()
	control := driver.PCIAddress{Bus: 0x42}
	user := driver.PCIAddress{Bus: 0x42, Function: 1}
	for i := range model.Hosts {
		name := model.Hosts[i].Name
		model.Hosts[i].Devices = append(model.Hosts[i].Devices, driver.Device{
			Type: driver.TypeFPGA, Vendor: "10ee", ControlPath: control.ControlPath(),
			Deployables: []driver.Deployable{{
				Name: name + "_" + control.String(), NumAccelerators: 2, DriverName: "xilinx",
				Class: "FPGA", Traits: []string{"CUSTOM_FPGA_XILINX"},
				AttachHandles: []driver.AttachHandle{
					{Type: driver.HandlePCI, Info: control.Info()}, {Type: driver.HandlePCI, Info: user.Info()},
				},
			}},
		})
	}
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{
		Name: "xilinx", Groups: []map[string]string{{"resources:FPGA": "1", "trait:CUSTOM_FPGA_XILINX": "required"}},
	})
	w := newWorld(t, worldOpts{model: &model})
	result, err := w.flow.Run(t.Context(), request("xilinx"))
	if err != nil || len(result.ARQs) != 2 || len(result.Devices) != 2 {
		t.Fatalf("got %s, want both functions", outcome(result, err))
	}
	w.checkPromise(t, result, err)
}

func mixture(t *testing.T) {
	model := simcloud.DefaultModel()
	model.DeviceProfiles = append(model.DeviceProfiles, simcloud.DeviceProfile{Name: "all", Groups: []map[string]string{
		{"resources:PGPU": "1"}, {"resources:FPGA": "1", "trait:CUSTOM_FAKE_DEVICE": "required"}, {"resources:VGPU": "1"},
	}})
	w := newWorld(t, worldOpts{model: &model})
	result, err := w.flow.Run(t.Context(), request("all"))
	if err != nil || len(result.Devices) != 2 || len(result.Skipped) != 1 {
		t.Fatalf("got %s, want a PCI and a mediated device, and TEST_PCI named", outcome(result, err))
	}
	w.checkPromise(t, result, err)
}

// mdevDuplicate: the domain of a rebuilt guest already has the mediated device.
func mdevDuplicate(t *testing.T) {
	arqs := knownARQs(t)
	w := newWorld(t, worldOpts{})
	mdev := arqs[2].AttachHandleUUID
	req := request("mixed")
	req.Domain = fmt.Appendf(nil, `<domain type="kvm"><name>vm</name><devices><hostdev mode="subsystem" type="mdev" model="vfio-pci">`+
		`<source><address uuid="%s"/></source></hostdev></devices></domain>`, strings.ToUpper(mdev))
	result, err := w.flow.Run(t.Context(), req)
	var conflict *spawn.OwnerConflictError
	if !errors.As(err, &conflict) || conflict.Address != mdev {
		t.Errorf("got %v, want a conflict about %s", err, mdev)
	}
	w.failed(t, result, err, spawn.StepCompose, domainxml.ErrDuplicate)
}
