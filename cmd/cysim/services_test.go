package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// Keystone, or a proxy before it, may quote the token that it is asked about.
func TestTheLogHasNoTokenOfACaller(t *testing.T) {
	t.Parallel()
	const token = "gAAAAABnUnjzQ0_tokenOfACaller"
	keystone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "cannot route "+r.Header.Get("X-Subject-Token"), http.StatusBadGateway)
	}))
	t.Cleanup(keystone.Close)
	var log bytes.Buffer
	v := &tokenVerifier{
		identity: &gophercloud.ServiceClient{ProviderClient: new(gophercloud.ProviderClient), Endpoint: keystone.URL + "/v3/"},
		log:      slog.New(slog.NewTextHandler(&log, nil)),
	}
	if _, err := v.Identify(token); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("got error %v", err)
	}
	if text := log.String(); !strings.Contains(text, "cannot route") || strings.Contains(text, token) {
		t.Errorf("log: %s", text)
	}
}
