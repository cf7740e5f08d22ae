package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/enforce/probe"
	"github.com/confinectl/confinectl/findings"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

// A profile's status in check, the worst first.
const (
	checkBreached   = "breached"   // an attempt succeeded that the boundary should deny
	checkRefused    = "refused"    // exec refuses it
	checkUnmeasured = "unmeasured" // nothing was proven
	checkTemplate   = "template"   // needs --permit-path
	checkOK         = "ok"
)

var checkStatuses = []string{checkBreached, checkRefused, checkUnmeasured, checkTemplate, checkOK}

// insideCommand is the argument by which this program becomes the probe of check inside a
// boundary. It is no command: [probe.Inside] does nothing for anybody but check.
const insideCommand = "check-inside"

func inside(stderr io.Writer) int {
	if err := probe.Inside(); err != nil {
		fmt.Fprintln(stderr, "confinectl: usage:", err)
		return statusUsage
	}
	return 0
}

func checkCommand(c *cli) *command.Command {
	k := &checker{cli: c}
	var asJSON bool
	cmd := &command.Command{
		Use:   "check [flags] [PROFILE…] [-- CMD [ARG…]]",
		Short: "Measure the boundary of each profile on this host, with a control for each attempt",
		Long: `Measure the boundary of each named profile, or of all of the search path, on
this host. Three parts: the host; everything that exec does, short of executing;
and the proof: a probe inside the boundary tries to get out, in every way that is
known, after the same attempt was seen to work outside.

Then it looks through the roots for what an operator should know: files that
run outside later, hard links, mount points, sockets within reach. docs/check.md
explains every row and every finding.

Nothing is changed that is not removed again, and directories that exec would
make are not made. With a command, one profile is named: CMD really runs, first
unconfined, then confined, in the permit path, and where the exit statuses
differ a third time, to find the paths that were denied.`,
		Example: `  confinectl check
  confinectl check workspace -- make test
  confinectl check --permit-path /srv/tenants/a tenant`,
	}
	cmd.Complete = c.completeProfiles(&k.launch.search)
	cmd.Run = func(args command.Args) error {
		names, argv, err := namesAndCommand(args)
		if err != nil {
			return err
		}
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		defer stop()
		r, err := k.check(ctx, names, argv)
		switch {
		case ctx.Err() != nil:
			fmt.Fprintln(c.stderr, "confinectl: interrupted: what check made is removed")
			return errProblems
		case err != nil:
			return err
		case asJSON:
			err = c.printJSON(c.stdout, r)
		default:
			err = k.print(r)
		}
		if err == nil && !r.fine() {
			err = errProblems
		}
		return err
	}
	k.launch.search.flags(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.Flags.BoolVar(&k.static, "no-measure", false, "start no probe, and do not look through the roots")
	return cmd
}

// namesAndCommand takes "[PROFILE…] [-- CMD…]" apart.
func namesAndCommand(args command.Args) (names, argv []string, err error) {
	switch {
	case args.Dash && args.After == nil:
		return nil, nil, usagef("", "check needs a command after --, or no --")
	case args.Dash && len(args.Before) != 1:
		return nil, nil, usagef("", "check takes one profile with a command, and %d are named", len(args.Before))
	}
	return args.Before, args.After, nil
}

// checkReport is the document of check --json; docs/check.md describes it.
type checkReport struct {
	Host     checkHost     `json:"host"`
	Measured bool          `json:"measured"` // false with --no-measure
	Profiles []*checkEntry `json:"profiles"`
}

type checkHost struct {
	hostJSON
	InsideDomain string `json:"inside_domain"` // how it shows that check itself is confined; empty: no sign
}

type checkEntry struct {
	Name        string             `json:"name"`
	File        string             `json:"file"`
	Files       []string           `json:"files"` // all that took part, in merging order
	Status      string             `json:"status"`
	Detail      string             `json:"detail"` // why it is unmeasured
	Refusal     *refusalJSON       `json:"refusal"`
	Refusals    []refusalJSON      `json:"refusals"`
	Shadows     []string           `json:"shadows"`
	Guarantees  []string           `json:"guarantees"`
	Probes      []probe.Result     `json:"probes"`
	NotMeasured []string           `json:"not_measured"` // controls that could not be done
	Findings    []findings.Finding `json:"findings"`
	Command     *commandJSON       `json:"command"`

	problems resolve.Refusals
}

// fine is exit status 0.
func (r *checkReport) fine() bool {
	return r.Host.Missing == nil && !slices.ContainsFunc(r.Profiles, func(e *checkEntry) bool {
		return e.Status != checkOK && e.Status != checkTemplate || e.Command != nil && !e.Command.Same
	})
}

// checker is one run of check.
type checker struct {
	cli    *cli
	launch launch
	static bool // --no-measure

	facts   *resolve.Facts
	host    enforce.Host
	loader  *loader.Loader
	scanner *findings.Scanner
	prober  func() (*probe.Prober, error) // made when the first profile needs it
	all     bool                          // no profile was named
}

// check looks at the named profiles, or at all of them, several at a time.
func (k *checker) check(ctx context.Context, names, argv []string) (*checkReport, error) {
	k.facts, k.host, k.all = k.cli.facts(), enforce.Probe(), len(names) == 0
	k.loader = k.launch.loader(k.facts)
	k.scanner = findings.NewScanner(k.facts)
	k.scanner.Own = probe.Prefix
	entries, err := k.entries(names)
	if err != nil {
		return nil, err
	}
	workers := min(runtime.GOMAXPROCS(0), max(len(entries), 1))
	var started *probe.Prober
	k.prober = sync.OnceValues(func() (p *probe.Prober, err error) {
		p, err = k.newProber(workers)
		started = p
		return p, err
	})
	queue := make(chan *checkEntry)
	done := k.progress(len(entries))
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for i := range workers {
		w := k.worker()
		wg.Go(func() {
			for e := range queue {
				if errs[i] == nil {
					errs[i] = w.one(ctx, e, argv)
				}
				done()
			}
		})
	}
	for _, e := range entries {
		if ctx.Err() == nil {
			queue <- e
		}
	}
	close(queue)
	wg.Wait()
	if started != nil {
		started.Close()
	}
	report := &checkReport{Host: checkHost{hostJSON: toHostJSON(k.facts, k.host)}, Measured: !k.static, Profiles: entries}
	report.Host.InsideDomain = probe.Outer([]string{"/", k.facts.Home, k.facts.TmpRoot, "/var/tmp"})
	return report, errors.Join(errs...)
}

// worker is a checker for one goroutine. Where nothing is started it looks at the host
// once for all its profiles; a measurement takes time, and changes what there is.
func (k *checker) worker() *checker {
	w := *k
	if k.static {
		w.loader = w.launch.look(k.facts)
	}
	return &w
}

// entries lists the profiles, each once.
func (k *checker) entries(names []string) ([]*checkEntry, error) {
	listed, broken := k.loader.List()
	if broken != nil && k.all {
		return nil, broken
	}
	byName := map[string]*checkEntry{}
	entries := []*checkEntry{}
	entry := func(name string) *checkEntry {
		e := byName[name]
		if e == nil {
			e = &checkEntry{Name: name, Status: checkOK, Files: []string{}, Refusals: []refusalJSON{}, Shadows: []string{}, Guarantees: []string{},
				Probes: []probe.Result{}, NotMeasured: []string{}, Findings: []findings.Finding{}}
			byName[name] = e
			entries = append(entries, e)
		}
		return e
	}
	for _, name := range names {
		entry(name)
	}
	for _, l := range listed {
		if !k.all && byName[l.Name] == nil {
			continue
		}
		if e := entry(l.Name); l.ShadowedBy == "" {
			e.File = l.File
		} else {
			e.Shadows = append(e.Shadows, l.File)
			e.Findings = append(e.Findings, findings.New(findings.Shadowed, l.File, "by "+l.ShadowedBy))
		}
	}
	return entries, nil
}

// one checks one profile. What is returned is no problem of the profile.
func (k *checker) one(ctx context.Context, e *checkEntry, argv []string) error {
	p, err := k.loader.Load(e.Name)
	if err != nil {
		return e.refuse(err)
	}
	e.File, e.Files = p.File, notNull(p.Files)
	l := k.launch
	if k.all && permits(p.Policy) {
		l.permitPath = "" // it was given for the templates among them
	}
	protected := k.loader.Protected(p)
	plan, err := l.plan(k.cli, k.facts, p.Policy, argv, protected)
	if err == nil {
		e.Guarantees = notNull(enforce.Guarantees(plan.Host().Used).Confined)
		err = plan.Rehearse()
	}
	if err != nil {
		return e.refuse(err)
	}
	if k.static {
		e.Findings = findings.Sort(append(e.Findings, findings.Static(plan.Boundary())...))
		return nil
	}
	if err := k.measure(ctx, e, &l, p, protected); err != nil {
		return err
	}
	e.Findings = findings.Sort(append(e.Findings, k.scanner.Scan(plan.Boundary(), plan.Host().Used)...))
	if argv != nil && ctx.Err() == nil {
		e.Command = k.compare(ctx, &l, e.Name, plan, argv)
	}
	return nil
}

// measure resolves the profile again, with the probe as its command, and has it try.
func (k *checker) measure(ctx context.Context, e *checkEntry, l *launch, p *loader.Loaded, protected []resolve.Protected) error {
	prober, err := k.prober()
	if err != nil {
		e.Status, e.Detail = checkUnmeasured, "the probe cannot be started: "+err.Error()
		return nil
	}
	f := *k.facts
	f.Env = append(slices.Clone(f.Env), prober.Variable())
	plan, err := l.plan(k.cli, &f, p.Policy, prober.Command(), protected)
	if err != nil {
		return e.refuse(err)
	}
	r := prober.Measure(ctx, plan)
	e.Probes, e.NotMeasured = append(e.Probes, r.Rows...), append(e.NotMeasured, r.Skipped...)
	switch {
	case r.Count(probe.Breached) > 0:
		e.Status = checkBreached
	case r.Unmeasured != "":
		e.Status, e.Detail = checkUnmeasured, r.Unmeasured
	case !r.Proven():
		e.Status, e.Detail = checkUnmeasured, r.Rows[0].Name+": "+r.Rows[0].Control
	}
	if r.Killed != nil {
		e.Findings = append(e.Findings, findings.New(findings.ControlFailed, r.Killed.Path, ""))
	}
	return nil
}

func (k *checker) newProber(parallel int) (*probe.Prober, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := k.facts
	return probe.New(probe.Options{Self: self, Entry: []string{insideCommand}, Wider: []string{"confine-exec", "--keep-fd=3,4", "--policy"},
		Places: []string{f.TmpRoot, "/tmp", "/var/tmp", f.CacheHome, f.StateHome, f.Home, f.RuntimeDir}, Parallel: parallel})
}

// refuse puts refusals into the entry. An error that is none is given back.
func (e *checkEntry) refuse(err error) error {
	if e.problems = refusals(err); e.problems == nil {
		return err
	}
	e.Status = checkRefused
	if template(err) {
		e.Status = checkTemplate
		return nil
	}
	for _, r := range e.problems {
		e.Refusals = append(e.Refusals, toJSON(r))
	}
	e.Refusal = &e.Refusals[0]
	return nil
}

// permits reports whether a policy has a permit path of its own.
func permits(p *resolve.Policy) bool {
	return p.Common.PermitPath.Text != "" || p.Linux.PermitPath.Text != "" || p.Darwin.PermitPath.Text != ""
}
