package control

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/internal/httpbounds"
	"github.com/gocyborg/gocyborg/internal/session"
	"github.com/gocyborg/gocyborg/simcloud"
)

// The users of a simulated cloud that the commands log in as, with the projects of their roles.
const (
	administrator  = "admin"
	novaUser       = "nova" // has the role service
	serviceProject = "service"
	domainName     = "Default"
)

// cyborg logs in to a cloud of cysim serve as Nova does, with a user's token and a service token. The
// model of the cloud has the passwords that differ from the default.
func (s Server) cyborg(ctx context.Context) (*cyborgclient.Client, simcloud.Model, error) {
	var model simcloud.Model
	if err := s.Show(ctx, "model", "model", &model); err != nil {
		return nil, model, err
	}
	user, err := s.logIn(ctx, model, administrator, administrator)
	if err != nil {
		return nil, model, err
	}
	service, err := s.logIn(ctx, model, novaUser, serviceProject)
	if err != nil {
		return nil, model, err
	}
	client, err := cyborgclient.New(user, cyborgclient.WithServiceProvider(service))
	return client, model, err
}

// logIn logs in as a user of the model.
func (s Server) logIn(ctx context.Context, model simcloud.Model, user, project string) (*gophercloud.ProviderClient, error) {
	password := simcloud.Password
	if at := slices.IndexFunc(model.Users, func(u simcloud.User) bool { return u.Name == user }); at >= 0 {
		password = cmp.Or(model.Users[at].Password, password)
	}
	transport, err := session.Transport(s.base())
	if err != nil {
		return nil, err
	}
	return config.NewProviderClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: s.base() + "/v3", Username: user, Password: password, TenantName: project, DomainName: domainName, AllowReauth: true,
	}, config.WithHTTPClient(httpbounds.Client(http.Client{Transport: transport, Timeout: answerTimeout}, httpbounds.AnswerLimit)))
}
