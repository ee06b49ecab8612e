package simhttp_test

import (
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/simhttp"
)

func TestURLsAreCheckedAndShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, shown string
		url, base   string // parts of the errors; "" for none
	}{
		{"http://host/compute/v2.1", "http://host/compute/v2.1", "", ""},
		{"https://[::1]:8774", "https://[::1]:8774", "", ""},
		{"http://host/a@b", "http://host/a@b", "", ""},
		{"http://host/x?token=hunter2", "http://host/x?***", "", "http://host/x?*** has a query"},
		{"http://host/x?", "http://host/x?***", "", "has a query"},
		{"http://host/x#hunter2", "http://host/x#***", "", "has a query or fragment"},
		{"http://bob:hunter2@host/x?token=hunter2", "***@host/x?***", "the URL of host has a user name or password", "the URL of host has a user name or password"},
		{"http://hunter2@host", "***@host", "the URL of host has", "the URL of host has"},
		{"http://bob:hunter2@x@host", "***@host", "the URL of host has", "the URL of host has"},
		{"http://bob:hunt er2@host", "***@host", `"***@host" is not an absolute`, "is not an absolute"},
		{"http://bob:hunter2/@host", "***@host", "is not an absolute", "is not an absolute"},
		{"http://bob:hunter2?@host", "***@host", "is not an absolute", "is not an absolute"},
		{"http://bob:%zzhunter2@host", "***@host", "is not an absolute", "is not an absolute"},
		{"http:bob:hunter2@host", "***@host", "is not an absolute", "is not an absolute"},
		{"bob:hunter2@host", "***@host", "is not an absolute", "is not an absolute"},
		{"ftp://bob:hunter2@host/x", "***@host/x", "is not an absolute", "is not an absolute"},
		{"nova", "nova", `"nova" is not an absolute http or https URL`, "is not an absolute"},
		{"", "", "is not an absolute", "is not an absolute"},
	} {
		if got := simhttp.ShownURL(tt.text); got != tt.shown {
			t.Errorf("%q is shown as %q, want %q", tt.text, got, tt.shown)
		}
		for want, err := range map[*string]error{&tt.url: simhttp.CheckURL(tt.text), &tt.base: simhttp.CheckBase(tt.text)} {
			if (err == nil) != (*want == "") || err != nil && (!strings.Contains(err.Error(), *want) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("%q: error %v, want %q", tt.text, err, *want)
			}
		}
	}
}
