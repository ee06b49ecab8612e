package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
	"github.com/gocyborg/gocyborg/fault"
	"github.com/gocyborg/gocyborg/sim"
	"github.com/gocyborg/gocyborg/simcloud"
)

// flagHelp has the help of the flags that are fields of the libraries' own structs, by their
// names in serve, where the name of the service comes first.
func flagHelp() map[string]string {
	return map[string]string{
		"seed":                                       "Seed for generated identifiers and all randomness.",
		"region":                                     "Region of the catalog. Default: RegionOne.",
		"nova-release":                               "Release of Nova to simulate: a series, zed to 2026.2, or a version, 26 to 34.",
		"strict-instances":                           "Accept events for registered guests only, as Nova does.",
		"strict-requests":                            "Reject requests with unknown query keys or body fields.",
		"catalog":                                    "URL of a service elsewhere, by its type (compute, network, image, ...), for the catalog; may be repeated. Events about binds go to that compute API, and bitstreams come from that image API.",
		"guests-from":                                "nova: the leak check asks the compute API of --catalog which servers exist.",
		"nova-makes-hosts":                           "Wait until a real nova-compute has created the resource provider of each host, and report the devices below it.",
		"token-lifetime":                             "How long a token is valid. Default: 1h.",
		"cyborg-release":                             "Release of Cyborg to simulate: a series from zed and 2023.1 to 2026.2, master, or a point release such as 14.0.0.",
		"cyborg-upstream-quirks":                     "Simulate the defects in the answers of the real Cyborg.",
		"cyborg-bind-delay":                          "How long a bind takes after its answer. Default: 0.",
		"cyborg-async-bind":                          "Answer each bind immediately and finish it in the background.",
		"cyborg-answer-patch":                        "Return the accelerator requests in the answer to a bind, as the specifications say, instead of an empty body.",
		"cyborg-event-form":                          "Form of the events about binds: shipped, or train or ussuri of the specifications, which the stand-in for Nova then accepts.",
		"cyborg-mdev-creation":                       "Who creates the mediated devices of bound requests: agent (Cyborg's agent, at the bind) or nova (nova-compute, as Nova 34 does).",
		"cyborg-binding-states":                      "Show the states provisioning and unknown while a host restarts.",
		"cyborg-read-lag":                            "Age of the data in lists of accelerator requests, as if read from a database replica that lags behind.",
		"cyborg-clock-skew":                          "How far the Date header is ahead of created_at.",
		"cyborg-heartbeat-period":                    "Interval of the heartbeats of an agent; 0 means 10s.",
		"cyborg-missed-beats":                        "Number of missed heartbeats after which an agent is down; 0 means 3.",
		"cyborg-runtime-programming":                 "Allow the owner of a bound request to program its FPGA region.",
		"cyborg-use-image-uuid":                      "Use the bitstream or function of image_uuid if the device profile does not name one.",
		"cyborg-bind-timeout":                        "How long a bind may take before it fails; 0 means 60s.",
		"cyborg-require-service-token":               "Whether binding requires X-Service-Token. Default: as in the release.",
		"cyborg-enforce-new-defaults":                "Apply the new policy defaults. Default: the release's own; only 2026.2 and master can choose.",
		"cyborg-enable-proxy-headers-parsing":        "Links follow X-Forwarded-Proto and X-Forwarded-Host, since 2026.2.",
		"cyborg-placement-mode":                      "Layout of devices in Placement: tree (a provider below the host), flat (the host provider itself) or nested (a provider for the device, and one for each region below it).",
		"collation":                                  "How the databases compare names and identifiers: mysql (without case, accents and trailing blanks) or binary. Default: mysql.",
		"cyborg-collation":                           "How Cyborg's database compares names and identifiers: mysql (without case, accents and trailing blanks) or binary. Default: mysql.",
		"placement-collation":                        "How Placement's database compares names and identifiers: mysql (without case, accents and trailing blanks) or binary. Default: binary; in a whole cloud --collation.",
		"cyborg-seed":                                "Seed for Cyborg's identifiers.",
		"cyborg-public-endpoint":                     "Base URL of links. Default: the Host header of each request.",
		"placement-seed":                             "Seed for Placement's identifiers and for the choice of candidates within a limit.",
		"placement-policy":                           "Policy: default (without enforce_new_defaults), secure (with it) or open. Default: as the release has it.",
		"placement-upstream-quirks":                  "Simulate the defects in the answers of the real Placement.",
		"placement-no-leftover-consumers":            "Delete the consumer of a refused first allocation; the real Placement keeps it.",
		"placement-cors-origin":                      "Allowed origin of browsers (CORS).",
		"placement-max-allocation-candidates":        "Maximum number of allocation candidates that a request generates before its limit applies; 0 means no maximum.",
		"placement-generation-strategy":              "Order in which candidates are generated: depth-first (all of a host, then the next host) or breadth-first (one of each host, round-robin).",
		"placement-release":                          "Release of Placement to simulate: a series, zed to 2026.2, or a version, 8.0.0 to 16.0.0.",
		"placement-optimize-for-wide-provider-trees": "Compare the sum of the groups with the capacity, without the current usage.",
	}
}

