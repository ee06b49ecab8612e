package session_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gocyborg/gocyborg/internal/session"
)

func TestTransportTrustsTheAuthoritiesOfOSCACERT(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(empty, []byte("no certificate\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"": "", empty: empty + " has no certificate", empty + ".none": "no such file"} {
		t.Setenv("OS_CACERT", file)
		transport, err := session.Transport()
		switch {
		case want == "":
			if err != nil || transport != http.DefaultTransport {
				t.Errorf("without a file: %v, %v", transport, err)
			}
		case err == nil || !strings.Contains(err.Error(), "OS_CACERT: ") || !strings.Contains(err.Error(), want):
			t.Errorf("%s: got %v, want an error with %q", file, err, want)
		}
	}
}
