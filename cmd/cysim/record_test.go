package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestServeStrictRequests(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "model.json", `{"strict_requests": true}`)
	for _, tt := range []struct {
		name   string
		flags  []string
		status int
	}{
		{"by default not", nil, http.StatusOK},
		{"by flag", []string{"--strict-requests"}, http.StatusBadRequest},
		{"by model", []string{"--model", file}, http.StatusBadRequest},
		{"flag over model", []string{"--model", file, "--strict-requests=false"}, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, append([]string{"serve"}, tt.flags...)...)
			url := c.env["CYSIM_URL"]
			status, body := get(t, url+"/identity/v3?colour=red", "")
			if status != tt.status || (status == http.StatusBadRequest) != strings.Contains(body, "query colour") {
				t.Errorf("got %d %s, want %d", status, body, tt.status)
			}
			if status, body := get(t, url+"/_sim/unrecognized", ""); status != http.StatusOK || !strings.Contains(body, `"operation":"identity.version.get","what":"query colour"`) {
				t.Errorf("/_sim/unrecognized: %d %s", status, body)
			}
		})
	}
}