// describeFlags adds the help of flagHelp, and the variables whose names do not follow from the flag. It refuses a command
// line that has a flag without help.
func describeFlags(parser *kong.Kong) error {
	help := flagHelp()
	return kong.Visit(parser.Model, func(visited kong.Visitable, next kong.Next) error {
		node, ok := visited.(*kong.Node)
		if !ok {
			return next(nil)
		}
		for _, flag := range node.Flags {
			name := flag.Name
			if node.Name != "serve" {
				name = node.Name + "-" + name
			}
			flag.Help = cmp.Or(flag.Help, help[name])
			if flag.Help == "" {
				return fmt.Errorf("flag --%s of %s has no help", flag.Name, node.Name)
			}
			if variable := command.Variable(flag); variable != "" && variable != "CYSIM_"+strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_")) {
				flag.Help += " Environment: " + variable + "."
			}
			shorten(node, flag)
			regroup(flag)
		}
		return next(nil)
	})
}

// shorten adds an alias without the service's name to the flags of Cyborg and Placement in a
// whole cloud, unless that is another flag.
func shorten(command *kong.Node, flag *kong.Flag) {
	for _, service := range []string{"cyborg-", "placement-"} {
		short, ok := strings.CutPrefix(flag.Name, service)
		taken := slices.ContainsFunc(command.Flags, func(other *kong.Flag) bool { return other.Name == short || slices.Contains(other.Aliases, short) })
		if ok && !taken {
			flag.Aliases = append(flag.Aliases, short)
		}
	}
}

// regroup puts the flags of Cyborg and Placement in a whole cloud under their own headings, and
// also the flags about Nova.
func regroup(flag *kong.Flag) {
	switch service, _, _ := strings.Cut(flag.Name, "-"); {
	case flag.Group == nil || flag.Group.Key != "cloud":
	case slices.Contains([]string{"nova-release", "strict-instances", "guests-from", "nova-makes-hosts", "catalog"}, flag.Name):
		flag.Group = &kong.Group{Key: "nova", Title: "Nova and its events:"}
	case service == "cyborg" || service == "placement":
		flag.Group = &kong.Group{Key: service + "-flags", Title: strings.ToUpper(service[:1]) + service[1:] + ":"}
	}
}

// clockFlags select the clock of a cloud.
type clockFlags struct {
	ManualClock bool      `help:"Stop the time of the cloud; POST /_sim/clock {\"advance\": \"90s\"} advances it, {\"now\": TIME} sets it."`
	ClockStart  time.Time `placeholder:"TIME" help:"Start of a manual clock, such as 2026-01-01T00:00:00Z. A state has its own. Default: now."`
}

func (c clockFlags) options() ([]simcloud.Option, error) {
	if !c.ManualClock {
		if !c.ClockStart.IsZero() {
			return nil, command.BadInput(errors.New("--clock-start: needs --manual-clock"))
		}
		return nil, nil
	}
	clock := sim.NewManualClock(time.Now())
	if !c.ClockStart.IsZero() {
		if err := clock.Set(c.ClockStart); err != nil {
			return nil, command.BadInput(fmt.Errorf("--clock-start: %w", err))
		}
	}
	return []simcloud.Option{simcloud.WithClock(clock)}, nil
}

// maxFaults limits the size of a file of rules, in bytes.
const maxFaults = 4 << 20

// faultsFlag sets fault rules at the start.
type faultsFlag struct {
	Faults string `placeholder:"FILE" help:"Fault rules, a JSON list as /_sim/faults takes it. Actions of requests: status, drop, truncate, malformed, delay, slow-body, late, proxy, expire-token, expire-service-token."`
}

// newSet is a set of the rules of the file for a service's operations.
func (f faultsFlag) newSet(ctx context.Context, seed uint64, operations []sim.OperationName) (*fault.Set, error) {
	faults := fault.NewSet(operations...)
	faults.Seed(seed)
	return faults, f.set(ctx, faults)
}

// set puts the rules of the file into a set.
func (f faultsFlag) set(ctx context.Context, faults *fault.Set) error {
	if f.Faults == "" {
		return nil
	}
	rules, err := command.ParseFile(ctx, "faults", f.Faults, maxFaults, fault.ParseRules)
	if err != nil {
		return err
	}
	if err := faults.Set(rules...); err != nil {
		return command.BadInput(fmt.Errorf("--faults %s: %w", f.Faults, err))
	}
	return nil
}
