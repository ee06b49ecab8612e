package cyborgclient_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

func at(text string) cyborgclient.Time {
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return cyborgclient.Time{Time: parsed}
}

func TestBoundARQHasItsHandle(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t, fixed(200, string(answer(t, "arq_mdev"))))
	got, err := client.GetARQ(t.Context(), arq1)
	if err != nil {
		t.Fatal(err)
	}
	want := &cyborgclient.ARQ{
		UUID: "843f6ea2-ab00-4a35-a749-739be39a1084", State: cyborgclient.StateBound,
		DeviceProfileName: "dp-vgpu", DeviceProfileGroupID: 0, Hostname: "compute-a",
		DeviceRPUUID: "15d91cf5-c240-3f4a-8b73-95736599c3a2", InstanceUUID: "bbbbbbbb-0000-4000-8000-000000000004",
		ProjectID: "d6da3a7b49074e9db6192b52bc47e935", AttachHandleType: cyborgclient.HandleMDEV,
		AttachHandleUUID: "cb51ff95-31fe-4191-b7eb-bae52c69bd72",
		AttachHandleInfo: map[string]any{"domain": "0000", "bus": "af", "device": "00", "function": "0",
			"asked_type": "nvidia-35", "vGPU_mark": "nvidia-35_0"},
		CreatedAt: at("2026-11-20T21:18:37Z"), UpdatedAt: at("2026-11-20T21:18:40Z"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("GetARQ (-want +got):\n%s", diff)
	}
}

func TestANewARQHasOnlyItsProfile(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t, fixed(201, string(answer(t, "arq_create"))))
	got, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "dp-pgpu"})
	if err != nil {
		t.Fatal(err)
	}
	want := []cyborgclient.ARQ{{
		UUID: arq1, State: cyborgclient.StateInitial, DeviceProfileName: "dp-pgpu", ProjectID: project1,
		AttachHandleInfo: map[string]any{}, CreatedAt: at("2026-11-20T21:18:37Z"),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("CreateARQs (-want +got):\n%s", diff)
	}
}

func TestCreateMayReturnNoARQs(t *testing.T) {
	t.Parallel()
	client, _ := newClient(t, fixed(201, `{"arqs": []}`))
	got, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "dp-zero"})
	if err != nil || got == nil || len(got) != 0 {
		t.Errorf("CreateARQs = %v, %v; want an empty list", got, err)
	}
}

