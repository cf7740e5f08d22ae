package main

import (
	"io"
	"os"
	"strings"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/resolve"
)

// launch is what the flags of exec, confine-exec and spec say about one start.
type launch struct {
	search
	dir  string
	keep command.Ints
}

func (l *launch) flags(cmd *command.Command) {
	cmd.Flags.Var(&once{value: &l.dir}, "cd", "start in this `directory` instead of the permit path; it must be granted")
	if refusalStatus(cmd.Name()) == statusRefused {
		cmd.Flags.Var(&l.keep, "keep-fd", "leave this inherited `descriptor` open (repeatable); it keeps whatever rights it has")
	}
}

func execCommand(c *cli) *command.Command {
	l := &launch{}
	cmd := &command.Command{
		Use:   "exec [flags] PROFILE -- CMD [ARG…]",
		Short: "Confine this process, then become CMD",
		Long: `Confine this process to what PROFILE grants, then become CMD: the process id
stays, and nothing runs in between. The boundary cannot be lifted.

CMD is looked up in PATH. It starts in the permit path of the profile. Nothing
is printed when all is well.`,
		Example: `  confinectl exec workspace -- make test
  confinectl exec tenant --permit-path /srv/tenants/a -- ./control-plane`,
	}
	cmd.Complete = c.completeProfiles(&l.search)
	cmd.Run = func(args command.Args) error {
		name, argv, err := profileAndCommand(cmd.Name(), args)
		if err != nil {
			return err
		}
		f := c.facts()
		ld := l.look(f)
		p, err := ld.Load(name)
		if err != nil {
			return err
		}
		return l.exec(c, f, p.Policy, argv, ld.Protected(p))
	}
	l.search.flags(cmd)
	l.flags(cmd)
	return cmd
}

func confineExecCommand(c *cli) *command.Command {
	l := &launch{}
	var text string
	policy := &once{value: &text, empty: true}
	cmd := &command.Command{
		Use:   "confine-exec --policy JSON|@FILE|- -- CMD [ARG…]",
		Short: "Confine this process by a JSON policy, then become CMD",
		Long: `Confine this process by a policy that was sent here, then become CMD. It is
the far side of a dispatcher: the policy is JSON on the command line, in a
file (@FILE) or on standard input (-), and is resolved with the facts of this
host. "confinectl policy PROFILE" prints one.`,
		Example: `  confinectl confine-exec --policy '{"permit_path":"/srv/a"}' -- ./worker`,
	}
	cmd.Run = func(args command.Args) error {
		switch {
		case !policy.set:
			return usagef("", "confine-exec needs --policy")
		case len(args.Before) > 0 || args.After == nil:
			return usagef("", "confine-exec needs a command after --, and nothing before it")
		}
		p, err := c.readPolicy(text)
		if err != nil {
			return err
		}
		if v, uses := p.UsesCwd(); uses {
			return cwdNotPortable(v)
		}
		f := c.facts()
		var protected []resolve.Protected
		if name, isFile := strings.CutPrefix(text, "@"); isFile {
			protected = append(protected, resolve.Protected{Path: f.Absolute(name), What: "the policy that was read"})
		}
		return l.exec(c, f, p, args.After, protected)
	}
	cmd.Flags.Var(policy, "policy", "the policy: `JSON`, @FILE, or - for standard input")
	cmd.Flags.Var(&once{value: &l.permitPath}, "permit-path", "the read-write `directory`, for a policy that names none")
	l.flags(cmd)
	return cmd
}

func cwdNotPortable(v resolve.Value) error {
	return &resolve.Refusal{Code: resolve.CwdNotPortable, Subject: v.Text, Origin: v.Origin,
		Detail: "the directory that somebody stands in on one host means nothing on another",
		Hints:  []string{"leave permit_path out and give --permit-path DIR on the far side", "`confinectl spec` is for this host: it writes the directory out"}}
}

// readPolicy reads the value of --policy, at most one byte more than a policy
// may have: an endless stream is refused like any that is too long.
func (c *cli) readPolicy(text string) (*resolve.Policy, error) {
	var from io.Reader
	switch name, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		from = c.stdin
	case isFile:
		f, err := os.Open(name)
		if err != nil {
			return nil, &resolve.Refusal{Code: resolve.PolicySyntax, Subject: text, Detail: "cannot be read: " + errText(err), Cause: err}
		}
		defer f.Close()
		from = f
	default:
		return resolve.DecodePolicy([]byte(text))
	}
	data, err := io.ReadAll(io.LimitReader(from, resolve.MaxDocument+1))
	if err != nil {
		return nil, &resolve.Refusal{Code: resolve.PolicySyntax, Subject: text, Detail: "cannot be read: " + errText(err), Cause: err}
	}
	return resolve.DecodePolicy(data)
}

// request is what one start adds to a policy, with the paths of the command
// line taken from the caller's directory.
func (l *launch) request(c *cli, f *resolve.Facts, argv []string, protected []resolve.Protected) (resolve.Request, error) {
	self, err := c.self(f)
	return resolve.Request{
		PermitPath: f.Absolute(l.permitPath), Dir: f.Absolute(l.dir), Command: argv,
		Protected: append(protected, self...), Walker: l.walker,
	}, err
}

