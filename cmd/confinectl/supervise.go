package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

func superviseCommand(c *cli) *command.Command {
	s := &supervisor{cli: c}
	cmd := &command.Command{
		Use:   "supervise [flags] PROFILE -- CMD [ARG…]",
		Short: "Keep CMD under the boundary that its profile draws now",
		Long: `Run CMD confined, as a child, and end with its status; one that a signal ended
counts as 128 and the number of the signal. Signals are passed on to CMD, and so
is the terminal.

When the profile changes to another valid boundary, CMD is stopped (SIGTERM, then
SIGKILL after --grace) and started again under that one. A change that leaves the
boundary the same restarts nothing. A profile that is broken changes nothing, and
is said on stderr once. A profile that is withdrawn stops CMD: the status is 125.
CMD is not started again when it ends by itself.`,
		Example: `  confinectl supervise tenant --permit-path /srv/a -- ./server`,
	}
	cmd.Complete = c.completeProfiles(&s.launch.search)
	cmd.Run = func(args command.Args) error {
		name, argv, err := profileAndCommand(cmd.Name(), args)
		if err != nil {
			return err
		}
		if s.grace < 0 {
			return usagef("`--grace 10s`", "the grace %s is negative", s.grace)
		}
		signals := make(chan os.Signal, 16)
		signal.Notify(signals, passedOn...)
		defer signal.Stop(signals)
		s.argv, s.facts = argv, c.facts()
		s.loader = s.launch.loader(s.facts)
		store, err := loader.Open(s.loader, loader.StoreOptions{Names: []string{name}, Judge: s.judge})
		if err != nil {
			return err
		}
		return s.run(store, name, signals)
	}
	s.launch.search.flags(cmd)
	cmd.Flags.StringVar(&s.launch.dir, "cd", "", "start in this `directory` instead of the permit path; it must be granted")
	cmd.Flags.DurationVar(&s.grace, "grace", 10*time.Second, "how long CMD may take to end after SIGTERM")
	return cmd
}

// passedOn are the signals that somebody may mean CMD with. The terminal's own
// go to CMD directly, because it is in the foreground.
var passedOn = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH}

// endings are those that ask for an end.
var endings = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// supervisor is one run of supervise.
type supervisor struct {
	cli    *cli
	launch launch
	grace  time.Duration
	argv   []string
	facts  *resolve.Facts
	loader *loader.Loader

	terminal terminal
	child    *enforce.Process
	running  effect // of the boundary that child is under
}

// judged is what a supervisor keeps with a profile.
type judged struct {
	plan   *enforce.Plan
	effect effect
}

// judge goes the whole way of exec, short of executing.
func (s *supervisor) judge(p *loader.Loaded) error {
	plan, err := s.launch.plan(s.cli, s.facts, p.Policy, s.argv, s.loader.Protected(p))
	if err != nil {
		return err
	}
	if err := plan.Rehearse(); err != nil {
		return err
	}
	b := showJSON(p, plan.Boundary(), plan.Host())
	b.MinABI, b.Open = 0, nil // what is asked of a host, not what the command is under
	p.Value = judged{plan, effectOf(b)}
	return nil
}

// run starts the command and stays until it has ended for good.
func (s *supervisor) run(store *loader.Store, name string, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go store.Watch(ctx)
	changes := store.Changes(ctx)
	p, err := store.Current(name)
	if err != nil {
		return err
	}
	if err := s.start(p); err != nil {
		return err
	}
	defer func() { s.terminal.takeBack(s.child) }()
	for {
		select {
		case <-s.child.Done():
			return ended(s.child)
		case sig := <-signals:
			_ = s.child.Signal(sig) // it may have ended by now
		case batch := <-changes:
			for _, change := range batch {
				if err := s.follow(change, signals); err != nil {
					return err
				}
			}
		}
	}
}

// follow does what a change of the profile asks for. An error ends supervise.
func (s *supervisor) follow(change loader.Change, signals <-chan os.Signal) error {
	switch change.Kind {
	case loader.ProfileWithdrawn:
		if err := s.stop(signals); err != nil {
			return err
		}
		return change.Err
	case loader.ProfileBroken:
		for _, r := range refusals(change.Err) {
			fmt.Fprintf(s.cli.stderr, "confinectl: the profile is broken, the boundary stays: %s\n", r.Error())
		}
	case loader.WatchPolling:
		fmt.Fprintf(s.cli.stderr, "confinectl: changes are found by polling: %s\n", change.Err)
	case loader.ProfileLoaded, loader.ProfileChanged, loader.ProfileRecovered:
		if change.New.Value.(judged).effect.since(s.running).none() {
			return nil
		}
		if err := s.stop(signals); err != nil {
			return err
		}
		return s.start(change.New)
	}
	return nil
}

// start starts the command in a process group of its own, in the foreground
// of the terminal where that is ours to give.
func (s *supervisor) start(p *loader.Loaded) error {
	j := p.Value.(judged)
	o := enforce.StartOptions{Setpgid: true, Foreground: s.terminal.ours(s.child), Ctty: terminalFD}
	o.Stdin, _ = s.cli.stdin.(*os.File)
	o.Stdout, _ = s.cli.stdout.(*os.File)
	o.Stderr, _ = s.cli.stderr.(*os.File)
	child, err := j.plan.Start(o)
	if err != nil {
		return err
	}
	s.child, s.running = child, j.effect
	s.terminal.follow(child)
	return nil
}

// stop ends the command and whatever is left in its process group: SIGTERM,
// and SIGKILL when the grace is over. A command that has ended by itself, or
// whose end somebody asked for meanwhile, ends supervise too: with its status.
func (s *supervisor) stop(signals <-chan os.Signal) error {
	select {
	case <-s.child.Done():
		return ended(s.child)
	default:
	}
	group := -s.child.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	_ = syscall.Kill(group, syscall.SIGCONT) // one that is stopped could not end
	over, look := time.NewTimer(s.grace), time.NewTicker(10*time.Millisecond)
	defer over.Stop()
	defer look.Stop()
	asked, killed := false, false
	for !killed && syscall.Kill(group, 0) == nil {
		select {
		case <-over.C:
			_ = syscall.Kill(group, syscall.SIGKILL)
			killed = true
		case sig := <-signals:
			_ = s.child.Signal(sig)
			asked = asked || slices.Contains(endings, sig)
		case <-look.C:
		}
	}
	<-s.child.Done()
	if asked {
		return ended(s.child)
	}
	return nil
}

// ended is the status of a command that has ended, as a shell reports it.
func ended(p *enforce.Process) error {
	state, err := p.Wait()
	if err != nil {
		return fmt.Errorf("BUG: the command cannot be waited for: %w", err)
	}
	status, ok := state.Sys().(syscall.WaitStatus)
	switch {
	case !ok:
		return errors.New("BUG: the command ended without a status")
	case status.Signaled():
		return exitStatus(128 + int(status.Signal()))
	case status.ExitStatus() == 0:
		return nil
	}
	return exitStatus(status.ExitStatus())
}
