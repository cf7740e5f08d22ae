package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	examples "github.com/confinectl/confinectl/examples/profiles"
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

// Type is what the help calls the value.
func (f *errorFormat) Type() string { return "format" }

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
func (f *errorFormat) wanted(args []string) {
	for i, arg := range args {
		value, ok := strings.CutPrefix(arg, "--error-format=")
		if arg == "--error-format" && i+1 < len(args) {
			value, ok = args[i+1], true
		}
		if arg == "--" || ok && f.Set(value) == nil {
			return
		}
	}
}

// commands are the constructors by name. A launch builds only the one that was asked
// for; help and completion build all of them.
var commands = []struct {
	name  string
	build func(*cli) *cobra.Command
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
	c.errorFormat.wanted(args)
	out := &output{to: stdout}
	if len(args) < 2 || args[1] != "supervise" { // which hands its stdout on as it is
		c.stdout = out
	}
	root := c.rootCommand()
	ran, err := root.ExecuteC()
	if out.err != nil && (err == nil || errors.Is(err, errProblems)) {
		err = out.err
	}
	return c.report(err, refusalStatus(ran.Name()))
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

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "confinectl",
		Short: "Run a trusted program inside a filesystem boundary",
		Long: `Run a trusted program inside a filesystem boundary that a profile declares.

The program may read and write one directory, the few more that the profile
names, and nothing else. Its environment and the network pass through. What
cannot be enforced in full is refused by name, with nothing executed.`,
		Example: `  confinectl exec workspace -- make test
  confinectl exec claude-cli -- claude
  confinectl check`,
		SilenceErrors:         true,
		SilenceUsage:          true,
		DisableSuggestions:    true,
		DisableFlagsInUseLine: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetArgs(c.args[1:])
	root.SetIn(c.stdin)
	root.SetOut(c.stdout)
	root.SetErr(c.stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd == root && !strings.HasPrefix(c.args[1], "-") { // its flags are not known because it is not
			return unknownCommand(c.args[1])
		}
		return usagef("`"+cmd.CommandPath()+" --help` lists the flags", "%s", err)
	})
	for _, known := range commands {
		if len(c.args) > 1 && known.name == c.args[1] {
			root.AddCommand(c.finish(known.build(c)))
			return root
		}
	}
	for _, known := range commands {
		root.AddCommand(c.finish(known.build(c)))
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil && help != root {
		help.PreRunE = func(_ *cobra.Command, args []string) error { // cobra's own prints something else and is content
			if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
				return unknownCommand(strings.Join(args, " "))
			}
			return nil
		}
	}
	return root
}

func unknownCommand(name string) error {
	return usagef("`confinectl help` lists the commands", "unknown command %q", name)
}

// finish adds what all commands share.
func (c *cli) finish(cmd *cobra.Command) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.Flags().Var(&c.errorFormat, "error-format", "`format` of refusals on stderr: text or json")
	status := "0 fine, 1 problems found, 2 wrong usage"
	if refusalStatus(cmd.Name()) == statusRefused {
		status = "the command's own; 125 refused or wrong usage, nothing executed;\n  126 found, but could not be executed; 127 not found"
	}
	if cmd.Long == "" {
		cmd.Long = cmd.Short + "."
	}
	cmd.Long += "\n\nExit status:\n  " + status
	return cmd
}

// search is what the flags of a command say about profiles.
type search struct {
	dirs       []string
	permitPath string
}

func (s *search) flags(cmd *cobra.Command) {
	s.dirFlag(cmd)
	cmd.Flags().Var(&once{value: &s.permitPath}, "permit-path", "the read-write `directory`, for a profile that names none")
}

func (s *search) dirFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&s.dirs, "profile-dir", nil, "search profiles in this `directory` only (repeatable)")
}

func (c *cli) facts() *resolve.Facts { return loader.HostFacts(c.env) }

func (s *search) loader(f *resolve.Facts) *loader.Loader {
	return &loader.Loader{Layers: loader.SearchPath(f, examples.FS, s.dirs), UID: f.UID}
}

// completeProfiles completes the first argument with the names of profiles.
func (c *cli) completeProfiles(s *search) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		entries, _ := s.loader(c.facts()).List()
		var names []cobra.Completion
		for _, e := range entries {
			if e.ShadowedBy == "" && strings.HasPrefix(e.Name, prefix) {
				names = append(names, e.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// profileAndCommand takes "PROFILE -- CMD [ARG…]" apart.
func profileAndCommand(cmd *cobra.Command, args []string) (profile string, argv []string, err error) {
	usage := "usage: " + cmd.UseLine()
	switch dash := cmd.ArgsLenAtDash(); {
	case dash < 0 && len(args) == 0, dash == 0:
		return "", nil, usagef(usage, "%s needs a profile", cmd.Name())
	case dash < 0:
		return "", nil, usagef(usage, "%s needs -- between the profile and the command", cmd.Name())
	case dash > 1:
		return "", nil, usagef(usage, "%s takes one profile, and %q is a second one", cmd.Name(), args[1])
	case len(args) == 1:
		return "", nil, usagef(usage, "%s needs a command after --", cmd.Name())
	}
	return args[0], args[1:], nil
}

// profileAndMaybeCommand takes "PROFILE [-- CMD…]" apart, for reports. argv is
// nil where there is no command.
func profileAndMaybeCommand(cmd *cobra.Command, args []string) (profile string, argv []string, err error) {
	if cmd.ArgsLenAtDash() >= 0 && len(args) > cmd.ArgsLenAtDash() {
		return profileAndCommand(cmd, args)
	}
	if len(args) != 1 {
		return "", nil, usagef("usage: "+cmd.UseLine(), "%s takes one profile", cmd.Name())
	}
	return args[0], nil, nil
}

// once is a flag that decides something, and so is taken once: of two, either
// could have been meant.
type once struct {
	value *string
	empty bool // an empty value has a reader that refuses it by name
	set   bool
}

func (o *once) String() string { return "" }
func (o *once) Type() string   { return "string" }

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
