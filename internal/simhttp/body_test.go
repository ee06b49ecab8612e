package simhttp

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
)

// Readers of the body get what was sent, even if a part was read ahead.
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
		got, err := io.ReadAll(buffered(test.body).Body)
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
		r := buffered(test.body)
		got, err := ReadBody(r)
		if string(got) != test.want || !errors.Is(err, test.err) {
			t.Errorf("ReadBody, %s: %d bytes, %v; want %d, %v", test.name, len(got), err, len(test.want), test.err)
		}
		if again, err := ReadBody(r); test.err == nil && (len(again) != 0 || err != nil) {
			t.Errorf("ReadBody again, %s: %d bytes, %v", test.name, len(again), err)
		}
	}
}

// buffered is a request whose body was read ahead.
func buffered(body io.Reader) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", body)
	bufferBody(r, Match{Route: &Route{}})
	return r
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
