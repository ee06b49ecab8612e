package main

import (
	"fmt"
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
		"cyborg bind-timeout":             "How long a bind may take before it fails; 0 means 60s.",
		"cyborg require-service-token":    "Whether binding asks for X-Service-Token; default: as the release does.",
		"cyborg enforce-new-defaults":     "Apply the secure policy defaults.",
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
