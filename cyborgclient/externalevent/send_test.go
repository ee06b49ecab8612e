package externalevent_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/cyborgclient/externalevent"
)

// inProcess calls a handler on the goroutine of the client.
type inProcess struct{ http.Handler }

func (h inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

type noRoute struct{}

func (noRoute) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("connection refused")
}

func compute(transport http.RoundTripper) *gophercloud.ServiceClient {
	provider := &gophercloud.ProviderClient{TokenID: "secret-token"}
	provider.HTTPClient.Transport = transport
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://nova.example/v2.1/"}
}

func TestSendReachesTheHandler(t *testing.T) {
	t.Parallel()
	r := externalevent.NewRegistry()
	w := prepare(t, r, arq1, arq2)
	answered, err := externalevent.Send(t.Context(), compute(inProcess{r.Handler()}),
		[]externalevent.Event{completed(arq1), {Name: externalevent.ARQBound, ServerUUID: instance, Tag: arq2}})
	if err != nil || len(answered) != 2 || answered[1].Code != 200 {
		t.Errorf("Send = %+v, %v; want two events delivered", answered, err)
	}
	if err := w.Wait(t.Context(), timeout); err != nil {
		t.Error(err)
	}
}

func TestSendWritesWhatNovaExpects(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	client := compute(inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		_, _ = io.WriteString(w, `{"events":[]}`)
	})})
	before := *client
	answered := bound(arq1, externalevent.StatusFailed)
	answered.Code = 200 // of an earlier answer; Nova's schema has no code
	if _, err := externalevent.Send(t.Context(), client, []externalevent.Event{answered}); err != nil {
		t.Fatal(err)
	}
	want := `{"events":[{"name":"accelerator-request-bound","server_uuid":"` + instance + `","tag":"` + arq1 + `","status":"failed"}]}`
	if string(body) != want || got.Method != http.MethodPost || got.URL.String() != "http://nova.example/v2.1/os-server-external-events" {
		t.Errorf("%s %s\n%s\nwant %s", got.Method, got.URL, body, want)
	}
	for name, value := range map[string]string{"OpenStack-API-Version": "compute 2.82",
		"X-OpenStack-Nova-API-Version": "2.82", "X-Auth-Token": "secret-token"} {
		if got.Header.Get(name) != value {
			t.Errorf("header %s = %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if client.Microversion != before.Microversion || client.Type != before.Type {
		t.Error("Send changed the service client")
	}
}

func TestSendClassifiesTheAnswerAsCyborgDoes(t *testing.T) {
	t.Parallel()
	echo := func(codes ...int) string {
		var items []string
		for i, code := range codes {
			items = append(items, fmt.Sprintf(`{"name":"n","server_uuid":"s","tag":"t%d","status":"x","code":%d}`, i, code))
		}
		return events(items...)
	}
	tests := []struct {
		name    string
		status  int
		body    string
		ignored bool
		text    string // of the error; empty for success
	}{
		{"200", 200, echo(200, 200), false, ""},
		{"200 with an unreadable body", 200, "<html>", false, ""},
		{"no instance has a host", 207, echo(422, 422), true, ""},
		{"one has none", 207, echo(200, 422), false, "n-t0 of instance s: code 200; n-t1 of instance s: code 422"},
		{"all unknown", 207, echo(404, 404), false, "code 404"},
		{"all 207 delivered, which Nova never says", 207, echo(200), false, "code 200"},
		{"no event answered", 207, echo(), false, "HTTP status 207"},
		{"unreadable", 207, "<html>", false, "unreadable answer"},
		{"204", 204, "", false, "HTTP status 204"},
		{"400", 400, `{"badRequest":{"code":400,"message":"Invalid input"}}`, false, "HTTP status 400: events not delivered: Invalid input"},
		{"403", 403, `{"forbidden":{"code":403,"message":"Policy doesn't allow it"}}`, false, "Policy doesn't allow it"},
		{"404 of an older Nova", 404, `{"itemNotFound":{"code":404,"message":"No instances found for any event"}}`, false, "No instances found"},
		{"500", 500, "oops", false, `"oops"`},
		{"503", 503, strings.Repeat("x", 5000), false, "HTTP status 503"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			client := compute(inProcess{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})})
			answered, err := externalevent.Send(t.Context(), client, []externalevent.Event{completed(arq1)})
			if calls != 1 {
				t.Errorf("%d calls, want 1", calls)
			}
			if tt.text == "" {
				if ignored := len(answered) > 0 && answered[0].Code == 422; err != nil || ignored != tt.ignored {
					t.Errorf("Send = %+v, %v; want ignored %v", answered, err, tt.ignored)
				}
				return
			}
			var failed *externalevent.DeliveryError
			if !errors.Is(err, externalevent.ErrDelivery) || !errors.As(err, &failed) || failed.Status != tt.status {
				t.Fatalf("Send = %+v, %v; want a DeliveryError with status %d", answered, err, tt.status)
			}
			if text := err.Error(); !strings.Contains(text, tt.text) || strings.Contains(text, "secret-token") || len(text) > 1000 {
				t.Errorf("error %q; want a short one that says %q", text, tt.text)
			}
			if tt.status != 207 && !gophercloud.ResponseCodeIs(err, tt.status) {
				t.Errorf("gophercloud does not see the status in %v", err)
			}
		})
	}
}

