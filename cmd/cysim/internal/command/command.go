package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/internal/simhttp"
	"github.com/gocyborg/gocyborg/internal/spelling"
	"github.com/gocyborg/gocyborg/internal/terminal"
)

// The exit statuses of cysim; 0 is success.
const (
	StatusFailed       = 1
	StatusBadInput     = 2
	StatusClaimedTwice = 3 // of discover
	StatusLeaks        = 9
)

// Process has the streams of a command. Commands are structs of flags with a method
// Run(context.Context, *Process) error; the context ends with the first signal.
type Process struct {
	Stdout io.Writer
	Stderr io.Writer
	Log    *slog.Logger

	progress *progress // nil: the command says nothing while it works
}

// Doing sets what the command does, such as "building a cloud of 8 hosts". If the command has printed nothing after two
// seconds, standard error says so, and again each time when the time has doubled. Without a call the text is "working".
func (p *Process) Doing(format string, args ...any) {
	if p.progress != nil {
		p.progress.doing(fmt.Sprintf(format, args...))
	}
}

// stop ends what Doing has begun.
func (p *Process) stop() {
	if p.progress != nil {
		p.progress.end()
	}
}

// Run parses the arguments by a grammar of kong, takes flags that are not among them from the environment, runs the command that they select, and
// returns the exit status. An error is written to stderr in one line, or in up to ten if it joins several. A [Service] that ends
// because ctx ended has succeeded, any other command was interrupted. What texts of others could do to a terminal is escaped in both streams.
func Run(ctx context.Context, grammar any, args []string, toStdout, toStderr io.Writer, options ...kong.Option) int {
	stdout, stderr := terminal.NewWriter(toStdout), terminal.NewWriter(toStderr)
	helped := false
	parser, err := kong.New(grammar, append([]kong.Option{
		kong.Name("cysim"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(int) { helped = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Resolvers(kong.ResolverFunc(fromEnvironment)),
		kong.Help(func(options kong.HelpOptions, line *kong.Context) error {
			line.Stdout = toStdout // as wide as the terminal
			return kong.DefaultHelpPrinter(options, line)
		}),
	}, options...)...)
	if err != nil {
		return report(stderr, err)
	}
	parsed, err := parser.Parse(args)
	if err == nil && !helped {
		err = refuseEmpty(parsed)
	}
	switch {
	case helped:
		return 0
	case err != nil:
		if strings.HasPrefix(err.Error(), `expected "<url>"`) {
			return report(stderr, BadInput(ErrNoServer))
		}
		if unknown := unknownCommand(err); unknown != nil {
			return report(stderr, BadInput(unknown))
		}
		return report(stderr, BadInput(fmt.Errorf("%s; see %s", fromVariable.ReplaceAllString(withVariables(BadInput(err), traced(parsed, err)).Error(), "(from $1)"), helpFor(err))))
	}
	process := &Process{Stdout: stdout, Stderr: stderr, Log: slog.New(slog.NewTextHandler(stderr, nil))}
	if toStderr == os.Stderr {
		process.progress = watch(stderr, nameOf(parsed))
		process.Stdout = process.progress.before(stdout)
	}
	err = parsed.Run(process)
	process.stop()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		if runs(parsed) {
			return 0
		}
		err = errors.New("interrupted: " + strings.TrimPrefix(parsed.Command(), "cysim "))
	}
	if err != nil {
		return report(stderr, withVariables(err, parsed))
	}
	return 0
}

// Service is implemented by commands that run until a signal ends them, which is success.
type Service interface {
	// Runs reports whether the command does so with its flags.
	Runs() bool
}

// runs reports whether a command is a service.
func runs(parsed *kong.Context) bool {
	node := parsed.Selected()
	if node == nil || !node.Target.CanAddr() {
		return false
	}
	service, ok := node.Target.Addr().Interface().(Service)
	return ok && service.Runs()
}

// refuseEmpty returns an error if a flag has an empty text, for example from an unset shell variable.
func refuseEmpty(parsed *kong.Context) error {
	for _, step := range parsed.Path {
		if step.Flag != nil && step.Flag.Target.Kind() == reflect.String && fmt.Sprint(parsed.FlagValue(step.Flag)) == "" {
			return fmt.Errorf("--%s: the text is empty", step.Flag.Name)
		}
	}
	return nil
}

// ErrNoServer is the error of a command for a running server that is not named.
var ErrNoServer = errors.New("no address of a server: CYSIM_URL is not set; cysim list shows the running servers")

// unknownCommand is the error of a word that a command with a default command has no command for, or nil. Kong names the default command.
func unknownCommand(err error) error {
	parse := new(kong.ParseError)
	word, isWord := strings.CutPrefix(fmt.Sprint(err), "unexpected argument ")
	if !errors.As(err, &parse) || !isWord {
		return nil
	}
	selected := parse.Context.Selected()
	if selected == nil || selected.Parent == nil || selected.Parent.DefaultCmd != selected {
		return nil
	}
	word, _, _ = strings.Cut(word, ",") // before a suggestion
	var names []string
	for _, child := range selected.Parent.Children {
		names = append(names, child.Name)
	}
	hint := "; it has " + strings.Join(names, ", ")
	if meant := spelling.Nearest(word, names); meant != "" {
		hint = ", did you mean " + meant + "?"
	}
	return fmt.Errorf("%s has no command %s%s", selected.Parent.FullPath(), word, hint)
}

// helpFor is the command that describes what an error of the parser is about.
func helpFor(err error) string {
	text := "cysim"
	if parse := new(kong.ParseError); errors.As(err, &parse) && parse.Context != nil {
		text += strings.TrimSuffix(" "+nameOf(parse.Context), " ")
	}
	return text + " --help"
}

// nameOf returns the name of a command, such as "model check".
func nameOf(parsed *kong.Context) string {
	var words []string
	for _, step := range parsed.Path {
		if step.Command != nil {
			words = append(words, step.Command.Name)
		}
	}
	return strings.Join(words, " ")
}

// statusError is an error with its own exit status.
type statusError struct {
	error
	status int
}

// Unwrap returns the cause.
func (e *statusError) Unwrap() error { return e.error }

// WithStatus gives an error an exit status; its text stays as it is.
func WithStatus(err error, status int) error { return &statusError{err, status} }

// BadInput marks an error that another flag or file would avoid.
func BadInput(err error) error { return WithStatus(err, StatusBadInput) }

// Leaked is the error of a command that found leaks, named by a text such as "2 leaks".
func Leaked(leaks string) error {
	return WithStatus(errors.New("accelerators leaked: "+leaks), StatusLeaks)
}

// URL is the value of a flag that is the root of an API: an absolute HTTP URL without user name, password and query.
type URL string

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (u *URL) UnmarshalText(text []byte) error {
	*u = URL(text)
	return simhttp.CheckBase(string(text))
}

// QueryURL is a URL that may have a query, which is not shown.
type QueryURL string

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (u *QueryURL) UnmarshalText(text []byte) error {
	*u = QueryURL(text)
	return simhttp.CheckURL(string(text))
}

// String implements fmt.Stringer.
func (u QueryURL) String() string { return simhttp.ShownURL(string(u)) }
