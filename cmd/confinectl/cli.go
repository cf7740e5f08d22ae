package main

import (
	"errors"
	"io"
	"strings"

	examples "github.com/confinectl/confinectl/examples/profiles"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

// cli is one invocation: its arguments, environment and streams. Nothing
// reads them from anywhere else.
type cli struct {
	args   []string
	env    []string
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	errorFormat errorFormat
}

// errorFormat is the value of --error-format.
type errorFormat string

func (f *errorFormat) String() string { return string(*f) }

// Set takes text and json, and nothing else.
func (f *errorFormat) Set(s string) error {
	if s != "text" && s != "json" {
		return errors.New("not text or json")
	}
	*f = errorFormat(s)
	return nil
}

// wanted finds --error-format by itself: the command line that names it may be
// too wrong to be read up to there.
func (f *errorFormat) wanted(words []string) {
	for len(words) > 0 && words[0] != "--" {
		if rest, taken := f.take(words); taken {
			return
		} else if words = rest; len(words) > 0 {
			words = words[1:]
		}
	}
}

// take reads the flag where words begin with it, and gives the words after it.
func (f *errorFormat) take(words []string) (rest []string, taken bool) {
	value, joined := strings.CutPrefix(words[0], "--error-format=")
	switch {
	case joined && f.Set(value) == nil:
		return words[1:], true
	case words[0] == "--error-format" && len(words) > 1 && f.Set(words[1]) == nil:
		return words[2:], true
	}
	return words, false
}

// commands are the constructors by name.
var commands = []struct {
	name  string
	build func(*cli) *command.Command
}{
	{"exec", execCommand},
	{"confine-exec", confineExecCommand},
	{"check", checkCommand},
	{"list", listCommand},
	{"show", showCommand},
	{"explain", explainCommand},
	{"facts", factsCommand},
	{"policy", policyCommand},
	{"spec", specCommand},
	{"watch", watchCommand},
	{"supervise", superviseCommand},
	{"version", versionCommand},
}

// run is the program: it returns the exit status.
func run(args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[1] == insideCommand {
		return inside(stderr)
	}
	c := &cli{args: args, env: env, stdin: stdin, stdout: stdout, stderr: stderr, errorFormat: "text"}
	words := args[min(1, len(args)):]
	c.errorFormat.wanted(words)
	for before := true; before && len(words) > 0; { // the one flag that every command has may stand before it
		words, before = c.errorFormat.take(words)
	}
	out := &output{to: stdout}
	name := ""
	if len(words) > 0 {
		name = words[0]
	}
	if name != "supervise" { // which hands its stdout on as it is
		c.stdout = out
	}
	err := c.program().Run(words, c.stdout)
	if out.err != nil && (err == nil || errors.Is(err, errProblems)) {
		err = out.err
	}
	return c.report(err, refusalStatus(name))
}

// output remembers that something could not be written: half a report must not
// end with status 0.
type output struct {
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.err = err
	}
	return n, err
}

func (c *cli) program() *command.Program {
	p := &command.Program{
		Name: "confinectl",
		Long: `Run a trusted program inside a filesystem boundary that a profile declares.

The program may read and write one directory, the few more that the profile
names, and nothing else. Its environment and the network pass through. What
cannot be enforced in full is refused by name, with nothing executed.`,
		Example: `  confinectl exec workspace -- make test
  confinectl exec claude-cli -- claude
  confinectl check`,
	}
	p.Commands = make([]command.Constructor, len(commands))
	for i, known := range commands {
		p.Commands[i] = command.Constructor{Name: known.name, New: func() *command.Command { return c.finish(known.build(c)) }}
	}
	return p
}

// finish adds what all commands share.
func (c *cli) finish(cmd *command.Command) *command.Command {
	cmd.Flags.Var(&c.errorFormat, "error-format", "`format` of refusals on stderr: text or json")
	cmd.Footer = "Exit status:\n  0 fine, 1 problems found, 2 wrong usage"
	if refusalStatus(cmd.Name()) == statusRefused {
		cmd.Footer = "Exit status:\n  the command's own; 125 refused or wrong usage, nothing executed;\n  126 found, but could not be executed; 127 not found"
	}
	return cmd
}

// search is what the flags of a command say about profiles.
type search struct {
	dirs       command.Strings
	permitPath string

	walker *resolve.Walker // what was seen of the host while profiles were loaded; nil: nothing
}

func (s *search) flags(cmd *command.Command) {
	s.dirFlag(cmd)
	cmd.Flags.Var(&once{value: &s.permitPath}, "permit-path", "the read-write `directory`, for a profile that names none")
}

func (s *search) dirFlag(cmd *command.Command) {
	cmd.Flags.Var(&s.dirs, "profile-dir", "search profiles in this `directory` only (repeatable)")
}

func (c *cli) facts() *resolve.Facts { return loader.HostFacts(c.env) }

func (s *search) loader(f *resolve.Facts) *loader.Loader {
	return &loader.Loader{Layers: loader.SearchPath(f, examples.FS, s.dirs), UID: f.UID}
}

// look is a loader whose look at the host goes on when what it loads is resolved.
func (s *search) look(f *resolve.Facts) *loader.Loader {
	ld := s.loader(f)
	s.walker = resolve.NewWalker()
	ld.Walker = s.walker
	return ld
}

// completeProfiles completes the first argument with the names of profiles.
func (c *cli) completeProfiles(s *search) func([]string) []string {
	return func(before []string) []string {
		if len(before) > 0 {
			return nil
		}
		entries, _ := s.loader(c.facts()).List()
		names := []string{}
		for _, e := range entries {
			if e.ShadowedBy == "" {
				names = append(names, e.Name)
			}
		}
		return names
	}
}

// profileAndCommand takes "PROFILE -- CMD [ARG…]" apart.
func profileAndCommand(cmd string, args command.Args) (profile string, argv []string, err error) {
	switch {
	case len(args.Before) == 0:
		return "", nil, usagef("", "%s needs a profile", cmd)
	case !args.Dash:
		return "", nil, usagef("", "%s needs -- between the profile and the command", cmd)
	case len(args.Before) > 1:
		return "", nil, usagef("", "%s takes one profile, and %q is a second one", cmd, args.Before[1])
	case args.After == nil:
		return "", nil, usagef("", "%s needs a command after --", cmd)
	}
	return args.Before[0], args.After, nil
}

// profileAndMaybeCommand takes "PROFILE [-- CMD…]" apart, for reports. argv is
// nil where there is no command.
func profileAndMaybeCommand(cmd string, args command.Args) (profile string, argv []string, err error) {
	if args.After != nil {
		return profileAndCommand(cmd, args)
	}
	if len(args.Before) != 1 {
		return "", nil, usagef("", "%s takes one profile", cmd)
	}
	return args.Before[0], nil, nil
}

// once is a flag that decides something, and so is taken once: of two, either
// could have been meant.
type once struct {
	value *string
	empty bool // an empty value has a reader that refuses it by name
	set   bool
}

func (o *once) String() string { return "" }

// Set refuses a second value, and an empty one, which is that of no path.
func (o *once) Set(s string) error {
	switch {
	case o.set:
		return errors.New("it was given before")
	case s == "" && !o.empty:
		return errors.New("it is empty")
	}
	*o.value, o.set = s, true
	return nil
}
