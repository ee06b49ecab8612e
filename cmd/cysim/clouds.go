package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"go.yaml.in/yaml/v3"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// The login to a simulated cloud. The passwords are public: they come from the model, or are the default.
const (
	authPath = "/v3"
	domain   = "Default"
)

// cloudsMark begins the files that cysim writes, and may replace.
const cloudsMark = "# Written by cysim serve"

// account is an entry of clouds.yaml.
type account struct{ cloud, user, project string }

func admin() account { return account{"sim", "admin", "admin"} }

// accounts lists the clouds of a file: an administrator, a plain member and a service.
func accounts() []account {
	return []account{admin(), {"sim-demo", "demo", "demo"}, {"sim-svc", "nova", "service"}}
}

// cloudsYAML is the file of a simulator at a base URL, whose certificate an authority in a file vouches for.
func cloudsYAML(base, region, caFile string, password func(user string) string) ([]byte, error) {
	file := clouds.Clouds{Clouds: make(map[string]clouds.Cloud)}
	for _, a := range accounts() {
		file.Clouds[a.cloud] = clouds.Cloud{
			AuthInfo: &clouds.AuthInfo{
				AuthURL: base + authPath, Username: a.user, Password: password(a.user), ProjectName: a.project,
				UserDomainName: domain, ProjectDomainName: domain,
			},
			RegionName: region, CACertFile: caFile,
		}
	}
	var out bytes.Buffer
	out.WriteString(cloudsMark + "; valid while it runs.\n")
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(file); err != nil {
		return nil, err
	}
	return out.Bytes(), encoder.Close()
}

// checkOwnFile refuses to replace a file for a flag that cysim has not written.
func checkOwnFile(flag, name string) error {
	if err := command.CheckOutput(flag, name); err != nil {
		return err
	}
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return command.BadInput(fmt.Errorf("--%s: %w", flag, err))
	case len(data) > 0 && !bytes.HasPrefix(data, []byte(cloudsMark)):
		return command.BadInput(fmt.Errorf("--%s %s: the file there was not written by cysim; name another one", flag, name))
	}
	return nil
}

func writeCloudsFile(name, base, region, caFile string, password func(user string) string) error {
	data, err := cloudsYAML(base, region, caFile, password)
	if err != nil {
		return fmt.Errorf("--clouds-yaml %s: %w", name, err)
	}
	if err := checkOwnFile("clouds-yaml", name); err != nil { // it may have become the file of --state
		return err
	}
	return command.WriteFile("--clouds-yaml", name, data)
}
