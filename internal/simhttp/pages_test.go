package simhttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gocyborg/gocyborg/sim"
)

// TestPagesAreTheRecord reads the record in pages of any length while requests end in any
// order, and compares what the pages have with the whole.
func TestPagesAreTheRecord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		recorder := NewRecorder(rapid.IntRange(1, 12).Draw(t, "kept"))
		ended := []uint64{}
		for range rapid.IntRange(0, 30).Draw(t, "requests") {
			first, second := recorder.begin(), recorder.begin()
			for _, n := range []uint64{second, first} {
				recorder.add(n, sim.Exchange{RequestID: fmt.Sprint(n)}, nil, nil)
				ended = append(ended, n)
			}
		}
		want := []sim.Exchange{}
		for _, n := range slices.Sorted(slices.Values(ended[max(0, len(ended)-recorder.limit):])) {
			want = append(want, sim.Exchange{RequestID: fmt.Sprint(n)})
		}
		handler := Control{Recorder: recorder}.Handler()
		got := []sim.Exchange{}
		limit := rapid.IntRange(1, 13).Draw(t, "limit")
		for path, pages := fmt.Sprint("/_sim/requests?limit=", limit), 0; path != ""; pages++ {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			var page struct {
				Requests []sim.Exchange
				Older    uint64
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || page.Requests == nil || len(page.Requests) > limit || pages > len(want) {
				t.Fatalf("page %d, %s: error %v, %s", pages, path, err, w.Body)
			}
			got = slices.Concat(page.Requests, got)
			path = ""
			if page.Older > 0 {
				path = fmt.Sprintf("/_sim/requests?limit=%d&before=%d", limit, page.Older)
				if len(recorder.Exchanges()) < recorder.limit {
					recorder.add(recorder.begin(), sim.Exchange{}, nil, nil) // is in no page before
				}
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the pages together (-want +got):\n%s", diff)
		}
	})
}

func TestABadPageIsRefused(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"limit=0", "limit=x", "limit=", "before=-1", "before=x"} {
		w := httptest.NewRecorder()
		Control{Recorder: NewRecorder(1)}.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/_sim/requests?"+query, nil))
		if w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
