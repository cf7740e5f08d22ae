package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

type listEntry struct {
	Name        string      `json:"name"`
	Layer       string      `json:"layer"`
	File        string      `json:"file"`
	Description string      `json:"description"`
	ShadowedBy  string      `json:"shadowed_by,omitempty"`
	Refusal     refusalJSON `json:"refusal,omitzero"`
}

func listCommand(c *cli) *cobra.Command {
	s := &search{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the profiles of the search path",
		Long: `List the profiles of the search path, with the layer each one comes from, and
which files are shadowed by another of the same name. A profile that cannot be
loaded is listed with its first problem, and the status is 1.`,
		Args: noArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		ld := s.loader(c.facts())
		entries, broken := ld.List()
		list := []listEntry{}
		var failed error
		for _, e := range entries {
			out := listEntry{Name: e.Name, Layer: e.Layer.Name, File: e.File, ShadowedBy: e.ShadowedBy}
			if e.ShadowedBy == "" {
				p, err := ld.Load(e.Name)
				if err != nil {
					out.Refusal, failed = toJSON(refusals(err)[0]), errProblems
				} else {
					out.Description = p.Description
				}
			}
			list = append(list, out)
		}
		if asJSON {
			if err := c.printJSON(c.stdout, map[string]any{"profiles": list}); err != nil {
				return err
			}
		} else {
			w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
			for _, e := range list {
				text := e.Description
				switch {
				case e.Refusal.Code != "":
					text = "refused: " + e.Refusal.Code + ": " + e.Refusal.Detail
				case e.ShadowedBy != "":
					text = "shadowed by " + e.ShadowedBy
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", e.Name, e.Layer, e.File, text)
			}
			w.Flush()
			if len(list) == 0 && broken == nil {
				fmt.Fprintln(c.stdout, "no profiles in", layerNames(ld))
			}
		}
		if broken != nil {
			return broken
		}
		return failed
	}
	s.dirFlag(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func layerNames(ld *loader.Loader) string {
	names := ""
	for i, l := range ld.Layers {
		if i > 0 {
			names += ", "
		}
		names += l.Dir
	}
	return names
}

func explainCommand(c *cli) *cobra.Command {
	l := &launch{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain [flags] PROFILE PATH [-- CMD [ARG…]]",
		Short: "Say whether PATH may be read, written and executed, and by which rule",
		Long: `Say whether a program under PROFILE may read, write and execute PATH, and by
which rule. It follows the rules of the boundary and attempts nothing; "confinectl check"
measures. File permissions still apply on top. PATH need not exist.`,
	}
	cmd.ValidArgsFunction = c.completeProfiles(&l.search)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dash := cmd.ArgsLenAtDash()
		if dash < 0 {
			dash = len(args)
		}
		if dash != 2 {
			return usagef("usage: "+cmd.UseLine(), "explain takes a profile and a path")
		}
		var argv []string
		if len(args) > 2 {
			argv = args[2:]
		}
		f := c.facts()
		ld := l.loader(f)
		p, err := ld.Load(args[0])
		if err != nil {
			return err
		}
		request, err := l.request(c, f, argv, ld.Protected(p))
		if err != nil {
			return err
		}
		b, err := resolve.Resolve(p.Policy, f, request)
		if err != nil {
			return err
		}
		e, err := b.Explain(f.Absolute(args[1]))
		if err != nil {
			return err
		}
		return c.printExplanation(e, asJSON)
	}
	l.search.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *cli) printExplanation(e resolve.Explanation, asJSON bool) error {
	type answer struct {
		Allowed bool   `json:"allowed"`
		Rule    string `json:"rule,omitempty"` // the path of the rule that decides
		Because string `json:"because,omitempty"`
	}
	of := func(a resolve.Access) answer {
		r := e.By(a)
		if r == nil {
			return answer{}
		}
		return answer{true, r.Path, because(r.Reasons)}
	}
	answers := []struct {
		word string
		answer
	}{{"read", of(resolve.Read)}, {"write", of(resolve.Write)}, {"execute", of(resolve.Execute)}}
	if asJSON {
		out := map[string]any{"path": e.Path, "real": e.Real, "exists": e.Exists}
		for _, a := range answers {
			out[a.word] = a.answer
		}
		return c.printJSON(c.stdout, out)
	}
	fmt.Fprintln(c.stdout, e.Path)
	if e.Real != e.Path {
		fmt.Fprintln(c.stdout, "  is", e.Real)
	}
	if !e.Exists {
		fmt.Fprintln(c.stdout, "  does not exist")
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, a := range answers {
		if a.Allowed {
			fmt.Fprintf(w, "  %s\tyes\t%s\t%s\n", a.word, a.Rule, a.Because)
		} else {
			fmt.Fprintf(w, "  %s\tno\tno rule grants it\n", a.word)
		}
	}
	return w.Flush()
}

type hostJSON struct {
	OS            string       `json:"os"`
	Kernel        string       `json:"kernel"`
	Arm           string       `json:"arm"` // empty: nothing can be enforced here
	ABI           int          `json:"abi"`
	OfferedABI    int          `json:"offered_abi"`
	NewestABI     int          `json:"newest_abi"` // that this program knows
	Lowered       string       `json:"lowered,omitempty"`
	Errata        int          `json:"errata"`
	LegacyTIOCSTI string       `json:"legacy_tiocsti,omitempty"`
	Missing       *refusalJSON `json:"missing,omitempty"`
	Confined      []string     `json:"confined"`
	Open          []string     `json:"open"`
}

func toHostJSON(f *resolve.Facts, h enforce.Host) hostJSON {
	g := enforce.Guarantees(h.Used)
	out := hostJSON{OS: f.OS, Kernel: h.Release, Arm: h.Arm, ABI: h.Used, OfferedABI: h.Offered, NewestABI: enforce.NewestABI, Lowered: h.Lowered,
		Errata: h.Errata, LegacyTIOCSTI: h.LegacyTIOCSTI, Confined: g.Confined, Open: g.Open}
	if h.Missing != nil {
		m := toJSON(h.Missing)
		out.Missing, out.Arm = &m, ""
	}
	return out
}

func hostLine(f *resolve.Facts, h enforce.Host) string {
	s := f.OS + " " + h.Release
	if h.Missing != nil {
		return s + ": " + h.Missing.Error()
	}
	s += fmt.Sprintf(", Landlock ABI %d", h.Used)
	if h.Lowered != "" {
		s += fmt.Sprintf(" (the kernel offers %d; %s)", h.Offered, h.Lowered)
	}
	return s
}

func factsCommand(c *cli) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "facts",
		Short: "Print what this host and this caller contribute to a boundary",
		Args:  noArgs,
	}
	cmd.RunE = func(*cobra.Command, []string) error {
		f, h := c.facts(), enforce.Probe()
		if asJSON {
			values := map[string]string{}
			for _, name := range resolve.FactNames() {
				values[name], _ = f.Lookup(name)
			}
			return c.printJSON(c.stdout, map[string]any{"host": toHostJSON(f, h), "facts": values, "terminals": append([]string{}, f.Terminals...)})
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "host\t%s\n", hostLine(f, h))
		fmt.Fprintf(w, "newest ABI known\t%d\n", enforce.NewestABI)
		fmt.Fprintf(w, "errata fixed\t%#x\n", h.Errata)
		if h.LegacyTIOCSTI != "" {
			fmt.Fprintf(w, "dev.tty.legacy_tiocsti\t%s\n", h.LegacyTIOCSTI)
		}
		for _, name := range resolve.FactNames() {
			value, _ := f.Lookup(name)
			if value == "" {
				value = "(unset)"
			}
			fmt.Fprintf(w, "${%s}\t%s\n", name, value)
		}
		for _, t := range f.Terminals {
			fmt.Fprintf(w, "terminal\t%s\n", t)
		}
		return w.Flush()
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// A profile's status in check.
const (
	statusOK       = "ok"
	statusRefusedP = "refused"
	statusTemplate = "template"
)

type checkEntry struct {
	Name       string        `json:"name"`
	File       string        `json:"file"`
	Status     string        `json:"status"` // ok, refused, or template: needs --permit-path
	Refusal    *refusalJSON  `json:"refusal,omitempty"`
	Refusals   []refusalJSON `json:"refusals,omitempty"`
	Shadows    []string      `json:"shadows,omitempty"`
	Guarantees []string      `json:"guarantees"`

	problems resolve.Refusals
}

func checkCommand(c *cli) *cobra.Command {
	l := &launch{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check [flags] [PROFILE…] [-- CMD [ARG…]]",
		Short: "Go the whole way of exec, short of executing, for each profile",
		Long: `Go the whole way of exec, short of executing, for each named profile or for all
of the search path: load, resolve, ask the kernel, open every path, build the
ruleset. Nothing is made, changed or executed. All problems are printed. A
profile that needs --permit-path is a template and no problem.`,
	}
	cmd.ValidArgsFunction = c.completeProfiles(&l.search)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var argv []string
		if dash := cmd.ArgsLenAtDash(); dash >= 0 {
			if args, argv = args[:dash], args[dash:]; len(argv) == 0 {
				return usagef("usage: "+cmd.UseLine(), "check needs a command after --, or no --")
			}
		}
		f, h := c.facts(), enforce.Probe()
		entries, err := l.check(c, f, args, argv)
		if err != nil {
			return err
		}
		if asJSON {
			if err := c.printJSON(c.stdout, map[string]any{"host": toHostJSON(f, h), "profiles": entries}); err != nil {
				return err
			}
		} else {
			c.printCheck(f, h, entries)
		}
		for _, e := range entries {
			if e.Status == statusRefusedP {
				return errProblems
			}
		}
		if h.Missing != nil {
			return errProblems
		}
		return nil
	}
	l.search.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// check looks at the named profiles, or at all of them.
func (l *launch) check(c *cli, f *resolve.Facts, names, argv []string) ([]checkEntry, error) {
	ld := l.loader(f)
	listed, broken := ld.List()
	all := len(names) == 0
	if broken != nil && all {
		return nil, broken
	}
	shadows, files := map[string][]string{}, map[string]string{}
	for _, e := range listed {
		if e.ShadowedBy != "" {
			shadows[e.Name] = append(shadows[e.Name], e.File)
			continue
		}
		files[e.Name] = e.File
		if all {
			names = append(names, e.Name)
		}
	}
	entries := []checkEntry{}
	for _, name := range names {
		e := checkEntry{Name: name, File: files[name], Status: statusOK, Shadows: shadows[name], Guarantees: []string{}}
		p, err := ld.Load(name)
		if err == nil {
			e.File = p.File
			var plan *enforce.Plan
			if plan, err = l.plan(c, f, p.Policy, argv, ld.Protected(p)); err == nil {
				e.Guarantees = enforce.Guarantees(plan.Host().Used).Confined
				err = plan.Rehearse()
			}
		}
		if err != nil {
			e.problems = refusals(err)
			if e.problems == nil {
				return nil, err
			}
			e.Status = statusRefusedP
			if len(e.problems) == 1 && errors.Is(err, resolve.PermitMissing) {
				e.Status = statusTemplate
			} else {
				for _, r := range e.problems {
					e.Refusals = append(e.Refusals, toJSON(r))
				}
				e.Refusal = &e.Refusals[0]
			}
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// printCheck prints the worst first. What the host lacks is said once, with the
// host, and not again for every profile that cannot run for it.
func (c *cli) printCheck(f *resolve.Facts, h enforce.Host, entries []checkEntry) {
	fmt.Fprintf(c.stdout, "host  %s\n", hostLine(f, h))
	if h.Missing != nil {
		for _, hint := range h.Missing.Hints {
			fmt.Fprintf(c.stdout, "      hint: %s\n", hint)
		}
	}
	fmt.Fprintln(c.stdout)
	if len(entries) == 0 {
		fmt.Fprintln(c.stdout, "no profiles: `confinectl list` says where they are searched")
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, status := range []string{statusRefusedP, statusTemplate, statusOK} {
		for _, e := range entries {
			if e.Status != status {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", e.Status, e.Name, e.File)
			for _, r := range e.problems {
				if status == statusTemplate || h.Missing != nil && r.Error() == h.Missing.Error() {
					continue
				}
				fmt.Fprintf(w, "\t  %s\n", r.Error())
				for _, h := range r.Hints {
					fmt.Fprintf(w, "\t  hint: %s\n", h)
				}
			}
			if status == statusTemplate {
				fmt.Fprintf(w, "\t  give the directory with --permit-path to check it\n")
			}
			for _, s := range e.Shadows {
				fmt.Fprintf(w, "\t  shadows %s\n", s)
			}
		}
	}
	w.Flush()
}
