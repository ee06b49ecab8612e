package spawn

import (
	"context"
	"fmt"
	"io"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/gocyborg/gocyborg/internal/osloconf"
	"github.com/gocyborg/gocyborg/internal/session"
)

// NewFromNovaConf returns a flow with the users and the endpoints from a nova.conf:
//
//   - the user in section placement calls Placement;
//   - the user in service_user is the flow's own user for Cyborg, for calls outside of a user's request. If
//     that section has no user, Placement's is used. Requests of a user are made with [Flow.As];
//   - with send_service_user_token = true in service_user its token is sent as X-Service-Token, as in Nova.
//     Cyborg of 2026 and later requires it for a bind;
//   - region_name, valid_interfaces (internal, then public by default) and endpoint_override are read from
//     the sections cyborg and placement.
//
// The keystoneauth plugins password and v3applicationcredential are supported; auth_section names the section with
// the user's options. TLS options in cyborg override those in service_user. The options that [Config.ReadNovaConf]
// reads are set, too. The error for an invalid file names the option and matches ErrConfig; docs/compat.md has an
// example of the file.
//
// Since Cyborg 14.1 only an administrator sees the ARQs of all projects: to reconcile, the flow's own user needs the
// role admin.
func NewFromNovaConf(ctx context.Context, conf io.Reader, opts ...Option) (*Flow, error) {
	f := newFlow(opts)
	if f.cloud != (cloudOpts{}) {
		return nil, fmt.Errorf("%w: nova.conf has the options of a cloud already", ErrConfig)
	}
	file, err := readConf(conf)
	if err != nil {
		return nil, err
	}
	if err := f.config.readNovaConf(file); err != nil {
		return nil, err
	}
	sends, err := file.Flag("service_user", "send_service_user_token")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	own := "service_user"
	if !sends && !isSet(file, own, "auth_type") && !isSet(file, own, "auth_section") {
		own = "placement"
	}
	cyborg, err := logInSection(ctx, file, own, "cyborg", "accelerator")
	if err != nil {
		return nil, err
	}
	if f.cloud.placement, err = logInSection(ctx, file, "placement", "placement", "placement"); err != nil {
		return nil, err
	}
	if sends {
		f.cloud.service = cyborg
	}
	return f.connect(cyborg)
}

func isSet(file osloconf.File, section, option string) bool {
	_, set := file.Last(section, option)
	return set
}

// logInSection logs in with the user of a section. The section adapter says where to find the service.
func logInSection(ctx context.Context, file osloconf.File, section, adapter, service string) (*gophercloud.ProviderClient, error) {
	where := session.Adapter{Service: service, Interfaces: file.List(adapter, "valid_interfaces")}
	where.Override, _ = file.Last(adapter, "endpoint_override")
	where.Region, _ = file.Last(adapter, "region_name")
	if len(where.Interfaces) == 0 {
		where.Interfaces = []string{"internal", "public"}
	}
	options := func(section string) session.Section {
		return func(option string) (string, bool) { return file.Last(section, option) }
	}
	tls := []session.Section{options(adapter), options(section)}
	if other, set := file.Last(section, "auth_section"); set {
		section = other
	}
	cloud, err := session.FromSections(options(section), tls, where)
	if err != nil {
		return nil, fmt.Errorf("%w: nova.conf: [%s] %w", ErrConfig, section, err)
	}
	provider, err := cloud.LogIn(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("spawn: nova.conf: [%s]: %w", section, err)
	}
	return provider, nil
}
