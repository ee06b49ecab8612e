package simcloud_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gocyborg/gocyborg/driver"
	"github.com/gocyborg/gocyborg/fakecyborg"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/simcloud"
)

// TestWhyABindFailedIsLogged, once for each request: Cyborg's API does not report it.
func TestWhyABindFailedIsLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var written bytes.Buffer
		logged := simcloud.WithLogger(slog.New(slog.NewTextHandler(&written, nil)))
		cloud := simcloud.Run(t, logged)
		must(t, cloud.Faults().Set(fault.Rule{Operation: fault.MdevCreate, Action: fault.Status, Times: 1}))
		provider := driver.ProviderUUID("cn0_0000:af:00.0") // has the vGPUs
		bind := func(instance string) string {
			arqs, err := cloud.Cyborg.CreateARQs("vgpu", "")
			must(t, err)
			_ = cloud.Cyborg.Bind(t.Context(), fakecyborg.Binding{ARQ: arqs[0].UUID, Host: "cn0", Provider: provider, Instance: instance})
			synctest.Wait()
			return arqs[0].UUID
		}
		failed, bound := bind("aaaaaaaa-0000-4000-8000-000000000001"), bind("aaaaaaaa-0000-4000-8000-000000000002")
		if text := written.String(); strings.Count(text, failed) != 1 || !strings.Contains(text, "host=cn0") || !strings.Contains(text, "mediated device") || strings.Contains(text, bound) {
			t.Errorf("logged for %s, not %s:\n%s", failed, bound, text)
		}
		written.Reset() // a state has failures of before
		again := simcloud.Run(t, logged)
		must(t, again.Load(dump(t, cloud)))
		synctest.Wait()
		if written.Len() > 0 {
			t.Errorf("logged again: %s", written.String())
		}
	})
}
