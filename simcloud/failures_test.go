package simcloud_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestWhyABindFailedIsLogged, once for each request: Cyborg's API does not report it.
func TestWhyABindFailedIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		cloud, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithLogger(slog.New(slog.NewTextHandler(&written, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer cloud.Close()
		if err := cloud.Faults().Set(fault.Rule{Operation: fault.MdevCreate, Action: fault.Status, Times: 1}); err != nil {
			t.Fatal(err)
		}
		var provider string
		for _, d := range cloud.Cyborg.Deployables() {
			if d.Hostname == "cn0" && d.ResourceClass() == "VGPU" {
				provider = d.ProviderUUID
			}
		}
		bind := func(instance string) string {
			arqs, err := cloud.Cyborg.CreateARQs("vgpu", "")
			if err != nil {
				t.Fatal(err)
			}
			_ = cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance})
			synctest.Wait()
			return arqs[0].UUID
		}
		failed, bound := bind("aaaaaaaa-0000-4000-8000-000000000001"), bind("aaaaaaaa-0000-4000-8000-000000000002")
		if text := written.String(); strings.Count(text, failed) != 1 || !strings.Contains(text, "host=cn0") || !strings.Contains(text, "mediated device") || strings.Contains(text, bound) {
			t.Errorf("logged for %s, not %s:\n%s", failed, bound, text)
		}
		written.Reset() // a state has failures of before
		state, err := cloud.Dump()
		if err != nil {
			t.Fatal(err)
		}
		again, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithLogger(slog.New(slog.NewTextHandler(&written, nil))))
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if err := again.Load(state); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if written.Len() > 0 {
			t.Errorf("logged again: %s", written.String())
		}
	})
}
