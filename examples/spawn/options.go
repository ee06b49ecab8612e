package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"github.com/gocyborg/gocyborg/cyborgclient/spawn"
)

// options are the flags.
type options struct {
	Profile      string  `help:"Device profile: one of the cloud by name (embedded: gpu, vgpu, fpga, fake, mixed), or a JSON file. Default: mixed, or gpu with --sysfs." placeholder:"NAME|FILE.json"`
	Sysfs        string  `help:"Use an embedded cloud of one host with the hardware of this sysfs tree, such as /sys. It is not written to." placeholder:"DIR"`
	Domain       string  `help:"Merge the devices into this libvirt domain." placeholder:"FILE.xml"`
	XML          string  `name:"xml" help:"Write only the domain XML, to a file, or to standard output with -." placeholder:"FILE|-"`
	JSON         bool    `name:"json" help:"Print one JSON document instead of tables."`
	Diagram      string  `help:"Write the sequence diagram of the recorded calls (Mermaid)." placeholder:"FILE"`
	OSCloud      string  `name:"os-cloud" help:"Run against this cloud of clouds.yaml instead of the embedded one." placeholder:"NAME"`
	ServiceCloud string  `help:"Cloud of clouds.yaml for the X-Service-Token; its user needs the service role." placeholder:"NAME"`
	Instance     string  `help:"UUID of the instance. With --os-cloud: an existing server." placeholder:"UUID"`
	NovaConf     string  `help:"Read arq_binding_timeout from this nova-cpu.conf." placeholder:"FILE"`
	Timeout      seconds `help:"Time limit for binding the ARQs: whole seconds, or a duration such as 5m. Default: 300." placeholder:"SECONDS"`
	Seed         uint64  `help:"Seed of the embedded cloud's identifiers." default:"1"`
}

// seconds is a flag in whole seconds.
type seconds int

// UnmarshalText reads "300" or "5m".
func (s *seconds) UnmarshalText(text []byte) error {
	n, err := strconv.Atoi(string(text))
	if err != nil {
		d, durationErr := time.ParseDuration(string(text))
		if durationErr != nil || d%time.Second != 0 {
			return fmt.Errorf("arq_binding_timeout: %q is not a whole number of seconds", text)
		}
		n = int(d / time.Second)
	}
	if n < 1 {
		return fmt.Errorf("arq_binding_timeout: %q is below 1 second", text)
	}
	*s = seconds(n)
	return nil
}

// errUsage: bad input on the command line or in a file that it names.
var errUsage = errors.New("bad input")

// parse reads the command line; done reports that the program should exit, as after
// --help.
func parse(args []string, stdout, stderr io.Writer) (opts options, status int, done bool) {
	exited := false
	parser, err := kong.New(&opts,
		kong.Name("spawn"),
		kong.Description("From a flavor with a device profile to a libvirt domain with its accelerators."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { exited = true }),
	)
	if err == nil {
		_, err = parser.Parse(args)
	}
	if exited {
		return opts, 0, true
	}
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "spawn:", err)
		return opts, statusBadInput, true
	}
	return opts, 0, false
}

func (o *options) check() error {
	switch {
	case o.OSCloud != "" && o.Instance == "":
		return fmt.Errorf("%w: --os-cloud needs --instance, the UUID of an existing server", errUsage)
	case o.OSCloud != "" && o.Sysfs != "":
		return fmt.Errorf("%w: --sysfs is for the embedded cloud, not for --os-cloud", errUsage)
	case o.OSCloud == "" && o.ServiceCloud != "":
		return fmt.Errorf("%w: --service-cloud needs --os-cloud", errUsage)
	}
	if o.Instance != "" {
		id, err := uuid.Parse(o.Instance)
		if err != nil {
			return fmt.Errorf("%w: --instance: %w", errUsage, err)
		}
		o.Instance = id.String()
	}
	if o.Profile == "" {
		o.Profile = "mixed"
		if o.Sysfs != "" {
			o.Profile = "gpu"
		}
	}
	return nil
}

// config builds the flow's configuration: flag over file over default.
func (o *options) config() (spawn.Config, error) {
	var config spawn.Config
	if o.NovaConf != "" {
		file, err := os.Open(o.NovaConf)
		if err != nil {
			return config, fmt.Errorf("%w: --nova-conf: %w", errUsage, err)
		}
		defer file.Close()
		if err := config.ReadNovaConf(file); err != nil {
			return config, fmt.Errorf("%w: --nova-conf %s: %w", errUsage, o.NovaConf, err)
		}
	}
	if o.Timeout > 0 {
		config.ARQBindingTimeout = int(o.Timeout)
	}
	return config, nil
}

// profileIsFile reports whether --profile names a file rather than a profile:
// profile names have no dots or slashes.
func (o *options) profileIsFile() bool { return strings.ContainsAny(o.Profile, "./") }
