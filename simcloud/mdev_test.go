package simcloud_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/simcloud"
)

// mdevOf is the mediated device of a bound request.
func mdevOf(t testing.TB, arq fakecyborg.ARQ) driver.Mdev {
	t.Helper()
	m, ok := arq.Mdev()
	if !ok {
		t.Fatalf("request %+v has no mediated device", arq)
	}
	return m
}

// leakTexts are the kinds of the leaks, and what their texts say of a mediated device.
func leakTexts(cloud *simcloud.Cloud, m driver.Mdev) []string {
	texts := []string{}
	for _, l := range cloud.Leaks() {
		_, text, _ := strings.Cut(l.Text, "mediated device "+m.UUID)
		texts = append(texts, l.Kind+":"+text)
	}
	return texts
}

// Where Nova creates the mediated devices, a guest without its device is a leak, and so is the definition that outlives the device;
// a defined device is there again when its host has started.
func TestADefinedMediatedDeviceIsCreatedWithItsHost(t *testing.T) {
	t.Parallel()
	for _, defined := range []bool{false, true} {
		cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}})
		u := login(t, cloud, "admin", "admin")
		s := u.spawn(1, "vgpu", "VGPU:1", "OWNER_CYBORG")
		m := mdevOf(t, s.arq)
		is := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(append([]string{}, want...), leakTexts(cloud, m)); diff != "" {
				t.Errorf("defined %t, %s: leaks (-want +got):\n%s", defined, when, diff)
			}
		}
		create, after := cloud.CreateMdev, []string{"guest:, which nova-compute creates"}
		if defined {
			create, after = cloud.DefineMdev, nil
		}
		is("after the bind", "guest:, which nova-compute creates")
		must(t, create(t.Context(), s.host, m))
		is("with the device")
		must(t, cloud.RebootHost(t.Context(), s.host))
		is("after a reboot of the host", after...)
		again := closing(t)(simcloud.FromState(t.Context(), dump(t, cloud)))
		if diff := cmp.Diff(leakTexts(cloud, m), leakTexts(again, m)); diff != "" {
			t.Errorf("defined %t: leaks of the loaded state (-want +got):\n%s", defined, diff)
		}
		u.remove(s)
		if mdevs, err := cloud.Mdevs(s.host); len(mdevs) > 0 || err != nil {
			t.Errorf("defined %t: mediated devices %v, %v after the deletion", defined, mdevs, err)
		}
		if defined {
			is("after the deletion", "mdev: ("+m.Type+" on "+m.Parent+") in libvirt of host "+s.host+" belongs to attach handle "+m.UUID+", which is not in use")
			if list, err := cloud.DefinedMdevs(s.host); len(list) != 1 || err != nil {
				t.Errorf("definitions %v, %v", list, err)
			}
			must(t, cloud.RemoveMdev(t.Context(), s.host, m.UUID))
		}
		is("in the end")
	}
}

// The attach handle names the device as libvirt does: Nova 34 composes the name mdev_UUID_DOMAIN_BUS_DEVICE_FUNCTION from the texts
// of the request, and the name of the parent, and requires each text (nova/virt/libvirt/driver.py). libvirt makes its
// name from the parent's directory in sysfs.
func TestNova34FindsTheDeviceOfAHandle(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	u := login(t, cloud, "admin", "admin")
	s := u.spawn(1, "vgpu", "VGPU:1", "OWNER_CYBORG")
	var list struct {
		ARQs []struct {
			Type string         `json:"attach_handle_type"`
			UUID string         `json:"attach_handle_uuid"`
			Info map[string]any `json:"attach_handle_info"`
		} `json:"arqs"`
	}
	u.do("GET", "/accelerator/v2/accelerator_requests?instance="+s.uuid, accelerator, nil, 200, &list)
	mdevs, err := cloud.Mdevs(s.host)
	if err != nil || len(mdevs) != 1 || len(list.ARQs) != 1 {
		t.Fatalf("mediated devices %v, %v; requests %v", mdevs, err, list)
	}
	arq, underscores := list.ARQs[0], strings.NewReplacer("-", "_", ":", "_", ".", "_")
	address := ""
	for _, key := range []string{"domain", "bus", "device", "function"} {
		text, ok := arq.Info[key].(string)
		if !ok {
			t.Errorf("%s is %#v, want a text", key, arq.Info[key])
		}
		address += "_" + text
	}
	got := []any{"mdev_" + strings.ReplaceAll(arq.UUID, "-", "_") + address, "pci" + address, arq.Info["asked_type"], arq.Type}
	want := []any{underscores.Replace("mdev_" + mdevs[0].UUID + "_" + mdevs[0].Parent), underscores.Replace("pci_" + mdevs[0].Parent), mdevs[0].Type, "MDEV"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names of libvirt's (-libvirt +Nova):\n%s", diff)
	}
}

// An agent in another language creates the device over HTTP.
func TestMediatedDevicesAreCreatedOverHTTP(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t, simcloud.Model{Cyborg: fakecyborg.Config{MdevCreation: fakecyborg.MdevsByNova}})
	u := login(t, cloud, "admin", "admin")
	s := u.spawn(1, "vgpu", "VGPU:1", "OWNER_CYBORG")
	m := mdevOf(t, s.arq)
	path := "/_sim/hosts/" + s.host + "/mdevs"
	u.do("PUT", path+"/"+m.UUID, "", map[string]string{"parent": m.Parent, "type": m.Type, "lifetime": "autostart"}, http.StatusNoContent, nil)
	cloud.CheckNoLeaks(t)
	var shown struct{ Mdevs, Defined []driver.Mdev }
	answer := u.send("GET", path, "", "")
	must(t, json.Unmarshal([]byte(answer.body), &shown))
	if diff := cmp.Diff([]driver.Mdev{m, m}, slices.Concat(shown.Mdevs, shown.Defined)); diff != "" {
		t.Errorf("mediated devices (-want +got):\n%s", diff)
	}
	u.do("DELETE", path+"/"+m.UUID, "", nil, http.StatusNoContent, nil)
	u.remove(s)
	cloud.CheckNoLeaks(t)
}
