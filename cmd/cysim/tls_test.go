package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/certificate"
)

// writePair writes a certificate for names and its key, and returns the authority's file, too.
func writePair(t *testing.T, names ...string) (certFile, keyFile, caFile string) {
	t.Helper()
	pair, authority, err := certificate.Issue(time.Now(), names...)
	must(t, err)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	must(t, err)
	return writeFile(t, "cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))),
		writeFile(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))), writeFile(t, "ca.pem", string(authority))
}

// All of cysim's own clients reach a cloud over TLS by what serve wrote and printed.
func TestServeWithACertificateOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	served := start(t, "serve", "--tls-self-signed", "--clouds-yaml", file)
	ca := filepath.Join(filepath.Dir(file), "clouds-ca.pem")
	base := served.env["CYSIM_URL"]
	if served.env["OS_CACERT"] != ca || !strings.HasPrefix(base, "https://127.0.0.1:") || served.env["OS_CLIENT_CONFIG_FILE"] != file {
		t.Fatalf("variables: %v, want the authority in %s", served.env, ca)
	}
	login(t, file, "sim")

	// The cloud is reached in no other way: neither without TLS, nor without the authority.
	if status, _ := get(t, strings.Replace(base, "https", "http", 1)+"/_sim/health", ""); status != http.StatusBadRequest {
		t.Errorf("without TLS: got %d, want 400", status)
	}
	if status, _, stderr := cysim(t, "check", base); status != 1 || !strings.Contains(stderr, "certificate") {
		t.Errorf("check without the authority: %d, %s", status, stderr)
	}
	t.Setenv("OS_CACERT", ca)
	if status, stdout, stderr := cysim(t, "check", base); status != 0 || stdout != "nothing leaked\n" {
		t.Errorf("check: %d, %s%s", status, stdout, stderr)
	}
	t.Setenv("OS_CACERT", "")

	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	if status, _, stderr := cysim(t, "load", "--spawns", "3", "--concurrency", "2", "--cloud", "sim", "--service-cloud", "sim-svc", "--profile", "vgpu"); status != 0 {
		t.Errorf("load: %d, %s", status, stderr)
	}
	state := filepath.Join(t.TempDir(), "state")
	if status, _, stderr := cysim(t, "import", "--cloud", "sim", "--to", state); status != 0 {
		t.Errorf("import: %d, %s", status, stderr)
	}
	cyborg := start(t, "cyborg", "--cloud", "sim", "--auth", "keystone", "--tls-self-signed")
	if url := cyborg.env["CYSIM_ACCELERATOR_URL"]; !strings.HasPrefix(url, "https://") {
		t.Errorf("cysim cyborg is at %s", url)
	}
	if other := cyborg.env["OS_CACERT"]; other == ca || other == "" {
		t.Errorf("the authority of cysim cyborg is in %q", other)
	}
	if status := cyborg.stop(); status != 0 {
		t.Errorf("cysim cyborg ended with %d: %s", status, cyborg.stderr)
	}
	if _, err := os.Stat(cyborg.env["OS_CACERT"]); !os.IsNotExist(err) {
		t.Errorf("the temporary authority is still there: %v", err)
	}
}

// The links and the catalog of a cloud have the scheme by which it was asked.
func TestTheCatalogOfACloudWithTLSIsHTTPS(t *testing.T) {
	t.Parallel()
	certFile, keyFile, caFile := writePair(t, "sim.example", "localhost")
	served := start(t, "serve", "--tls-cert", certFile, "--tls-key", keyFile)
	base := served.env["CYSIM_URL"]
	if !strings.HasPrefix(base, "https://localhost:") {
		t.Fatalf("URL of a cloud whose certificate is not valid for its address: %s", base)
	}
	if _, ok := served.env["OS_CACERT"]; ok {
		t.Error("the authority of a given certificate is named, but it is unknown")
	}
	roots := x509.NewCertPool()
	data, err := os.ReadFile(caFile)
	if err != nil || !roots.AppendCertsFromPEM(data) {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots}}}
	const credentials = `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"admin","domain":{"id":"default"},"password":"secret"}}},
		"scope":{"project":{"name":"admin","domain":{"id":"default"}}}}}`
	answer, err := client.Post(base+"/v3/auth/tokens", "application/json", strings.NewReader(credentials))
	must(t, err)
	defer answer.Body.Close()
	var body struct {
		Token struct {
			Catalog []struct {
				Type      string
				Endpoints []struct{ URL string }
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil || len(body.Token.Catalog) != 5 {
		t.Fatalf("catalog: %v, %+v", err, body)
	}
	for _, service := range body.Token.Catalog {
		for _, endpoint := range service.Endpoints {
			if !strings.HasPrefix(endpoint.URL, base+"/") {
				t.Errorf("%s is at %s, want %s", service.Type, endpoint.URL, base)
			}
		}
	}
	if answer.ProtoMajor != 1 {
		t.Errorf("%s: a fault of a connection would not be the same", answer.Proto)
	}
	// A name of the certificate is the server's own, others are not.
	for host, want := range map[string]int{"sim.example": http.StatusOK, "evil.example": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/_sim/health", nil)
		must(t, err)
		request.Host = host
		answer, err := client.Do(request)
		must(t, err)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: got %d, want %d", host, answer.StatusCode, want)
		}
	}
}

func TestBadCertificatesAreRefusedBeforeTheCloudIsBuilt(t *testing.T) {
	t.Parallel()
	certFile, keyFile, _ := writePair(t, "localhost")
	_, otherKey, _ := writePair(t, "localhost")
	foreign := writeFile(t, "clouds-ca.pem", "-----BEGIN CERTIFICATE-----\n")
	tests := []struct{ args, want string }{
		{"--tls-cert " + certFile, "--tls-cert and --tls-key need each other"},
		{"--tls-key " + keyFile, "--tls-cert and --tls-key need each other"},
		{"--tls-self-signed --tls-key " + keyFile, "--tls-self-signed excludes --tls-cert and --tls-key"},
		{"--tls-cert " + certFile + " --tls-key " + otherKey, "--tls-cert: tls: private key does not match public key"},
		{"--tls-cert " + certFile + ".none --tls-key " + keyFile, "no such file"},
		{"--tls-self-signed --clouds-yaml " + filepath.Join(filepath.Dir(foreign), "clouds.yaml"), foreign + ": the file there was not written by cysim"},
	}
	for _, command := range []string{"serve", "placement", "cyborg --placement-url https://127.0.0.1:1"} {
		for _, tt := range tests {
			if strings.Contains(tt.args, "--clouds-yaml") && command != "serve" {
				continue
			}
			status, stdout, stderr := cysim(t, strings.Fields(command+" "+tt.args)...)
			if status != 2 || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("%s %s: got status %d, %s%s; want %s", command, tt.args, status, stdout, stderr, tt.want)
			}
		}
	}
}

func TestACertificateForOthersHasTheNamesOfThisMachine(t *testing.T) {
	t.Parallel()
	id, err := listenFlags{Listen: "0.0.0.0:0", tlsFlags: tlsFlags{TLSSelfSigned: true}}.identity("")
	must(t, err)
	name, err := os.Hostname()
	must(t, err)
	for _, host := range []string{"localhost", "127.0.0.1", "::1", name} {
		if !id.covers(host) {
			t.Errorf("the certificate is not valid for %s", host)
		}
	}
	if id.covers("sim.example") {
		t.Error("the certificate is valid for a name that is not this machine's")
	}
}
