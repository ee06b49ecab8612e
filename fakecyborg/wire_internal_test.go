package fakecyborg

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/driver/verbatim"
	"github.com/gocyborg/gocyborg/fakecyborg/internal/store"
)

// settled ends the test if something that it builds on has failed.
func settled(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// arqBody is an accelerator request as encoding/json writes it.
type arqBody struct {
	UUID       string  `json:"uuid"`
	State      State   `json:"state"`
	Profile    string  `json:"device_profile_name"`
	Group      int     `json:"device_profile_group_id"`
	Hostname   *string `json:"hostname"`
	Provider   *string `json:"device_rp_uuid"`
	Instance   *string `json:"instance_uuid"`
	Project    *string `json:"project_id"`
	HandleType string  `json:"attach_handle_type"`
	handleUUID
	HandleInfo map[string]string `json:"attach_handle_info"`
	Links      []link            `json:"links"`
	CreatedAt  string            `json:"created_at"`
	UpdatedAt  *string           `json:"updated_at"`
}

type handleUUID struct {
	UUID **string `json:"attach_handle_uuid,omitempty"`
}

func newARQBody(l links, a ARQ, handleUUID bool) arqBody {
	body := arqBody{
		UUID: a.UUID, State: a.State, Profile: a.DeviceProfileName, Group: a.DeviceProfileGroupID,
		Hostname: textOrNull(a.Hostname), Provider: textOrNull(a.DeviceRPUUID), Instance: textOrNull(a.InstanceUUID),
		Project: textOrNull(a.ProjectID), HandleInfo: map[string]string{},
		Links:     l.self("accelerator_requests", a.UUID),
		CreatedAt: stamp(a.CreatedAt), UpdatedAt: stampOrNull(a.UpdatedAt),
	}
	var shown *string
	if a.State == StateBound && a.AttachHandleUUID != "" {
		body.HandleType, body.HandleInfo = a.AttachHandleType, a.AttachHandleInfo
		shown = &a.AttachHandleUUID
	}
	if handleUUID {
		body.handleUUID.UUID = &shown
	}
	return body
}

// TestRequestsAreWrittenAsByJSON compares the bytes of requests with those of encoding/json.
func TestRequestsAreWrittenAsByJSON(t *testing.T) {
	t.Parallel()
	server, err := New(Config{})
	settled(t, err)
	t.Cleanup(server.Close)
	info := driver.Info{"domain": "0000", "bus": "3b", "device": "00", "function": "0", "note": "a \"quoted\" one"}
	card := driver.Device{Type: driver.TypeGPU, Vendor: "10de", ControlPath: driver.ControlPath{Type: driver.ControlPathPCI, Info: info},
		Deployables: []driver.Deployable{{Name: "cn0_card", NumAccelerators: 1, DriverName: "d", Class: "PGPU",
			AttachHandles: []driver.AttachHandle{{Type: driver.HandlePCI, Info: info}}}}}
	settled(t, server.AddHost(driver.Host{Name: "cn0", Drivers: []driver.Driver{verbatim.New([]driver.Device{card})}}))
	settled(t, server.Report(t.Context()))
	handles := server.AttachHandles()
	if len(handles) != 1 {
		t.Fatalf("attach handles: %v", handles)
	}
	_, err = server.CreateDeviceProfile("p", []map[string]string{{"resources:PGPU": "1"}})
	settled(t, err)
	held, err := server.CreateARQs("p", "admin")
	settled(t, err)
	instance := "aaaaaaaa-0000-4000-8000-000000000001"
	settled(t, server.Bind(t.Context(), Binding{ARQ: held[0].UUID, Host: "cn0", Provider: handles[0].ProviderUUID, Instance: instance}))
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringMatching(`[ -~]*`))
	moment := rapid.Map(rapid.Int64Range(0, 4e9), func(n int64) time.Time { return time.Unix(n, n%1000).UTC() })
	rapid.Check(t, func(t *rapid.T) {
		a := store.ARQ{
			UUID: handles[0].UUID, Profile: text.Draw(t, "profile"), Group: rapid.IntRange(0, 20).Draw(t, "group"),
			State: rapid.SampledFrom([]string{store.Initial, store.Bound, store.BindFailed, store.Provisioning}).Draw(t, "state"),
			Host:  text.Draw(t, "host"), Provider: text.Draw(t, "provider"), Instance: text.Draw(t, "instance"), Project: text.Draw(t, "project"),
			Handle:    rapid.SampledFrom([]string{"", "gone", handles[0].UUID}).Draw(t, "handle"),
			CreatedAt: moment.Draw(t, "created"),
		}
		if rapid.Bool().Draw(t, "changed") {
			a.UpdatedAt = moment.Draw(t, "updated")
		}
		state := rapid.SampledFrom([]string{a.State, string(StateUnknown)}).Draw(t, "shown")
		l, handleUUID := links{"http://c.example/" + text.Draw(t, "base")}, rapid.Bool().Draw(t, "handleUUID")
		count := rapid.IntRange(0, 1).Draw(t, "requests in the list") // of more than none the handles are read at once
		server.db.View(func(tx store.Tx) {
			want := jsonText(newARQBody(l, arqOf(tx, a, state), handleUUID))
			if diff := cmp.Diff(want, string(l.arqs(tx, handleUUID, count).append(nil, a, state))); diff != "" {
				t.Fatalf("request (-want +got):\n%s", diff)
			}
		})
	})
}
