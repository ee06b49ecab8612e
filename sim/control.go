package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Control is the control API of a cloud that cysim serve runs, as far as an agent needs
// it that is tried against this cloud: its guests. For a cloud in the same process
// simcloud.Cloud has the same methods.
type Control struct {
	// URL is the address of the cloud, such as http://127.0.0.1:8780; cysim serve prints
	// it as CYSIM_URL.
	URL string
	// Client sends the requests; nil means http.DefaultClient.
	Client *http.Client
}

// DefineGuest adds a guest or replaces the one with its UUID. A resource of Cyborg or
// Placement that belongs to no guest is a leak. The error is for a cloud that does not
// answer, and for a guest that it refuses, with its reason.
func (c Control) DefineGuest(ctx context.Context, g Guest) error {
	body, err := json.Marshal(g)
	if err == nil {
		_, _, err = c.send(ctx, http.MethodPut, g.UUID, body)
	}
	if err != nil {
		return fmt.Errorf("sim: define guest %s: %w", g.UUID, err)
	}
	return nil
}

// RemoveGuest removes a guest. Removing a missing guest is not an error.
func (c Control) RemoveGuest(ctx context.Context, uuid string) error {
	if status, _, err := c.send(ctx, http.MethodDelete, uuid, nil); err != nil && status != http.StatusNotFound {
		return fmt.Errorf("sim: remove guest %s: %w", uuid, err)
	}
	return nil
}

// Guest returns a guest, and whether the cloud has it.
func (c Control) Guest(ctx context.Context, uuid string) (g Guest, ok bool, err error) {
	status, answer, err := c.send(ctx, http.MethodGet, uuid, nil)
	if status == http.StatusNotFound {
		return Guest{}, false, nil
	}
	body := struct{ Guest *Guest }{&g}
	if err == nil {
		err = json.Unmarshal(answer, &body)
	}
	if err != nil {
		return Guest{}, false, fmt.Errorf("sim: read guest %s: %w", uuid, err)
	}
	return g, true, nil
}

// Limits of what is read of an answer.
const (
	maxGuest   = 1 << 26
	maxRefusal = 1 << 12
)

// send sends a request about a guest. An answer that is no success is an error.
func (c Control) send(ctx context.Context, method, uuid string, body []byte) (status int, answer []byte, err error) {
	address := strings.TrimSuffix(c.URL, "/") + "/_sim/guests/" + url.PathEscape(uuid)
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	got, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer got.Body.Close()
	limit, refused := int64(maxGuest), got.StatusCode >= 300
	if refused {
		limit = maxRefusal
	}
	answer, err = io.ReadAll(io.LimitReader(got.Body, limit))
	switch {
	case err != nil:
		return 0, nil, err
	case refused:
		return got.StatusCode, nil, fmt.Errorf("%s: %s", got.Status, bytes.TrimSpace(answer))
	}
	return got.StatusCode, answer, nil
}