// self is the launcher's own file, and the name that it was started by: a
// program that can write either could widen its next boundary.
func (c *cli) self(f *resolve.Facts) ([]resolve.Protected, error) {
	file, err := os.Executable()
	if err != nil {
		return nil, &resolve.Refusal{Code: resolve.ApplyFailed, Subject: "confinectl", Cause: err,
			Detail: "cannot find its own file, and so cannot keep it out of the boundary: " + errText(err), Hints: []string{"mount /proc"}}
	}
	self := []resolve.Protected{{Path: file, What: "the confinectl binary"}}
	if name := c.args[0]; strings.Contains(name, "/") {
		return append(self, resolve.Protected{Path: f.Absolute(name), What: "the confinectl command"}), nil
	}
	// Every entry of PATH up to the one that execvp(3) took: what is put into
	// an earlier one is taken next time.
	path, _ := f.Getenv("PATH")
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		name := strings.TrimRight(f.Absolute(dir), "/") + "/" + c.args[0]
		st, err := os.Stat(name)
		found := err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
		if _, err := os.Lstat(name); err == nil {
			self = append(self, resolve.Protected{Path: name, What: "the confinectl command"})
		}
		if found {
			break
		}
	}
	return self, nil
}

// plan goes the way from a policy to a plan.
func (l *launch) plan(c *cli, f *resolve.Facts, p *resolve.Policy, argv []string, protected []resolve.Protected) (*enforce.Plan, error) {
	b, err := l.boundary(c, f, p, argv, protected)
	if err != nil {
		return nil, err
	}
	return enforce.Compile(b)
}

// boundary goes the way from a policy to a boundary.
func (l *launch) boundary(c *cli, f *resolve.Facts, p *resolve.Policy, argv []string, protected []resolve.Protected) (*resolve.Boundary, error) {
	request, err := l.request(c, f, argv, protected)
	if err != nil {
		return nil, err
	}
	return resolve.Resolve(p, f, request)
}

func (l *launch) exec(c *cli, f *resolve.Facts, p *resolve.Policy, argv []string, protected []resolve.Protected) error {
	plan, err := l.plan(c, f, p, argv, protected)
	if err != nil {
		return err
	}
	return plan.Exec(l.keep)
}

func specCommand(c *cli) *command.Command {
	l := &launch{}
	var arm string
	cmd := &command.Command{
		Use:   "spec [flags] PROFILE -- CMD [ARG…]",
		Short: "Print what to spawn to get CMD confined, as JSON",
		Long: `Print a launch spec, {"cmd","args","env","cd"}: what a caller in any language
spawns on this host to get CMD confined by PROFILE. cmd is the wrapper, env
holds only the variables that are added, cd is the working directory. The
policy is written out, so a later change of the profile does not change it.

--arm seatbelt prints instead what the launcher itself becomes on a Mac, sandbox-exec with the
whole profile, for review on any host. Elsewhere than on a Mac it is on paper: no path of it
was looked at. What is to be spawned is the wrapper: it judges every path again,
makes what has to be made, and closes descriptors.`,
	}
	cmd.Complete = c.completeProfiles(&l.search)
	cmd.Run = func(args command.Args) error {
		name, argv, err := profileAndCommand(cmd.Name(), args)
		if err != nil {
			return err
		}
		here := c.facts()
		ld := l.look(here)
		p, err := ld.Load(name)
		if err != nil {
			return err
		}
		if arm != "" {
			return l.armSpec(c, here, arm, p.Policy, argv, ld.Protected(p))
		}
		plan, err := l.plan(c, here, p.Policy, argv, ld.Protected(p))
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		spec, err := plan.LaunchSpec(self)
		if err != nil {
			return err
		}
		return c.printJSON(c.stdout, spec)
	}
	l.search.flags(cmd)
	l.flags(cmd)
	armFlag(cmd, &arm)
	return cmd
}

// armSpec prints the launch in the form of the arm itself, which only Seatbelt
// has: on Linux the launcher confines itself, and nothing else is executed.
func (l *launch) armSpec(c *cli, here *resolve.Facts, arm string, p *resolve.Policy, argv []string, protected []resolve.Protected) error {
	if arm != "seatbelt" {
		return usagef("`confinectl spec --arm seatbelt`, or none of the two for the wrapper", "the arm %q has no program of its own to spawn", arm)
	}
	f, err := factsOf(here, arm)
	if err != nil {
		return err
	}
	b, err := l.boundary(c, f, p, argv, protected)
	if err != nil {
		return err
	}
	s, err := enforce.Seatbelt(b)
	if err != nil {
		return err
	}
	spec, err := s.LaunchSpec()
	if err != nil {
		return err
	}
	return c.printJSON(c.stdout, spec)
}

func policyCommand(c *cli) *command.Command {
	s := &search{}
	cmd := &command.Command{
		Use:   "policy [flags] PROFILE",
		Short: "Print the JSON policy of a profile, for confine-exec on another host",
		Long: `Print what remains of a profile after merging, before any fact of this host:
the JSON that "confinectl confine-exec --policy" takes on another one. The parts
for other operating systems travel with it.`,
		Complete: c.completeProfiles(s),
	}
	cmd.Run = func(args command.Args) error {
		name, _, err := profileAndMaybeCommand(cmd.Name(), args)
		if err != nil {
			return err
		}
		f := c.facts()
		p, err := s.loader(f).Load(name)
		if err != nil {
			return err
		}
		if s.permitPath != "" {
			if err := p.Policy.SetPermitPath(f.Absolute(s.permitPath)); err != nil {
				return err
			}
		}
		if v, uses := p.Policy.UsesCwd(); uses {
			return cwdNotPortable(v)
		}
		_, err = c.stdout.Write(resolve.EncodePolicy(p.Policy))
		return err
	}
	s.flags(cmd)
	return cmd
}

func errText(err error) string {
	if pe, ok := err.(interface{ Unwrap() error }); ok && pe.Unwrap() != nil {
		err = pe.Unwrap()
	}
	return strings.ToLower(err.Error())
}
