package main

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

func TestOnlyLoopbackAddressesAreListenedOnUnasked(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address     string
		allowRemote bool
		wantErr     bool
	}{
		{"127.0.0.1:0", false, false},
		{"127.1.2.3:0", false, false},
		{"localhost:0", false, false},
		{"0.0.0.0:0", false, true},
		{"0.0.0.0:0", true, false},
		{":0", false, true},
		{":0", true, false},
		{"localhost.example.org:0", false, true},
		{"127.0.0.1", false, true},
		{"127.0.0.1:http-ish", false, true},
	}
	for _, tt := range tests {
		t.Run(tt.address, func(t *testing.T) {
			t.Parallel()
			listener, err := listenFlags{Listen: tt.address, AllowRemote: tt.allowRemote}.open(t.Context())
			if (err != nil) != tt.wantErr {
				t.Fatalf("got error %v, want one: %v", err, tt.wantErr)
			}
			if err != nil {
				return
			}
			defer listener.Close()
			if base := baseURL(listener); !strings.HasPrefix(base, "http://127.") && !strings.HasPrefix(base, "http://[::1]:") {
				t.Errorf("base URL %s is not reachable from this machine", base)
			}
		})
	}
}

func TestARequestUnderWayIsFinishedAfterTheSignal(t *testing.T) {
	t.Parallel()
	listener, err := listenFlags{Listen: "127.0.0.1:0"}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, signal := context.WithCancel(t.Context())
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		signal()
		w.WriteHeader(http.StatusAccepted)
	})
	ended := make(chan error, 1)
	go func() { ended <- serveHTTP(ctx, listener, handler, slog.New(slog.DiscardHandler)) }()
	if status, _ := get(t, baseURL(listener), ""); status != http.StatusAccepted {
		t.Errorf("status: got %d, want 202", status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
