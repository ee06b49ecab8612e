package certificate_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/certificate"
)

func TestACertificateIsValidForItsNamesAlone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	server, authority, err := certificate.Issue(now, "localhost", "127.0.0.1", "::1", "localhost", "")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		t.Fatalf("the authority is not PEM:\n%s", authority)
	}
	tests := []struct {
		name  string
		at    time.Time
		valid bool
	}{
		{"localhost", now, true},
		{"127.0.0.1", now, true},
		{"::1", now.Add(certificate.Lifetime), true},
		{"localhost", now.Add(-time.Minute), true},
		{"localhost", now.Add(-2 * time.Hour), false},
		{"localhost", now.Add(certificate.Lifetime + time.Second), false},
		{"127.0.0.2", now, false},
		{"sim.example", now, false},
	}
	for _, tt := range tests {
		_, err := server.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: tt.at, DNSName: tt.name})
		if (err == nil) != tt.valid {
			t.Errorf("%s at %v: got %v, want valid: %t", tt.name, tt.at, err, tt.valid)
		}
	}
	if server.Leaf.IsCA {
		t.Error("the certificate of the server may issue others")
	}
}

func TestEachAuthorityIsNew(t *testing.T) {
	t.Parallel()
	_, first, err := certificate.Issue(time.Now(), "localhost")
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := certificate.Issue(time.Now(), "localhost")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(first)
	if _, err := second.Leaf.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("the authority of one server vouches for another")
	}
}
