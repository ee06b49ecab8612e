package statuspage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/statuspage"
	"github.com/gocyborg/gocyborg/sim"
)

func TestRequestsAreDrawnForMermaid(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	got := statuspage.Mermaid([]sim.Exchange{
		{Service: "identity", From: "gophercloud/v2", Method: "POST", Path: "/identity/v3/auth/tokens", Status: 201, Changes: []sim.Change{
			{Action: "created", Kind: "token", ID: "xyz", What: "of user demo; #1"},
		}},
		{Service: "accelerator", From: "gophercloud/v2", Method: "PATCH", Path: "/accelerator/v2/accelerator_requests", Fault: "drop", Changes: []sim.Change{
			{Action: "changed", Kind: "accelerator_request", ID: "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001", What: "state Initial -> Bound, " + strings.Repeat("ü", 100)},
			{Action: "deleted", Kind: "consumer", ID: "a"}, {Action: "changed", Kind: "more", What: "many"}, {Action: "created", Kind: "trait", ID: "T"}, {}, {},
		}},
		{Service: "compute", From: "cyborg-conductor keystoneauth1", Method: "POST", Path: "/compute/v2.1/os-server-external-events", Status: 200, Started: noon},
		{Service: "placement", From: "x", Method: "DELETE", Path: "/placement/allocations/2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001;#\nx", Status: 500, Fault: "status", Started: noon},
	}, statuspage.Step{At: noon, Text: "select #1"}, statuspage.Step{At: noon.Add(1), Text: "wait"}, statuspage.Step{At: noon.Add(2), Text: "compose"})
	want := `sequenceDiagram
    participant client
    participant Keystone
    participant Cyborg
    participant Nova
    participant Placement
    client->>Keystone: POST /auth/tokens
    Note over Keystone: created token xyz: of user demo, 1
    Keystone-->>client: 201
    client->>Cyborg: PATCH /accelerator_requests
    Note over Cyborg: changed accelerator_request 2f7d3a52…: state Initial -> Bound, ` + strings.Repeat("ü", 100-64) + `…
    Note over Cyborg: deleted consumer a
    Note over Cyborg: changed more: many
    Note over Cyborg: created trait T
    Note over Cyborg: and 2 more changes
    Cyborg--xclient: no answer, fault drop
    client->>client: select 1
    Cyborg->>Nova: POST /os-server-external-events
    Nova-->>Cyborg: 200
    client->>Placement: DELETE /allocations/2f7d3a52…, x
    Placement-->>client: 500, fault status
    client->>client: wait
    client->>client: compose
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagram (-want +got):\n%s", diff)
	}
	if got := statuspage.Mermaid(nil); got != "sequenceDiagram\n" {
		t.Errorf("of nothing: %q", got)
	}
}
