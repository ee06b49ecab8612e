package externalevent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/session"
)

// Send posts events to Nova in one call, with the microversion 2.82 in both
// headers. The service client is one for compute; it is not changed. Nothing is
// retried, except after a 401 with a new token, and nothing but ctx limits the
// time. It returns the events of Nova's answer, each with a code:
//
//   - HTTP status 200 is success.
//   - 207 with the code 422 for every event is success, too: no instance has a host
//     yet, which lists the accelerator requests before it waits for events.
//   - Anything else is a [*DeliveryError]: 207 with other or mixed codes, where it
//     lists each event with its code; another status, where it unwraps to
//     gophercloud's error; no answer.
//
// An empty list, and an event without a name, a server or a tag or with an unknown
// status, is [ErrInvalid] and nothing is sent. These are the rules of Cyborg's
// sender (cyborg/common/nova_client.py).
func Send(ctx context.Context, compute *gophercloud.ServiceClient, events []Event) ([]Event, error) {
	sent, err := outgoing(events)
	if err != nil {
		return nil, err
	}
	client, err := session.Service(compute)
	if err != nil {
		return nil, fmt.Errorf("externalevent: send: %w: %w", ErrInvalid, err)
	}
	client.Type, client.Microversion = "compute", Microversion
	url := client.ServiceURL("os-server-external-events")
	ctx, tokens := session.Watch(ctx)
	resp, err := client.Post(ctx, url, map[string]any{"events": sent}, nil, &gophercloud.RequestOpts{
		OkCodes:          []int{http.StatusOK, http.StatusMultiStatus},
		KeepResponseBody: true,
	})
	if err != nil {
		return nil, refused(tokens.Redacted(err), sent)
	}
	defer resp.Body.Close()
	answered, err := answeredEvents(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return answered, nil // the status alone decides
	}
	if err != nil {
		return nil, &DeliveryError{Status: resp.StatusCode, Events: sent, Err: err}
	}
	hasHost := func(e Event) bool { return e.Code != http.StatusUnprocessableEntity }
	if len(answered) == 0 || slices.ContainsFunc(answered, hasHost) {
		return nil, &DeliveryError{Status: resp.StatusCode, Events: answered}
	}
	return answered, nil
}

// outgoing checks events and returns copies without codes, which Nova's schema
// refuses.
func outgoing(events []Event) ([]Event, error) {
	if len(events) == 0 {
		return nil, fmt.Errorf("externalevent: send: %w: no events", ErrInvalid)
	}
	sent := make([]Event, len(events))
	for i, e := range events {
		problem := ""
		switch {
		case e.Name == "":
			problem = "no name"
		case e.ServerUUID == "":
			problem = "no server_uuid"
		case e.Tag == "" && needsTag(e.Name):
			problem = "no tag"
		case e.Status != "" && !e.Status.Known():
			problem = fmt.Sprintf("unknown status %q", string(e.Status))
		}
		if problem != "" {
			return nil, fmt.Errorf("externalevent: send: %w: event %d (%s of instance %s): %s", ErrInvalid, i+1, e.Name, e.ServerUUID, problem)
		}
		e.Code = 0
		sent[i] = e
	}
	return sent, nil
}

func answeredEvents(body io.Reader) ([]Event, error) {
	var answer struct{ Events []Event }
	if err := json.NewDecoder(io.LimitReader(body, maxBody)).Decode(&answer); err != nil {
		return nil, fmt.Errorf("unreadable answer: %w", err)
	}
	return answer.Events, nil
}

// refused returns the error for a status other than 200 and 207, or for no answer.
func refused(err error, sent []Event) error {
	d := &DeliveryError{Events: sent, Err: err}
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &unexpected) {
		d.Status = unexpected.Actual
		d.message = faultMessage(unexpected.Body)
	}
	return d
}

// faultMessage returns the message of an error body of Nova, an object with one
// named fault; other bodies are quoted and truncated.
func faultMessage(body []byte) string {
	var faults map[string]struct{ Message string }
	if json.Unmarshal(body, &faults) == nil {
		for _, f := range faults {
			if f.Message != "" {
				return f.Message
			}
		}
	}
	return fmt.Sprintf("%.200q", body)
}
