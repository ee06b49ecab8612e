package cyborgclient_test

import (
	"errors"
	"testing"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/simcloud"
)

func TestDeleteAtOnceStopsAtWhatIsMissing(t *testing.T) {
	t.Parallel()
	cloud := simcloud.Run(t)
	client, err := cyborgclient.New(cloud.Provider(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CreateARQs(t.Context(), cyborgclient.CreateARQsOpts{DeviceProfileName: "mixed"})
	if err != nil {
		t.Fatal(err)
	}
	const missing = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	uuids := []string{missing}
	for _, arq := range made {
		uuids = append(uuids, arq.UUID)
	}
	cloud.ForgetRequests()
	if err := client.DeleteARQsAtOnce(t.Context(), uuids); !errors.Is(err, cyborgclient.ErrNotFound) || len(cloud.Cyborg.ARQs()) != len(made) {
		t.Errorf("got error %v with %d ARQs left, want ErrNotFound and all %d", err, len(cloud.Cyborg.ARQs()), len(made))
	}
	if err := client.DeleteARQsAtOnce(t.Context(), uuids[1:]); err != nil || len(cloud.Cyborg.ARQs()) != 0 {
		t.Errorf("got error %v with %d ARQs left", err, len(cloud.Cyborg.ARQs()))
	}
	if err := client.DeleteARQsAtOnce(t.Context(), []string{"x"}); !errors.Is(err, cyborgclient.ErrInvalid) {
		t.Errorf("a bad UUID: got error %v, want ErrInvalid", err)
	}
	if err := client.DeleteARQsAtOnce(t.Context(), nil); err != nil {
		t.Errorf("nothing: got error %v", err)
	}
	if n := len(cloud.Requests()); n != 2 {
		t.Errorf("%d requests, want 2", n)
	}
}
