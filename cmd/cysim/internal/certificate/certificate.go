package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"time"
)

// Lifetime is how long an issued certificate is valid. Some clients refuse certificates that are
// valid for more than 398 days.
const Lifetime = 397 * 24 * time.Hour

// lead is how much earlier a certificate begins, for clients whose clocks are behind.
const lead = time.Hour

// Issue makes a certificate of a server for names and IP addresses, and a new authority that
// issued it, in PEM. The key of the authority is not kept: it can issue no other.
func Issue(now time.Time, names ...string) (server tls.Certificate, authority []byte, err error) {
	issuer := template("cysim, authority of one certificate", now)
	issuer.IsCA, issuer.BasicConstraintsValid, issuer.MaxPathLenZero = true, true, true
	issuer.KeyUsage = x509.KeyUsageCertSign
	issuerKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return server, nil, fmt.Errorf("make the key of an authority: %w", err)
	}
	issuerDER, err := x509.CreateCertificate(rand.Reader, issuer, issuer, issuerKey.Public(), issuerKey)
	if err != nil {
		return server, nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	if issuer, err = x509.ParseCertificate(issuerDER); err != nil { // it has the identifier of its key now
		return server, nil, fmt.Errorf("make the certificate of an authority: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return server, nil, fmt.Errorf("make the key of a server: %w", err)
	}
	leaf := template("cysim", now)
	leaf.KeyUsage, leaf.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf.BasicConstraintsValid = true
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else if name != "" {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, issuer, key.Public(), issuerKey)
	if err != nil {
		return server, nil, fmt.Errorf("make the certificate of a server for %q: %w", names, err)
	}
	server = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	server.Leaf, err = x509.ParseCertificate(der)
	return server, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuerDER}), err
}

// template has what both certificates need; x509 draws the serial number.
func template(name string, now time.Time) *x509.Certificate {
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-lead), NotAfter: now.Add(Lifetime)}
}
