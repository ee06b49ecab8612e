package cyborgclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/gocyborg/gocyborg/cyborgclient"
)

// tiny is a Cyborg of one profile and one device, served in process.
type tiny struct{ arq map[string]any }

func (c *tiny) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("OpenStack-API-Maximum-Version", "2.3")
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	switch {
	case r.Method == http.MethodPost && path == "accelerator_requests":
		var opts struct {
			Name string `json:"device_profile_name"`
		}
		json.NewDecoder(r.Body).Decode(&opts)
		if opts.Name != "gpu" {
			w.WriteHeader(http.StatusNotFound)
			fault := fmt.Sprintf(`{"faultcode": "Client", "faultstring": "Device Profile not found with name=%s", "debuginfo": null}`, opts.Name)
			json.NewEncoder(w).Encode(map[string]string{"error_message": fault})
			return
		}
		c.arq = map[string]any{"uuid": arq1, "state": "Initial", "device_profile_name": "gpu", "device_profile_group_id": 0}
		w.WriteHeader(http.StatusCreated)
		json.NewEncoder(w).Encode(map[string]any{"arqs": []any{c.arq}})
	case r.Method == http.MethodPatch && path == "accelerator_requests":
		c.arq["state"], c.arq["attach_handle_type"] = "Bound", "PCI"
		c.arq["attach_handle_info"] = map[string]string{"domain": "0000", "bus": "3b", "device": "00", "function": "0"}
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodGet && path == "accelerator_requests/"+arq1:
		json.NewEncoder(w).Encode(c.arq)
	case r.Method == http.MethodDelete && path == "accelerator_requests":
		w.WriteHeader(http.StatusNoContent)
	}
}

// RoundTrip makes the handler a transport.
func (c *tiny) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		req.Body = io.NopCloser(strings.NewReader(""))
	}
	recorder := httptest.NewRecorder()
	c.ServeHTTP(recorder, req)
	return recorder.Result(), nil
}

func Example() {
	ctx := context.Background()
	cyborg, err := cyborgclient.NewWithEndpoint("http://cyborg.example", "", cyborgclient.WithTransport(&tiny{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	arqs, err := cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer cyborg.DeleteARQs(ctx, []string{arqs[0].UUID})
	err = cyborg.BindARQs(ctx, []cyborgclient.Binding{{
		ARQ:      arqs[0].UUID,
		Host:     "compute-a",
		DeviceRP: "bc65c872-6c23-3545-8206-18cd374d2bb3",
		Instance: "bbbbbbbb-0000-4000-8000-000000000001",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	arq, err := cyborg.GetARQ(ctx, arqs[0].UUID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(arq.State, arq.AttachHandleType, arq.AttachHandleInfo["bus"])
	// Output: Bound PCI 3b
}

func ExampleAPIError() {
	cyborg, err := cyborgclient.NewWithEndpoint("http://cyborg.example", "", cyborgclient.WithTransport(&tiny{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = cyborg.CreateARQs(context.Background(), cyborgclient.CreateARQsOpts{DeviceProfileName: "quantum"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, cyborgclient.ErrNotFound), errors.Is(err, cyborgclient.ErrReplyLost))
	// Output:
	// cyborgclient: accelerator.arq.create quantum: 404 Not Found: Device Profile not found with name=quantum
	// true false
}

func ExampleObserve() {
	cyborg, err := cyborgclient.NewWithEndpoint("http://cyborg.example", "", cyborgclient.WithTransport(&tiny{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := cyborgclient.Observe(context.Background(), func(call cyborgclient.Call) {
		fmt.Fprintln(os.Stdout, call.Operation, call.IDs, call.Status)
	})
	cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
	cyborg.DeleteARQs(ctx, []string{arq1})
	// Output:
	// accelerator.arq.create [gpu] 201
	// accelerator.arq.delete [21a4eb48-b76a-4610-9630-795e92a507ef] 204
}