// A proxy may answer with the request, as some do for debugging.
func TestSendDoesNotTellATokenThatNovaQuotes(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"token %s refused", `{"forbidden": {"code": 403, "message": "token %s refused"}}`} {
		client := compute(inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = fmt.Fprintf(w, body, r.Header.Get("X-Auth-Token"))
		})})
		_, err := externalevent.Send(t.Context(), client, []externalevent.Event{completed(arq1)})
		var answered gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &answered) {
			t.Fatalf("Send = %v; want the answer", err)
		}
		for _, text := range []string{err.Error(), answered.Error()} {
			if strings.Contains(text, "secret-token") || !strings.Contains(text, "token *** refused") {
				t.Errorf("error %q; want it without the token", text)
			}
		}
	}
}

func TestSendWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	_, err := externalevent.Send(t.Context(), compute(noRoute{}), []externalevent.Event{completed(arq1)})
	var failed *externalevent.DeliveryError
	if !errors.As(err, &failed) || failed.Status != 0 || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), arq1) {
		t.Errorf("Send = %v; want a DeliveryError that says why and names the event", err)
	}
	if diff := cmp.Diff([]externalevent.Event{completed(arq1)}, failed.Events); diff != "" {
		t.Errorf("events (-sent +listed):\n%s", diff)
	}
}

func TestSendRefusesBadEvents(t *testing.T) {
	t.Parallel()
	good := completed(arq1)
	for name, edit := range map[string]func(*externalevent.Event){
		"no name":        func(e *externalevent.Event) { e.Name = "" },
		"no server":      func(e *externalevent.Event) { e.ServerUUID = "" },
		"no tag":         func(e *externalevent.Event) { e.Tag = "" },
		"unknown status": func(e *externalevent.Event) { e.Status = "ok" },
	} {
		bad := good
		edit(&bad)
		if _, err := externalevent.Send(t.Context(), compute(noRoute{}), []externalevent.Event{good, bad}); !errors.Is(err, externalevent.ErrInvalid) {
			t.Errorf("%s: Send = %v; want ErrInvalid", name, err)
		}
	}
	if _, err := externalevent.Send(t.Context(), compute(noRoute{}), nil); !errors.Is(err, externalevent.ErrInvalid) {
		t.Errorf("no events: Send = %v; want ErrInvalid", err)
	}
}

func TestSendCarriesNoTokenToAnotherServer(t *testing.T) {
	t.Parallel()
	var hosts []string
	client := compute(inProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		http.Redirect(w, r, "http://nova.example:8774/", http.StatusTemporaryRedirect)
	})})
	_, err := externalevent.Send(t.Context(), client, []externalevent.Event{completed(arq1)})
	if delivery := new(externalevent.DeliveryError); !errors.As(err, &delivery) || delivery.Status != http.StatusTemporaryRedirect || len(hosts) != 1 {
		t.Errorf("err = %v after requests to %q", err, hosts)
	}
}
