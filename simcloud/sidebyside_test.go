package simcloud_test

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// A build gives the same cloud whether the requests of its hosts run side by side or not.
func TestBuildIsTheSameOnOneProcessor(t *testing.T) {
	models := map[string]simcloud.Model{"default": {}, "scale": simcloud.ScaleModel(20, 3)}
	for name, m := range models {
		t.Run(name, func(t *testing.T) {
			onProcessors(t, func(t *testing.T) any {
				return string(dump(t, simcloud.Run(t, m)))
			})
		})
	}
}

// A first report gives the same devices and providers whether the requests of hosts run in
// parallel or not. This holds when Placement fails some of them: Cyborg and Placement agree about
// the failed ones.
func TestReportIsTheSameOnOneProcessor(t *testing.T) {
	for _, failures := range []uint32{0, 3, 10, 50} { // per cent of the requests
		t.Run(fmt.Sprint(failures), func(t *testing.T) {
			onProcessors(t, func(t *testing.T) any { return reportTo(t, failures) })
		})
	}
}

// onProcessors compares results on one processor and on several.
func onProcessors(t *testing.T, result func(t *testing.T) any) {
	t.Helper()
	var results []any
	for _, processors := range []int{1, 2, 4} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		synctest.Test(t, func(t *testing.T) { results = append(results, result(t)) })
	}
	for _, other := range results[1:] {
		if diff := cmp.Diff(results[0], other); diff != "" {
			t.Errorf("on several processors (-one +several):\n%s", diff)
		}
	}
}

func reportTo(t *testing.T, failures uint32) any {
	placement, err := placementsim.New(placementsim.Config{})
	must(t, err)
	defer placement.Close()
	failing := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash := fnv.New32a()
		fmt.Fprint(hash, r.Method, r.URL.Path)
		if r.Method == http.MethodPut && hash.Sum32()>>8%100 < failures {
			simhttp.WriteEmpty(w, http.StatusInternalServerError)
			return
		}
		placement.ServeHTTP(w, r)
	})
	cyborg, end := newCyborg(t, simcloud.ScaleModel(20, 3), placement, failing)
	defer end()
	reported := fmt.Sprint(cyborg.Report(t.Context()))
	deployables := cyborg.Deployables()
	providers := make(map[string]bool)
	for _, p := range placement.ResourceProviders() {
		providers[p.UUID] = p.Parent != ""
	}
	for _, d := range deployables {
		if !providers[d.ProviderUUID] {
			t.Errorf("deployable %s has no resource provider", d.UUID)
		}
		delete(providers, d.ProviderUUID)
	}
	for id, isDevice := range providers {
		if isDevice {
			t.Errorf("resource provider %s has no deployable", id)
		}
	}
	if all := 20 * 3; failures == 0 && len(deployables) != all || failures == 10 && (len(deployables) == 0 || len(deployables) == all) {
		t.Errorf("%d deployables of %d with %d per cent of failures", len(deployables), all, failures)
	}
	return []any{reported, cyborg.Devices(), deployables, cyborg.AttachHandles(), placement.ResourceProviders()}
}
