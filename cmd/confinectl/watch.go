package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

func watchCommand(c *cli) *command.Command {
	w := &watcher{cli: c}
	cmd := &command.Command{
		Use:   "watch [flags] [PROFILE…]",
		Short: "Validate profiles now and after each change, one line per event",
		Long: `Validate the named profiles, or all of the search path, now and again after each
change, and print one line for each event: loaded, changed (with what is granted
more and less), broken (with the refusal; the last good value is kept), recovered,
withdrawn. A profile that is refused at the start is broken, and watched all the same.

Validating goes the whole way of exec, short of making or executing anything.
SIGHUP validates everything again at once, SIGTERM and SIGINT end with status 0.
With NOTIFY_SOCKET set, systemd is told when watch is ready, reloading and stopping.`,
		Example: `  confinectl watch --json
  confinectl watch --once workspace && echo fine`,
	}
	cmd.Complete = c.completeProfiles(&w.launch.search)
	var once bool
	cmd.Run = func(args command.Args) error {
		signals := make(chan os.Signal, 4)
		signal.Notify(signals, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT)
		defer signal.Stop(signals)
		w.now, w.facts = time.Now, c.facts()
		w.loader = w.launch.loader(w.facts)
		store, err := loader.Open(w.loader, loader.StoreOptions{Names: args.All(), Judge: w.judge, AllowBroken: true})
		if err != nil {
			return err
		}
		if once {
			return w.once(store)
		}
		return w.run(store, signals)
	}
	w.launch.search.flags(cmd)
	cmd.Flags.BoolVar(&w.asJSON, "json", false, "print one JSON object per event, each on one line")
	cmd.Flags.BoolVar(&once, "once", false, "validate once and end; the status is 1 where a profile is broken")
	cmd.Flags.StringVar(&w.metrics, "metrics", "", "keep metrics in the Prometheus text format in `FILE`")
	return cmd
}

// watcher is one run of watch.
type watcher struct {
	cli     *cli
	launch  launch
	facts   *resolve.Facts
	loader  *loader.Loader
	now     func() time.Time
	asJSON  bool
	metrics string // file; empty: none
}

// judge goes the whole way of exec, short of executing. A template passes, because
// only a launch gives it its directory; --permit-path gives one here.
func (w *watcher) judge(p *loader.Loaded) error {
	protected := w.loader.Protected(p)
	l := launch{}
	plan, err := l.plan(w.cli, w.facts, p.Policy, nil, protected)
	if template(err) && w.launch.permitPath != "" {
		plan, err = w.launch.plan(w.cli, w.facts, p.Policy, nil, protected)
	}
	if template(err) {
		return nil
	}
	if err == nil {
		err = plan.Rehearse()
	}
	if err == nil {
		p.Value = effectOf(showJSON(p, plan.Boundary(), plan.Host()))
	}
	return err
}

// template reports whether all that is wrong is that a launch has to give the permit path.
func template(err error) bool {
	return errors.Is(err, resolve.PermitMissing) && len(refusals(err)) == 1
}

func (w *watcher) once(store *loader.Store) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var broken error
	if len(store.Statuses()) > 0 {
		batch := <-store.Changes(ctx)
		for _, change := range batch {
			if change.Err != nil {
				broken = errProblems
			}
		}
		if err := w.print(batch); err != nil {
			return err
		}
	}
	if err := w.writeMetrics(store); err != nil {
		return err
	}
	return broken
}

// run prints events until a signal ends it. SIGHUP reloads.
func (w *watcher) run(store *loader.Store, signals <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	manager := newSystemd(w.facts)
	done := make(chan error, 1)
	go func() { done <- store.Watch(ctx) }()
	changes := store.Changes(ctx)
	heartbeat := time.NewTicker(30 * time.Second) // the age of the file says whether somebody watches
	defer heartbeat.Stop()
	if len(store.Statuses()) > 0 {
		if err := w.print(<-changes); err != nil {
			return err
		}
	}
	if err := w.writeMetrics(store); err != nil {
		return err
	}
	said := false
	for manager.ready(); ; {
		if err := w.writeMetrics(store); err != nil && !said {
			said = true // watching goes on without
			w.cli.report(err, statusProblems)
		}
		select {
		case batch := <-changes:
			if err := w.print(batch); err != nil {
				return err
			}
		case sig := <-signals:
			if sig != syscall.SIGHUP {
				manager.stopping()
				cancel()
				return <-done
			}
			manager.reloading()
			store.Reload()
			manager.ready()
		case <-heartbeat.C:
		}
	}
}

// eventJSON is one line of `watch --json`.
type eventJSON struct {
	Time     string        `json:"time"` // RFC 3339, UTC
	Event    string        `json:"event"`
	Profile  string        `json:"profile,omitempty"` // empty: the search path itself, or watching
	File     string        `json:"file,omitempty"`
	Hash     string        `json:"hash,omitempty"`     // over every file that takes part in the value
	LastGood bool          `json:"last_good,omitzero"` // broken: an older value is kept
	Template bool          `json:"template,omitzero"`  // needs --permit-path: its rules cannot be compared
	Added    []changeJSON  `json:"added,omitempty"`
	Removed  []changeJSON  `json:"removed,omitempty"`
	Refusals []refusalJSON `json:"refusals,omitempty"`
	Detail   string        `json:"detail,omitempty"` // polling: why
}

// print writes all events of one reload.
func (w *watcher) print(batch []loader.Change) error {
	var out strings.Builder
	for _, change := range batch {
		e := w.event(change)
		if !w.asJSON {
			out.WriteString(e.String() + "\n")
			continue
		}
		line, err := marshal(e)
		if err != nil {
			return err
		}
		out.Write(line)
	}
	_, err := w.cli.stdout.Write([]byte(out.String()))
	return err
}

func (w *watcher) event(change loader.Change) eventJSON {
	e := eventJSON{Time: w.now().UTC().Format("2006-01-02T15:04:05.000Z"), Event: string(change.Kind), Profile: change.Name}
	if p := change.New; p != nil {
		now, ok := p.Value.(effect)
		e.File, e.Hash, e.Template = p.File, change.Hash, !ok
		e.LastGood = change.Kind == loader.ProfileBroken
		if change.Old != nil && change.Old != p {
			old, _ := change.Old.Value.(effect)
			d := now.since(old)
			e.Added, e.Removed = d.Added, d.Removed
		}
	}
	for _, r := range refusals(change.Err) {
		e.Refusals = append(e.Refusals, toJSON(r))
	}
	if change.Err != nil && len(e.Refusals) == 0 {
		e.Detail = change.Err.Error()
	}
	return e
}

// String is the event on one line, for people.
func (e eventJSON) String() string {
	parts := []string{e.Time, e.Event}
	if e.Profile != "" {
		parts = append(parts, e.Profile)
	}
	if e.File != "" {
		parts = append(parts, e.File)
	}
	for _, r := range e.Removed {
		parts = append(parts, "-"+r.String())
	}
	for _, a := range e.Added {
		parts = append(parts, "+"+a.String())
	}
	if e.LastGood {
		parts = append(parts, "(last good value kept)")
	}
	for _, r := range e.Refusals {
		refusal := resolve.Refusal{Code: resolve.Code(r.Code), Subject: r.Subject, Detail: r.Detail, Origin: resolve.Origin{File: r.File, Key: r.Key, Line: r.Line}}
		parts = append(parts, "refused: "+refusal.Error())
	}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	return strings.Join(parts, "  ")
}