func TestDeviceProfileReadsTheSameInBothForms(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	one, _ := newClient(t, fixed(200, string(answer(t, "profile_get"))))
	many, _ := newClient(t, fixed(200, string(answer(t, "profile_list"))))
	single, err := one.GetDeviceProfile(ctx, arq1)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := many.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(listed[0], *single); diff != "" {
		t.Errorf("list and get differ (-list +get):\n%s", diff)
	}
	if single.CreatedAt.IsZero() || !single.UpdatedAt.IsZero() || single.Description == nil || *single.Description != "one GPU" {
		t.Errorf("profile = %+v", single)
	}
	want := []map[string]string{{"resources:PGPU": "1", "trait:CUSTOM_GPU_NVIDIA": "required"}}
	if diff := cmp.Diff(want, single.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestDecodingIsTolerantWhereServersDiffer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, arq string
		want      cyborgclient.ARQ
	}{
		{"group as text", `{"uuid":"u","device_profile_group_id":"2"}`, cyborgclient.ARQ{UUID: "u", DeviceProfileGroupID: 2}},
		{"group as number", `{"uuid":"u","device_profile_group_id":2}`, cyborgclient.ARQ{UUID: "u", DeviceProfileGroupID: 2}},
		{"group null", `{"uuid":"u","device_profile_group_id":null}`, cyborgclient.ARQ{UUID: "u", DeviceProfileGroupID: -1}},
		{"group absent", `{"uuid":"u"}`, cyborgclient.ARQ{UUID: "u", DeviceProfileGroupID: -1}},
		{"unknown state", `{"uuid":"u","device_profile_group_id":0,"state":"Thinking"}`, cyborgclient.ARQ{UUID: "u", State: "Thinking"}},
		{"unknown handle", `{"uuid":"u","device_profile_group_id":0,"attach_handle_type":"CXL"}`, cyborgclient.ARQ{UUID: "u", AttachHandleType: "CXL"}},
		{"unknown field", `{"uuid":"u","device_profile_group_id":0,"colour":{"deep":[1]}}`, cyborgclient.ARQ{UUID: "u"}},
		{"blank in time", `{"uuid":"u","device_profile_group_id":0,"created_at":"2026-11-20 21:18:37+00:00"}`, cyborgclient.ARQ{UUID: "u", CreatedAt: at("2026-11-20T21:18:37Z")}},
		{"microseconds and zone", `{"uuid":"u","device_profile_group_id":0,"created_at":"2026-11-20T22:18:35.5+01:00"}`, cyborgclient.ARQ{UUID: "u", CreatedAt: cyborgclient.Time{Time: at("2026-11-20T21:18:35Z").Add(500 * time.Millisecond)}}},
		{"time without zone", `{"uuid":"u","device_profile_group_id":0,"created_at":"2026-11-20T21:18:37"}`, cyborgclient.ARQ{UUID: "u", CreatedAt: at("2026-11-20T21:18:37Z")}},
		{"None", `{"uuid":"u","device_profile_group_id":0,"updated_at":"None"}`, cyborgclient.ARQ{UUID: "u"}},
		{"no time at all", `{"uuid":"u","device_profile_group_id":0,"updated_at":"yesterday"}`, cyborgclient.ARQ{UUID: "u"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got cyborgclient.ARQ
			if err := json.Unmarshal([]byte(test.arq), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongTypesAreRefused(t *testing.T) {
	t.Parallel()
	for _, arq := range []string{
		`{"device_profile_group_id": "x"}`, `{"device_profile_group_id": -2}`, `{"device_profile_group_id": 1.5}`,
		`{"device_profile_group_id": {}}`, `{"state": 1}`, `{"attach_handle_info": "x"}`, `{"created_at": 7}`,
		`{"device_profile_group_id": 99999999999}`,
	} {
		var got cyborgclient.ARQ
		if err := json.Unmarshal([]byte(arq), &got); err == nil {
			t.Errorf("%s was accepted: %+v", arq, got)
		}
	}
}

func TestGroupValuesBecomeText(t *testing.T) {
	t.Parallel()
	var profile cyborgclient.DeviceProfile
	err := json.Unmarshal([]byte(`{"groups": [{"resources:FPGA": 2, "accel:x": null, "accel:y": true, "trait:CUSTOM_A": "required"}, {}]}`), &profile)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{{"resources:FPGA": "2", "accel:x": "", "accel:y": "true", "trait:CUSTOM_A": "required"}, {}}
	if diff := cmp.Diff(want, profile.Groups); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal([]byte(`{"groups": [{"resources:FPGA": ["1"]}]}`), &profile); err == nil {
		t.Error("a list as the value of a group was accepted")
	}
}

func TestDeviceDeployableAndAttribute(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	client, _ := newClient(t, serve(t, 200, "device_get"))
	device, err := client.GetDevice(ctx, arq1)
	if err != nil || device.Status != cyborgclient.DeviceEnabled || device.Type != "GPU" {
		t.Errorf("GetDevice = %+v, %v", device, err)
	}
	client, _ = newClient(t, serve(t, 200, "deployable_get"))
	deployable, err := client.GetDeployable(ctx, arq1)
	if err != nil {
		t.Fatal(err)
	}
	attributes, err := deployable.Attributes()
	want := []cyborgclient.Attribute{{Key: "rc", Value: "PGPU"}, {Key: "trait0", Value: "OWNER_CYBORG"},
		{Key: "trait1", Value: "CUSTOM_GPU_NVIDIA"}, {Key: "trait2", Value: "CUSTOM_GPU_PRODUCT_ID_1DB4"}}
	if diff := cmp.Diff(want, attributes); diff != "" || err != nil {
		t.Errorf("Attributes: %v (-want +got):\n%s", err, diff)
	}
	if deployable.RPUUID != rp2 || deployable.DeviceID != 1 || deployable.ParentID != nil || deployable.NumAccelerators != 1 {
		t.Errorf("GetDeployable = %+v", deployable)
	}
	deployable.AttributesList = "{not json"
	if _, err := deployable.Attributes(); !errorsIs(err, cyborgclient.ErrMalformed) {
		t.Errorf("Attributes of garbage: %v", err)
	}
	client, _ = newClient(t, serve(t, 200, "attribute_list"))
	attributes, err = client.ListAttributes(context.WithoutCancel(ctx), cyborgclient.ListAttributesOpts{})
	if err != nil || len(attributes) == 0 || attributes[0].Key != "rc" || attributes[0].DeployableID != 1 {
		t.Errorf("ListAttributes = %+v, %v", attributes, err)
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	resolved := map[cyborgclient.State]bool{
		cyborgclient.StateInitial: false, cyborgclient.StateBindStarted: false, cyborgclient.StateBound: true,
		cyborgclient.StateUnbound: false, cyborgclient.StateBindFailed: true, cyborgclient.StateUnbindFailed: false,
		cyborgclient.StateDeleting: true,
	}
	for state, want := range resolved {
		if state.Resolved() != want || !state.Known() {
			t.Errorf("%s: resolved %t known %t", state, state.Resolved(), state.Known())
		}
	}
	if odd := cyborgclient.State("bound"); odd.Known() || odd.Resolved() {
		t.Error("states are case-exact upstream")
	}
}

func TestARQRoundTripsInEveryState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := cyborgclient.ARQ{
			UUID:                 rapid.String().Draw(t, "uuid"),
			State:                cyborgclient.State(rapid.String().Draw(t, "state")),
			AttachHandleType:     cyborgclient.HandleType(rapid.String().Draw(t, "type")),
			DeviceProfileGroupID: rapid.IntRange(-1, 1000).Draw(t, "group"),
		}
		if rapid.Bool().Draw(t, "dated") {
			stamp := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "time"), 0).UTC()
			want.CreatedAt = cyborgclient.Time{Time: stamp}
		}
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got cyborgclient.ARQ
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
