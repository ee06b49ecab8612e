package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/certificate"
	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// tlsFlags select the certificate of a server.
type tlsFlags struct {
	TLSCert       string `name:"tls-cert" placeholder:"FILE" help:"Serve HTTPS with the certificate chain of this PEM file, the server certificate first. Needs --tls-key."`
	TLSKey        string `name:"tls-key" placeholder:"FILE" help:"PEM file with the key of --tls-cert."`
	TLSSelfSigned bool   `name:"tls-self-signed" help:"Serve HTTPS with a new certificate for the names and addresses of this machine. OS_CACERT and --clouds-yaml name the file of its CA certificate."`
}

// identity is the certificate of a server. nil means plain HTTP.
type identity struct {
	certificate tls.Certificate
	authority   []byte // to be written, in PEM; nil: clients know it
	file        string // with the authority
	temporary   bool   // the file
}

// identity reads or makes the certificate. The authority of a new certificate will be written to
// a file next to clouds.yaml, or to a temporary file without clouds.yaml.
func (f listenFlags) identity(clouds string) (*identity, error) {
	switch {
	case f.TLSSelfSigned && (f.TLSCert != "" || f.TLSKey != ""):
		return nil, command.BadInput(errors.New("--tls-self-signed excludes --tls-cert and --tls-key"))
	case (f.TLSCert == "") != (f.TLSKey == ""):
		return nil, command.BadInput(errors.New("--tls-cert and --tls-key need each other"))
	case f.TLSCert != "":
		pair, err := tls.LoadX509KeyPair(f.TLSCert, f.TLSKey)
		if err != nil {
			return nil, command.BadInput(fmt.Errorf("--tls-cert: %w", err))
		}
		return &identity{certificate: pair}, nil
	case !f.TLSSelfSigned:
		return nil, nil
	}
	pair, authority, err := certificate.Issue(time.Now(), f.names()...)
	if err != nil {
		return nil, fmt.Errorf("--tls-self-signed: %w", err)
	}
	id := &identity{certificate: pair, authority: append([]byte(cloudsMark+", which alone it vouches for.\n"), authority...)}
	if clouds == "" {
		return id, nil
	}
	if id.file, err = filepath.Abs(strings.TrimSuffix(clouds, filepath.Ext(clouds)) + "-ca.pem"); err != nil {
		return nil, command.BadInput(fmt.Errorf("--clouds-yaml: %w", err))
	}
	return id, checkOwnFile("tls-self-signed", id.file)
}

// names returns the names of a certificate: all names of this machine if other machines can reach
// it, else only its local names.
func (f listenFlags) names() []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil || isLoopback(host) {
		return append(names, host)
	}
	names = append(names, host)
	if name, err := os.Hostname(); err == nil && isPlain(name) {
		names = append(names, name)
	}
	addresses, _ := net.InterfaceAddrs() // without them there are still the names
	for _, address := range addresses {
		if network, ok := address.(*net.IPNet); ok {
			names = append(names, network.IP.String())
		}
	}
	return names
}

// isPlain reports whether a name is allowed in a certificate.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(char rune) bool { return char <= ' ' || char > '~' })
}

// write writes the authority.
func (id *identity) write() error {
	if id == nil || id.authority == nil {
		return nil
	}
	if id.file != "" {
		if err := checkOwnFile("tls-self-signed", id.file); err != nil { // it may have become the file of --state
			return err
		}
		return command.WriteFile("--tls-self-signed", id.file, id.authority)
	}
	file, err := os.CreateTemp("", "cysim-*-ca.pem")
	if err != nil {
		return fmt.Errorf("--tls-self-signed: %w", err)
	}
	id.file, id.temporary = file.Name(), true
	_, err = file.Write(id.authority)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--tls-self-signed: %w", err)
	}
	return nil
}

// remove removes a temporary file.
func (id *identity) remove() {
	if id != nil && id.temporary {
		_ = os.Remove(id.file) // a cleaner of temporary files may have been faster
	}
}

// caFile is the file with the authority, "" where clients know it.
func (id *identity) caFile() string {
	if id == nil {
		return ""
	}
	return id.file
}

// covers reports whether the certificate is valid for a host. A page that another site's name server
// sends here is not loaded for a name that it is not valid for.
func (id *identity) covers(host string) bool {
	leaf := id.leaf()
	return leaf != nil && leaf.VerifyHostname(host) == nil
}

func (id *identity) leaf() *x509.Certificate {
	if id == nil {
		return nil
	}
	return id.certificate.Leaf
}

// name is a host by which clients on this machine reach a server: the one given, unless the
// certificate is for others only.
func (id *identity) name(host string) string {
	leaf := id.leaf()
	if leaf == nil || id.covers(host) {
		return host
	}
	for _, name := range append([]string{"localhost"}, leaf.DNSNames...) {
		if !strings.HasPrefix(name, "*") && id.covers(name) {
			return name
		}
	}
	return host
}

// config is the TLS configuration of the server.
func (id *identity) config() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{id.certificate}, MinVersion: tls.VersionTLS12}
}
