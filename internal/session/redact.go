package session

import (
	"errors"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Redact removes secrets from a text, in case a server or a proxy quotes one, also as JSON, HTML or a part of a URL.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, mask)
		}
	}
	if !strings.ContainsAny(text, escapes) {
		return text
	}
	for _, secret := range secrets {
		text = maskEscaped(text, secret)
	}
	return text
}

// mask stands for a secret.
const mask = "***"

// Redacted removes the tokens that were sent from the text of an error, and from the body of
// the error answer in it.
func (o *Outcome) Redacted(err error) error {
	if err == nil {
		return nil
	}
	var answer gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &answer) {
		if body := Redact(string(answer.Body), o.Sent); body != string(answer.Body) {
			answer.Body = []byte(body)
			err = answer
		}
	}
	if text := Redact(err.Error(), o.Sent); text != err.Error() {
		return &redacted{text, err}
	}
	return err
}

// Locate makes a client of a service after the catalog of the provider. It asks the service for nothing: gophercloud's
// own functions ask it for its versions, and wait for the answer without end.
func Locate(provider *gophercloud.ProviderClient, kind string, endpoint gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error) {
	endpoint.ApplyDefaults(kind)
	endpoint.Version = 0
	url, err := provider.EndpointLocator(endpoint)
	if err != nil {
		return nil, err
	}
	return &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: url, Type: kind}, nil
}

// redacted is an error whose own text has a secret.
type redacted struct {
	text  string
	cause error
}

// Error implements error.
func (r *redacted) Error() string { return r.text }

// Unwrap returns the cause.
func (r *redacted) Unwrap() error { return r.cause }
