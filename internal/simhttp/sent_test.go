package simhttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func lastSent(t *testing.T, r *Recorder) Sent {
	t.Helper()
	list := r.Exchanges()
	if len(list) == 0 || list[len(list)-1].Sent == nil {
		t.Fatal("nothing was kept")
	}
	return *list[len(list)-1].Sent
}

func TestWhatWasSentIsKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	served := 0
	recorder := NewRecorder(10)
	recorder.LoginOf = func(token string) string { return map[string]string{"t1": "alice/lab", "t2": "nova/service"}[token] }
	h := Recording(strictService(&served), recorder)
	long := strings.Repeat("x", MaxKept+1)
	tests := []struct {
		name, method, target, body string
		header                     []string
		want                       Sent
	}{
		{"tokens and headers", "POST", "/things", `{"name":"x","password":"y"}`, []string{
			"X-Auth-Token", "t1", "X-Service-Token", "t2", "X-Subject-Token", "t3", "Content-Type", "application/json",
			"OpenStack-API-Version", "test 1.2", "Cookie", "secret",
		}, Sent{
			Login: "alice/lab", ServiceLogin: "nova/service", SubjectLogin: UnknownLogin, Body: `{"name":"x","password":"[redacted]"}`, Length: 27,
			Header: map[string]string{"Content-Type": "application/json", "Openstack-Api-Version": "test 1.2"},
		}},
		{"long", "POST", "/things", long, nil, Sent{Body: long[1:], Length: MaxKept + 1, Cut: CutLong}},
		{"data", "PUT", "/data", "abc", nil, Sent{Length: 3, Cut: CutData}},
		{"secret in something else", "POST", "/things", "password=x", nil, Sent{Length: 10, Cut: CutWithout}},
		{"unknown route", "POST", "/%6eowhere", "{}", nil, Sent{Body: "{}", Length: 2, RawPath: "/%6eowhere"}},
	}
	for _, test := range tests {
		ask(h, test.method, test.target, test.body, test.header...)
		if diff := cmp.Diff(test.want, lastSent(t, recorder)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestTheOldestBodiesGoFirst(t *testing.T) {
	t.Parallel()
	recorder := NewRecorder(400)
	body := strings.Repeat("x", MaxKept)
	for range 1000 {
		number := recorder.begin()
		recorder.add(number, Exchange{Sent: &Sent{Body: body, Length: MaxKept}})
		total := 0
		for _, e := range recorder.exchanges {
			total += e.Sent.size()
		}
		if total != recorder.bodies.total || total > MaxKeptInAll {
			t.Fatalf("exchange %d: %d bytes are kept, %d are counted", number, total, recorder.bodies.total)
		}
	}
	list := recorder.Exchanges()
	for i, e := range list {
		old := i < len(list)-MaxKeptInAll/MaxKept
		if old != (e.Sent.Body == "") || old != (e.Sent.Cut == CutOld) {
			t.Fatalf("exchange %d of %d: %d bytes, cut %q", i, len(list), len(e.Sent.Body), e.Sent.Cut)
		}
	}
	recorder.Reset()
	if recorder.bodies.total != 0 || len(recorder.Exchanges()) != 0 {
		t.Errorf("after a reset: %+v", recorder.bodies)
	}
}

// Whoever reads the body reads what was sent, whatever was read ahead of it.
func TestBodiesAreReadAsTheyWereSent(t *testing.T) {
	t.Parallel()
	failed := errors.New("gone")
	long := strings.Repeat("y", MaxBody+100)
	for _, test := range []struct {
		name string
		body io.Reader
		want string
		err  error
	}{
		{"short", strings.NewReader("abc"), "abc", nil},
		{"in small pieces", iotest.OneByteReader(strings.NewReader("abc")), "abc", nil},
		{"beyond what a service reads", strings.NewReader(long), long, nil},
		{"cut off", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(failed)), "ab", failed},
	} {
		ahead := newReadAhead(io.NopCloser(test.body))
		got, err := io.ReadAll(ahead)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %d bytes, %v; want %d, %v", test.name, len(got), err, len(test.want), test.err)
		}
	}
	for _, test := range []struct {
		name string
		body io.Reader
		want string
		err  error
	}{
		{"short", strings.NewReader("abc"), "abc", nil},
		{"too long", strings.NewReader(long), "", ErrBodyTooLarge},
		{"cut off", io.MultiReader(strings.NewReader("ab"), iotest.ErrReader(failed)), "", failed},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Body = newReadAhead(io.NopCloser(test.body))
		got, err := ReadBody(r)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("ReadBody, %s: %d bytes, %v; want %d, %v", test.name, len(got), err, len(test.want), test.err)
		}
		if again, err := ReadBody(r); test.err == nil && (len(again) != 0 || err != nil) {
			t.Errorf("ReadBody again, %s: %d bytes, %v", test.name, len(again), err)
		}
	}
}

func TestOwnServicesAreMarked(t *testing.T) {
	t.Parallel()
	served := 0
	recorder := NewRecorder(10)
	transport := NewTransport(Recording(strictService(&served), recorder))
	for _, client := range []*http.Client{{Transport: transport}, {Transport: transport.Internal()}} {
		res, err := client.Get("http://x.invalid/things")
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
	}
	if list := recorder.Exchanges(); list[0].Internal || !list[1].Internal {
		t.Errorf("marked: %v, %v; want only the second", list[0].Internal, list[1].Internal)
	}
}
