package keystone_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gocyborg/gocyborg/internal/keystone"
)

func TestServicesElsewhere(t *testing.T) {
	t.Parallel()
	for service, want := range map[string]string{
		"compute": "", "network": "", "load-balancer": "", "identity": "cannot be elsewhere", "placement": "cannot be elsewhere", "accelerator": "cannot be elsewhere", "": "cannot be elsewhere",
	} {
		err := keystone.Elsewhere{service: "http://nova.example:8774/v2.1"}.Check()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got error %v, want %q", service, err, want)
		}
	}
	for _, url := range []string{"", "nova.example", "ftp://nova.example", "http://", "http://%zz", "http://u:hunter2@nova.example", "http://nova.example?token=hunter2"} {
		if err := (keystone.Elsewhere{"compute": url}).Check(); err == nil || !strings.HasPrefix(err.Error(), "compute: ") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got error %v", url, err)
		}
	}
	own := []keystone.CatalogEntry{{Type: "compute", Name: "nova", Path: "/compute/v2.1"}, {Type: "image", Name: "glance", Path: "/image"}}
	got := keystone.Elsewhere{"compute": "http://n/v2.1/", "network": "http://q:9696", "dns": "http://d"}.Catalog(own)
	want := []keystone.CatalogEntry{
		{Type: "compute", Name: "nova", URL: "http://n/v2.1"}, own[1], {Type: "dns", Name: "dns", URL: "http://d"}, {Type: "network", Name: "neutron", URL: "http://q:9696"},
	}
	if diff := cmp.Diff(want, got); diff != "" || own[0].URL != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
}
