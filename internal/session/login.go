package session

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/gocyborg/gocyborg/internal/httpbounds"
)

// Cloud is how to reach a cloud.
type Cloud struct {
	Endpoint gophercloud.EndpointOpts // region and interface

	auth    gophercloud.AuthOptions
	tls     *tls.Config
	adapter Adapter
}

// ReadCloud reads a cloud of clouds.yaml. An empty name means OS_CLOUD or, without it,
// the variables OS_AUTH_URL, OS_USERNAME and so on.
func ReadCloud(name string) (Cloud, error) {
	name = cmp.Or(name, os.Getenv("OS_CLOUD"))
	switch {
	case name != "":
	case os.Getenv("OS_AUTH_URL") != "":
		return environment()
	default:
		return Cloud{}, errNoCloud
	}
	return cloudFromFiles(name)
}

// errNoCloud: nothing names a cloud.
var errNoCloud = errors.New("no cloud is named: OS_CLOUD and OS_AUTH_URL are not set")

// errNoAuth: neither clouds.yaml nor secure.yaml has the data to log in.
var errNoAuth = errors.New("the cloud has no auth section")

// parse reads a cloud. gophercloud takes for granted that it has an auth section, and
// panics without one.
func parse(opts ...clouds.ParseOption) (cloud Cloud, err error) {
	defer func() {
		if recover() != nil {
			cloud, err = Cloud{}, errNoAuth
		}
	}()
	cloud.auth, cloud.Endpoint, cloud.tls, err = clouds.Parse(opts...)
	return cloud, err
}

// olderVariables are variables whose names differ from the fields of clouds.yaml.
var olderVariables = map[string]string{"userid": "user_id", "tenant_id": "project_id", "tenant_name": "project_name"}

// environment reads the variables of a cloud, which are named after the fields of clouds.yaml.
func environment() (Cloud, error) {
	fields := make(map[string]string)
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		field, ok := strings.CutPrefix(name, "OS_")
		if field = strings.ToLower(field); ok && value != "" {
			fields[field] = value
		}
	}
	for older, field := range olderVariables {
		fields[field] = cmp.Or(fields[field], fields[older])
	}
	for _, domain := range []string{"domain", "user_domain", "project_domain"} {
		if fields[domain+"_id"] != "" {
			delete(fields, domain+"_name") // Keystone takes one of the two
		}
	}
	delete(fields, "token")                                        // it cannot be renewed
	availability := strings.TrimSuffix(fields["interface"], "URL") // internalURL is an older form
	cloud, err := fromFields(map[string]any{"auth": fields}, clouds.WithEndpointType(availability))
	if err != nil {
		return Cloud{}, fmt.Errorf("read the cloud of OS_AUTH_URL: %w", err)
	}
	cloud.auth.Passcode = fields["passcode"]
	return cloud, nil
}

// fromFields reads a cloud that has the fields of one in clouds.yaml.
func fromFields(cloud map[string]any, opts ...clouds.ParseOption) (Cloud, error) {
	const name = "envvars"                                                               // as openstacksdk calls it
	document, err := json.Marshal(map[string]any{"clouds": map[string]any{name: cloud}}) // which is YAML, too
	if err != nil {
		return Cloud{}, err
	}
	return parse(append([]clouds.ParseOption{clouds.WithCloudName(name), clouds.WithCloudsYAML(bytes.NewReader(document))}, opts...)...)
}

// ErrUnauthorized: Keystone does not accept the password, the application credential or the token of a login.
var ErrUnauthorized = errors.New("not authenticated")

// refusal returns an error of a login, which matches ErrUnauthorized if Keystone refused it: 401, or 404 for an application
// credential or a token that it does not know. The 404 of an ingress does not say so.
func refusal(err error) error {
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) && (answer.Actual == http.StatusUnauthorized || answer.Actual == http.StatusNotFound) && isKeystones(answer.Body) {
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	return err
}

// isKeystones reports an error answer of Keystone.
func isKeystones(body []byte) bool {
	var answer struct {
		Error *struct{} `json:"error"`
	}
	return json.Unmarshal(body, &answer) == nil && answer.Error != nil
}

// LogIn logs in. A refusal by Keystone matches ErrUnauthorized. The provider logs in again when its token expires, reads bounded
// answers, and follows no redirect to another server, which would carry the password
// there. Prepare, unless nil, may change the HTTP client before. No error has the password, or the token
// of a login by token, also if Keystone or a proxy quotes it.
func (c Cloud) LogIn(ctx context.Context, prepare func(*http.Client)) (*gophercloud.ProviderClient, error) {
	client := http.Client{Transport: transport(c.tls)}
	if prepare != nil {
		prepare(&client)
	}
	auth := c.auth
	auth.AllowReauth = true
	switch at, err := url.Parse(auth.IdentityEndpoint); { // errors name it
	case err != nil:
		return nil, errors.New("log in: the URL of Keystone is not valid")
	case at.User != nil:
		return nil, fmt.Errorf("log in at %s: the URL of Keystone has a user name or password", at.Host)
	}
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(httpbounds.Client(client, httpbounds.AnswerLimit)))
	sent := Outcome{Sent: []string{auth.Password, auth.Passcode, auth.TokenID, auth.ApplicationCredentialSecret}}
	if err != nil {
		return nil, fmt.Errorf("log in at %s: %w", auth.IdentityEndpoint, refusal(sent.Redacted(err)))
	}
	provider.EndpointLocator = c.adapter.locator(provider.EndpointLocator)
	again := provider.ReauthFunc
	provider.ReauthFunc = func(ctx context.Context) error { return sent.Redacted(again(ctx)) }
	return provider, nil
}

// Transport is the transport of a client of the server at a URL that logs in to no cloud. As OpenStack's own, it trusts the
// authorities of the file OS_CACERT instead of the system's, and reads it for no server without TLS.
func Transport(url string) (http.RoundTripper, error) {
	name := os.Getenv("OS_CACERT")
	if name == "" || strings.HasPrefix(strings.ToLower(url), "http:") {
		return transport(nil), nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("OS_CACERT: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("OS_CACERT: %s has no certificate in PEM", name)
	}
	return transport(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), nil
}

// connections is the number of idle connections kept for a server. The standard transport keeps
// 2, so that most concurrent calls had to open a new one.
const connections = 64

// transport returns a transport for a TLS configuration, nil for the system's.
func transport(config *tls.Config) http.RoundTripper {
	own := &http.Transport{Proxy: http.ProxyFromEnvironment}
	if standard, ok := http.DefaultTransport.(*http.Transport); ok {
		own = standard.Clone()
	}
	own.TLSClientConfig, own.MaxIdleConnsPerHost = config, connections
	return own
}
