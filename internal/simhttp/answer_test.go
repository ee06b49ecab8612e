package simhttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// An answer keeps its body until it is closed, even while other requests are answered.
func TestAnAnswerKeepsItsBodyUntilItIsClosed(t *testing.T) {
	t.Parallel()
	client := &http.Client{Transport: NewTransport(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat(r.URL.Path, 100))
	}))}
	get := func(path string) *http.Response {
		res, err := client.Get("http://x.invalid" + path)
		if err != nil {
			t.Error(err)
			return &http.Response{Body: http.NoBody}
		}
		return res
	}
	closed := get("/closed")
	if err := errors.Join(closed.Body.Close(), closed.Body.Close()); err != nil {
		t.Error(err)
	}
	var readers sync.WaitGroup
	for _, path := range []string{"/a", "/b", "/c", "/d"} {
		readers.Go(func() {
			for range 50 {
				res := get(path)
				other := get(path + path)
				if data, err := io.ReadAll(res.Body); string(data) != strings.Repeat(path, 100) || err != nil {
					t.Errorf("%s: %q, %v", path, data, err)
				}
				_ = res.Body.Close()
				_ = other.Body.Close()
			}
		})
	}
	readers.Wait()
	if n, err := closed.Body.Read(make([]byte, 10)); n != 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Errorf("a closed body: %d bytes, %v", n, err)
	}
}
