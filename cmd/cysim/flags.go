package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// flagHelp explains the flags that are fields of the libraries' own structs,
// which know nothing of command lines. A flag's name is the field's, in kebab
// case; the whole-cloud command puts the service's name in front.
func flagHelp() map[string]string {
	return map[string]string{
		"cyborg release":                  "Release whose Cyborg is spoken: 2026.2 or zed.",
		"cyborg upstream-quirks":          "Answer as the real Cyborg does where its answer is a defect.",
		"cyborg bind-delay":               "How long a bind takes after it was answered; 0 binds at once.",
		"cyborg async-bind":               "Answer every bind at once and end it in the background.",
		"cyborg answer-patch":             "Answer a bind with the requests, as the specifications say, instead of with nothing.",
		"cyborg event-form":               "How Nova is told of binds: shipped, train or ussuri (the specifications; Nova's stand-in then takes them).",
		"cyborg binding-states":           "Show the states provisioning and unknown around a restart of a host.",
		"cyborg heartbeat-period":         "Time between two beats of an agent; 0 means 10s.",
		"cyborg missed-beats":             "How many missing beats make an agent silent; 0 means 3.",
		"cyborg runtime-programming":      "Let the owner of a bound request program its FPGA region.",
		"cyborg use-image-uuid":           "Take the bitstream or function of image_uuid where a device profile names none.",
		"cyborg bind-timeout":             "How long a bind may take before it fails; 0 means 60s.",
		"cyborg require-service-token":    "Whether binding asks for X-Service-Token; default: as the release does.",
		"cyborg enforce-new-defaults":     "Apply the secure policy defaults.",
		"cyborg placement-mode":           "Where devices stand in Placement: tree, flat (on the host itself) or nested (device, then regions).",
		"cyborg seed":                     "Chooses Cyborg's identifiers.",
		"cyborg public-endpoint":          "URL that links start with; default: as each request names the server.",
		"placement seed":                  "Chooses Placement's identifiers.",
		"placement policy":                "Policy: default, secure or open.",
		"placement no-leftover-consumers": "Do not imitate the consumers that a refused first allocation leaves behind.",
		"placement cors-origin":           "Origin that browsers may call from.",
	}
}

// describeFlags gives help to the flags made of the libraries' fields, and
// refuses to build a command line with a flag that nobody explained.
func describeFlags(parser *kong.Kong) error {
	help := flagHelp()
	return kong.Visit(parser.Model, func(node kong.Visitable, next kong.Next) error {
		command, ok := node.(*kong.Node)
		if !ok {
			return next(nil)
		}
		for _, flag := range command.Flags {
			if flag.Help == "" {
				flag.Help = help[flagKey(command.Name, flag.Name)]
			}
			if flag.Help == "" {
				return fmt.Errorf("flag --%s of %s is not explained", flag.Name, command.Name)
			}
			shorten(command, flag)
		}
		return next(nil)
	})
}

// flagKey is the key of a flag in flagHelp.
func flagKey(command, flag string) string {
	if command == "serve" {
		return strings.Replace(flag, "-", " ", 1)
	}
	return command + " " + flag
}

// shorten lets the flags of Cyborg in a whole cloud go without the name of the
// service, unless that is another flag.
func shorten(command *kong.Node, flag *kong.Flag) {
	short, ok := strings.CutPrefix(flag.Name, "cyborg-")
	taken := slices.ContainsFunc(command.Flags, func(other *kong.Flag) bool { return other.Name == short })
	if ok && !taken {
		flag.Aliases = append(flag.Aliases, short)
		flag.Help += " Also --" + short + "."
	}
}
