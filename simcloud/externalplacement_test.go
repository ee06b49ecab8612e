package simcloud_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gocyborg/gocyborg/placementsim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// outsidePlacement is a Placement on a socket of its own, with the headers that it
// has received.
func outsidePlacement(t *testing.T) (server *placementsim.Server, url string, headers func() []http.Header) {
	t.Helper()
	server, err := placementsim.New(placementsim.Config{})
	must(t, err)
	var mu sync.Mutex // the providers of two hosts are written side by side
	var seen []http.Header
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Header.Clone())
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(listener.Close)
	return server, listener.URL + "/", func() []http.Header {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(seen)
	}
}

func TestACloudWithAnExternalPlacement(t *testing.T) {
	t.Parallel()
	server, external, seen := outsidePlacement(t)
	cloud, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithExternalPlacement(external, "admin"))
	must(t, err)
	inside := simcloud.Run(t)
	if got, want := len(server.ResourceProviders()), len(inside.Placement.ResourceProviders()); got != want || len(cloud.Placement.ResourceProviders()) > 0 {
		t.Errorf("%d providers outside, want the %d of a cloud of this model", got, want)
	}
	for _, header := range seen() {
		if got := header.Get("X-Auth-Token"); got != "admin" {
			t.Fatalf("a request came with the token %q", got)
		}
	}
	cloud.CheckNoLeaks(t)
	for path, want := range map[string]string{
		"/_sim/?part=hosts": "<h3>cn0</h3>", "/_sim/?part=hosts&hosts=" + cloud.ProviderUUID("cn1"): "<h3>cn1</h3>", "/_sim/?part=hosts&hosts=none": "no such hosts",
	} {
		if status, text := ask(t, cloud, "GET", path, ""); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s lacks %q: %d %s", path, want, status, text)
		}
	}
	const consumer = "2f7d3a52-6a0e-4d0b-9f0c-1f6a53c2b001"
	claim := placementsim.Claim{Consumer: consumer, Project: "p", User: "u", Allocations: []placementsim.Allocation{{
		Consumer: consumer, Provider: cloud.ProviderUUID("cn0"), Class: "VCPU", Used: 1,
	}}}
	must(t, server.Claim(claim))
	if leaks := cloud.Leaks(); len(leaks) != 1 || leaks[0].Kind != simcloud.LeakAllocation || leaks[0].Subject != consumer || !strings.Contains(leaks[0].Text, "on cn0") {
		t.Errorf("leaks: %+v", leaks)
	}
	if err := cloud.Close(); err == nil || !strings.Contains(err.Error(), "remove provider cn0") {
		t.Errorf("closing while cn0 is in use: got error %v", err)
	}
	must(t, server.Release(consumer))
	if err := cloud.Close(); err != nil {
		t.Error(err)
	}
	if left := server.ResourceProviders(); len(left) > 0 {
		t.Errorf("after the end: %v", left)
	}
}

func TestAnExternalPlacementRequiresAToken(t *testing.T) {
	t.Parallel()
	_, external, seen := outsidePlacement(t)
	cloud := simcloud.Run(t, simcloud.WithExternalPlacement(external, "admin"))
	before := len(seen())
	for _, token := range []string{"", "admin", "x"} {
		u := &user{t: t, cloud: cloud, token: token}
		if got := u.send("GET", "/placement/resource_providers", "", ""); got.status != http.StatusUnauthorized {
			t.Errorf("with token %q: %d, want 401", token, got.status)
		}
	}
	if len(seen()) != before {
		t.Error("a request without a valid token was forwarded")
	}
}

func TestNewRefusesABadExternalPlacement(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "127.0.0.1:8778", "ftp://x", "http://", "::", "http://u:secret@x", "http://x?token=secret"} {
		_, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithExternalPlacement(bad, "secret"))
		if !errors.Is(err, simcloud.ErrModel) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got error %v, want ErrModel without the token", bad, err)
		}
	}
	server, external, _ := outsidePlacement(t)
	first, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithExternalPlacement(external, "admin"))
	must(t, err)
	had := len(server.ResourceProviders())
	if _, err := simcloud.New(t.Context(), simcloud.DefaultModel(), simcloud.WithExternalPlacement(external, "admin")); err == nil || !strings.Contains(err.Error(), "host cn0") {
		t.Errorf("a second cloud of the same names: got error %v", err)
	}
	if got := len(server.ResourceProviders()); got != had {
		t.Errorf("the second cloud left %d providers of %d", got, had)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}
