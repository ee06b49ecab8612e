package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// variable is one environment variable for the caller's shell.
type variable struct{ name, value string }

// printExports writes export lines for a POSIX shell in one write: a reader that sees the
// first line sees them all.
func printExports(w io.Writer, variables ...variable) error {
	variables = append(variables, variable{"CYSIM_PID", strconv.Itoa(os.Getpid())})
	var text strings.Builder
	for _, v := range variables {
		fmt.Fprintf(&text, "export %s=%s\n", v.name, command.Quote(v.value))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print the environment: %w", err)
	}
	return nil
}

// openStackVariables are the variables of OpenStack's clients for one account with its password, and
// the URL of the simulator's own routes.
func openStackVariables(base, region string, a account, password string) []variable {
	return []variable{
		{"OS_AUTH_URL", base + authPath},
		{"OS_USERNAME", a.user},
		{"OS_PASSWORD", password},
		{"OS_PROJECT_NAME", a.project},
		{"OS_USER_DOMAIN_NAME", domain},
		{"OS_PROJECT_DOMAIN_NAME", domain},
		{"OS_IDENTITY_API_VERSION", "3"},
		{"OS_REGION_NAME", region},
		{"CYSIM_URL", base},
	}
}
