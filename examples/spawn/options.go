package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient"
	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
	"github.com/gocyborg/gocyborg/matching"
	"github.com/gocyborg/gocyborg/requestspec"
)

// options are the flags.
type options struct {
	Profile         string                    `help:"Device profile: one of the cloud by name (embedded: gpu, vgpu, fpga, fake, mixed), or a JSON file. Default: mixed, or gpu with --sysfs." placeholder:"NAME|FILE.json" xor:"flavor"`
	Flavor          string                    `help:"Flavor of the cloud's Nova instead of one that is made for --profile." placeholder:"NAME" xor:"flavor"`
	Fail            step                      `help:"Make this step fail in the embedded cloud, on every host: profile, candidates, claim, create, bind, wait or start." placeholder:"STEP"`
	Reboot          bool                      `help:"After the spawn reboot the host of the embedded cloud, and resume the guest with its devices."`
	Sysfs           string                    `help:"Use an embedded cloud of one host with the hardware of this sysfs tree, such as /sys. It is not written to." placeholder:"DIR" xor:"hosts"`
	DriverConfig    kong.NamedFileContentFlag `help:"Configuration of the drivers for --sysfs: a cyborg.conf, or JSON. Default: all drivers with their defaults." placeholder:"FILE"`
	Host            string                    `help:"Name of the host of --sysfs. Default: [DEFAULT] host of --driver-config, or cn0." placeholder:"NAME"`
	Bitstream       kong.NamedFileContentFlag `help:"Bitstream for the FPGAs of --sysfs. A device profile names it by accel:bitstream_name, the name of the file without its directory." placeholder:"FILE"`
	BitstreamLoader string                    `help:"Program that writes bitstreams to the FPGAs of --sysfs, an absolute path." placeholder:"PROGRAM"`
	Domain          kong.NamedFileContentFlag `help:"Merge the devices into this libvirt domain." placeholder:"FILE.xml"`
	XML             string                    `name:"xml" help:"Write only the domain XML, to a file, or to standard output with -." placeholder:"FILE|-"`
	Output          string                    `short:"o" enum:"table,json" default:"table" help:"Output format: table, or json, one document."`
	Diagram         string                    `help:"Write the sequence diagram of the embedded cloud's requests (Mermaid)." placeholder:"FILE" `
	Cloud           string                    `help:"Run against this cloud of clouds.yaml instead of the embedded one: a real one, or that of cysim serve." placeholder:"NAME" xor:"hosts"`
	ServiceCloud    string                    `help:"Cloud of clouds.yaml for the X-Service-Token; its user needs the service role." placeholder:"NAME"`
	Instance        uuid.UUID                 `help:"UUID of the instance. With --cloud: an existing server, which keeps its allocation. Default: a new instance." placeholder:"UUID"`
	Release         bool                      `help:"Release the accelerators of --instance instead of attaching some. The rest of its allocation is kept. Needs --cloud. Detach the devices from the domain first."`
	Delete          uuid.UUID                 `help:"Delete an instance that --cloud has spawned: release its accelerators and its allocation." placeholder:"UUID"`
	NovaConf        kong.NamedFileContentFlag `help:"Read arq_binding_timeout from this nova-cpu.conf." placeholder:"FILE"`
	Timeout         *time.Duration            `help:"Time limit for binding the ARQs, arq_binding_timeout, in whole seconds. Default: 300s." placeholder:"DURATION"`
	Seed            uint64                    `help:"Seed of the embedded cloud's identifiers." default:"1"`
}

func (o *options) isJSON() bool { return o.Output == "json" }

// AfterApply checks the flags and sets what depends on others.
func (o *options) AfterApply() error {
	switch {
	case o.Release && o.Instance == uuid.Nil:
		return errors.New("--release needs --instance, the UUID of an existing server")
	case o.Release && o.Delete != uuid.Nil:
		return errors.New("--release and --delete exclude each other")
	case o.Cloud == "" && (o.Release || o.Delete != uuid.Nil || o.ServiceCloud != ""):
		return errors.New("--release, --delete and --service-cloud need --cloud")
	case o.Cloud != "" && (o.Fail != "" || o.Reboot || o.Diagram != ""):
		return errors.New("--fail, --reboot and --diagram need the embedded cloud, not --cloud")
	case o.Sysfs == "" && (o.DriverConfig.Filename != "" || o.Host != "" || o.Bitstream.Filename != "" || o.BitstreamLoader != ""):
		return errors.New("--driver-config, --host, --bitstream and --bitstream-loader need --sysfs")
	case o.Sysfs != "" && o.Reboot:
		return errors.New("--reboot needs synthetic hardware, not --sysfs")
	case o.Domain.Filename != "" && len(o.Domain.Contents) == 0:
		return fmt.Errorf("--domain: %s is empty", o.Domain.Filename)
	case o.Timeout != nil && *o.Timeout < time.Second:
		return fmt.Errorf("--timeout: arq_binding_timeout: %s is below 1 second", *o.Timeout)
	}
	switch {
	case o.Profile == "" && o.Sysfs != "":
		o.Profile = "gpu"
	case o.Profile == "":
		o.Profile = "mixed"
	}
	return nil
}

// instance returns the UUID of the instance. A new one of an embedded cloud depends on the
// seed, so that the same command prints the same identifiers.
func (o *options) instance() string {
	switch {
	case o.Instance != uuid.Nil:
		return o.Instance.String()
	case o.Cloud != "":
		return uuid.NewString()
	}
	return uuid.NewSHA1(uuid.NameSpaceDNS, fmt.Appendf(nil, "instance-%d", o.Seed)).String()
}

// config builds the flow's configuration: flag over file over default.
func (o *options) config() (spawn.Config, error) {
	var config spawn.Config
	if err := config.ReadNovaConf(bytes.NewReader(o.NovaConf.Contents)); err != nil {
		return config, fmt.Errorf("--nova-conf %s: %w", o.NovaConf.Filename, err)
	}
	switch {
	case o.Timeout != nil:
		config.ARQBindingTimeout = *o.Timeout
	case o.Fail == failWait:
		config.ARQBindingTimeout = time.Second
	}
	return config, nil
}

// ensureProfile returns the name of the device profile. One given as a file is created
// in the cloud unless it exists with the same groups.
func ensureProfile(ctx context.Context, opts options, client *cyborgclient.Client) (string, error) {
	if !strings.ContainsAny(opts.Profile, "./") { // names of profiles have neither
		return opts.Profile, nil
	}
	data, err := os.ReadFile(opts.Profile)
	if err != nil {
		return "", fmt.Errorf("--profile: %w", err)
	}
	profile, err := requestspec.ParseProfileFile(data)
	if err != nil {
		return "", fmt.Errorf("--profile %s: %w", opts.Profile, err)
	}
	found, err := client.ListDeviceProfiles(ctx, cyborgclient.ListDeviceProfilesOpts{Names: []string{profile.Name}})
	if err != nil {
		return "", fmt.Errorf("device profile %s: %w", profile.Name, err)
	}
	if len(found) == 0 {
		_, err = client.CreateDeviceProfile(ctx, cyborgclient.CreateDeviceProfileOpts{Name: profile.Name, Groups: profile.Groups})
		return profile.Name, err
	}
	if matching.Unchanged(profile, spawn.ProfileOf(found[0])) != nil {
		return "", fmt.Errorf("--profile %s: the cloud has another device profile named %s", opts.Profile, profile.Name)
	}
	return profile.Name, nil
}
