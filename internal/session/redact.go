package session

import (
	"errors"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// Redact removes secrets from a text, in case a server or a proxy quotes one.
func Redact(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "***")
		}
	}
	return text
}

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

// Discover makes a client of a service with one of gophercloud's functions, which asks the service for
// its versions with the token of the provider. The error does not have the token.
func Discover(
	find func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error),
	provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts,
) (*gophercloud.ServiceClient, error) {
	sent := Outcome{Sent: []string{provider.Token()}}
	client, err := find(provider, endpoint)
	sent.Sent = append(sent.Sent, provider.Token()) // it may have been renewed
	return client, sent.Redacted(err)
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
