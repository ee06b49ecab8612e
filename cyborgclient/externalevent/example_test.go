package externalevent_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

func ExampleRegistry() {
	registry := externalevent.NewRegistry()
	waiter, err := registry.Prepare("b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001", "arq-a", "arq-b")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer waiter.Close()

	// Binding starts here. One request is seen resolved, the event of the other comes.
	waiter.Early("arq-a")
	registry.Deliver(externalevent.Event{Name: externalevent.ARQBound,
		ServerUUID: "b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001", Tag: "arq-b", Status: externalevent.StatusCompleted})

	fmt.Println(waiter.Wait(context.Background(), 300*time.Second))
	// Output: <nil>
}

func ExampleRegistry_Handler() {
	registry := externalevent.NewRegistry()
	mux := http.NewServeMux()
	mux.Handle("/v2.1/os-server-external-events", registry.Handler())

	body := `{"events": [{"name": "accelerator-request-bound", "tag": "arq-a", "server_uuid": "b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001"}]}`
	request := httptest.NewRequest("POST", "/v2.1/os-server-external-events", strings.NewReader(body))
	request.Header.Set("OpenStack-API-Version", "compute 2.82")
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, request)
	fmt.Println(answer.Code, answer.Body)
	// Output:
	// 200 {"events":[{"name":"accelerator-request-bound","server_uuid":"b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001","tag":"arq-a","status":"completed","code":200}]}
}

func ExampleRegistry_PrepareExpected() {
	registry := externalevent.NewRegistry(externalevent.WithAccept(externalevent.ARQsBound))
	waiter, err := registry.PrepareExpected("b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001",
		externalevent.Expected{ARQ: "arq-a", DeviceProfile: "gpu"}, externalevent.Expected{ARQ: "arq-b", DeviceProfile: "gpu"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer waiter.Close()

	// In the specification of Ussuri one event is for all requests of a device profile.
	registry.Deliver(externalevent.Event{Name: externalevent.ARQsBound,
		ServerUUID: "b6c5e2a0-0d0f-4d0e-9a52-0d4cf4a1c001", Tag: "gpu", Status: externalevent.StatusCompleted})

	fmt.Println(waiter.Wait(context.Background(), 300*time.Second), registry.Pending())
	// Output: <nil> 0
}
