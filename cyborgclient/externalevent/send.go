package externalevent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
)

// SendResult is what Nova answered to events it took, or ignored.
type SendResult struct {
	// Status is the HTTP status, 200 or 207.
	Status int
	// Events are as answered, with a code each.
	Events []Event
	// Ignored is set when Nova delivered none of the events because no instance
	// has a host yet (all codes 422). That is no error: who waits on the host later
	// lists the accelerator requests first.
	Ignored bool
}

// Send posts events to Nova in one call, with the microversion 2.82 in both
// headers. The service client is one for compute; it is not changed. Nothing is
// retried or sent again.
//
//   - HTTP status 200 is success.
//   - 207 with the code 422 for every event is success with Ignored set.
//   - Anything else is a [*DeliveryError] (errors.Is [ErrDelivery]): 207 with other
//     or mixed codes, where it lists each event with its code; another status,
//     where it unwraps to gophercloud's error; no answer.
//
// An empty list, and an event without a name, a server or a tag or with an unknown
// status, is [ErrInvalid] before anything is sent. These are the rules of Cyborg's
// own sender (cyborg/common/nova_client.py).
func Send(ctx context.Context, compute *gophercloud.ServiceClient, events []Event) (SendResult, error) {
	sent, err := outgoing(events)
	if err != nil {
		return SendResult{}, err
	}
	client := *compute
	client.Type, client.Microversion = "compute", Microversion
	url := client.ServiceURL("os-server-external-events")
	resp, err := client.Post(ctx, url, map[string]any{"events": sent}, nil, &gophercloud.RequestOpts{
		OkCodes:          []int{http.StatusOK, http.StatusMultiStatus},
		KeepResponseBody: true,
	})
	if err != nil {
		return SendResult{}, refused(err, sent)
	}
	defer resp.Body.Close()
	answered, err := answeredEvents(resp.Body)
	if resp.StatusCode == http.StatusOK {
		return SendResult{Status: resp.StatusCode, Events: answered}, nil // the status alone decides
	}
	if err != nil {
		return SendResult{}, &DeliveryError{Status: resp.StatusCode, Events: sent, Err: err}
	}
	if !allWithoutHost(answered) {
		return SendResult{}, &DeliveryError{Status: resp.StatusCode, Events: answered}
	}
	return SendResult{Status: resp.StatusCode, Events: answered, Ignored: true}, nil
}

// outgoing checks events and gives copies without what only an answer has, which
// Nova's schema would refuse.
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

func allWithoutHost(events []Event) bool {
	for _, e := range events {
		if e.Code != http.StatusUnprocessableEntity {
			return false
		}
	}
	return len(events) > 0
}

// refused describes an answer that is neither 200 nor 207, or none at all.
func refused(err error, sent []Event) error {
	d := &DeliveryError{Events: sent, Err: err}
	var unexpected gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &unexpected) {
		d.Status = unexpected.Actual
		d.Err = &answerError{message: faultMessage(unexpected.Body), cause: err}
	}
	return d
}

// answerError has Nova's own message as its text in place of the whole body.
type answerError struct {
	message string
	cause   error
}

// Error gives Nova's message.
func (e *answerError) Error() string { return e.message }

// Unwrap gives gophercloud's error.
func (e *answerError) Unwrap() error { return e.cause }

// faultMessage finds the message in a body of Nova's dialect, an object with one
// named fault; other bodies are quoted, shortened.
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
