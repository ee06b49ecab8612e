package completion

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/gocyborg/gocyborg/cmd/cysim/internal/command"
)

// Command prints the script that a shell loads.
type Command struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

var _ kong.HelpProvider = (*Command)(nil)

// Help implements kong.HelpProvider.
func (*Command) Help() string {
	return `bash: eval "$(cysim completion bash)" in ~/.bashrc; zsh: the same with zsh in ~/.zshrc, after compinit; ` +
		"fish: cysim completion fish > ~/.config/fish/completions/cysim.fish."
}

// Run implements the command.
func (c *Command) Run(_ context.Context, p *command.Process) error {
	_, err := io.WriteString(p.Stdout, scripts()[c.Shell])
	return err
}

// scripts are the functions that ask the hidden command complete for candidates. Without
// candidates the shell completes names of files.
func scripts() map[string]string {
	return map[string]string{
		"bash": `_cysim() {
  mapfile -t COMPREPLY < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _cysim cysim
`,
		"zsh": `#compdef cysim
_cysim() {
  local -a candidates
  candidates=(${(f)"$("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"})
  if (( $#candidates )); then compadd -a candidates; else _files; fi
}
compdef _cysim cysim
`,
		"fish": `function __cysim_complete
  set -l candidates (cysim complete -- (commandline -opc)[2..-1] (commandline -ct) 2>/dev/null)
  if set -q candidates[1]
    printf '%s\n' $candidates
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c cysim -f -a '(__cysim_complete)'
`,
	}
}

// Candidates is the command that the scripts call.
type Candidates struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"Words of the command line; the last is being typed."`
}

// Run implements the command.
func (c *Candidates) Run(_ context.Context, p *command.Process, line *kong.Context) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, candidate := range candidates(line.Model.Node, words) {
		if _, err := fmt.Fprintln(p.Stdout, candidate); err != nil {
			return err
		}
	}
	return nil
}

// candidates lists what the last word may become.
func candidates(node *kong.Node, words []string) []string {
	var valueOf *kong.Flag
	last := ""
	for i, word := range words {
		switch {
		case i == len(words)-1:
			last = word
		case word == "=": // bash makes three words of --flag=value
		case valueOf != nil:
			valueOf = nil
		case strings.HasPrefix(word, "-"):
			valueOf = valueFlag(node, word)
		default:
			if child := childOf(node, word); child != nil {
				node = child
			}
		}
	}
	if last == "=" {
		last = ""
	}
	return slices.DeleteFunc(all(node, valueOf, last), func(c string) bool { return !strings.HasPrefix(c, last) })
}

// all lists the values of a flag, the flags, or the commands and arguments.
func all(node *kong.Node, valueOf *kong.Flag, last string) []string {
	var list []string
	switch {
	case valueOf != nil:
		list = enum(valueOf.Value)
	case strings.HasPrefix(last, "-"):
		for _, group := range node.AllFlags(true) {
			for _, flag := range group {
				list = append(list, "--"+flag.Name)
			}
		}
	case node.Name == "help" && node.Parent != nil:
		return all(node.Parent, nil, last)
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				list = append(list, child.Name)
			}
		}
		if len(node.Positional) > 0 {
			list = enum(node.Positional[0])
		}
	}
	slices.Sort(list)
	return list
}

func enum(value *kong.Value) []string {
	if value.Enum == "" {
		return nil
	}
	return slices.DeleteFunc(value.EnumSlice(), func(v string) bool { return v == "" })
}

// valueFlag is the flag of a word if its value is the next word.
func valueFlag(node *kong.Node, word string) *kong.Flag {
	name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	for _, group := range node.AllFlags(false) {
		for _, flag := range group {
			if flag.Name == name || slices.Contains(flag.Aliases, name) || flag.Short != 0 && string(flag.Short) == name {
				if flag.IsBool() || hasValue {
					return nil
				}
				return flag
			}
		}
	}
	return nil
}

func childOf(node *kong.Node, word string) *kong.Node {
	i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == word })
	if i < 0 {
		return nil
	}
	return node.Children[i]
}
