package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/command"
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

func listCommand(c *cli) *command.Command {
	s := &search{}
	var asJSON bool
	cmd := &command.Command{
		Use:   "list [flags]",
		Short: "List the profiles of the search path",
		Long: `List the profiles of the search path, with the layer each one comes from, and
which files are shadowed by another of the same name. A profile that cannot be
loaded is listed with its first problem, and the status is 1.`,
		NoArgs: true,
	}
	cmd.Run = func(command.Args) error {
		ld := s.look(c.facts())
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

func explainCommand(c *cli) *command.Command {
	l := &launch{}
	var asJSON bool
	cmd := &command.Command{
		Use:   "explain [flags] PROFILE PATH [-- CMD [ARG…]]",
		Short: "Say whether PATH may be read, written and executed, and by which rule",
		Long: `Say whether a program under PROFILE may read, write and execute PATH, and by
which rule. It follows the rules of the boundary and attempts nothing; "confinectl check"
measures. Where this host's ABI does something else with PATH, that is said as well.
File permissions still apply on top. PATH need not exist.`,
	}
	cmd.Complete = c.completeProfiles(&l.search)
	cmd.Run = func(args command.Args) error {
		if len(args.Before) != 2 {
			return usagef("", "explain takes a profile and a path")
		}
		name, path := args.Before[0], args.Before[1]
		f := c.facts()
		ld := l.look(f)
		p, err := ld.Load(name)
		if err != nil {
			return err
		}
		b, err := l.boundary(c, f, p.Policy, args.After, ld.Protected(p))
		if err != nil {
			return err
		}
		e, err := b.Explain(f.Absolute(path))
		if err != nil {
			return err
		}
		return c.printExplanation(e, onThisHost(b, e), asJSON)
	}
	l.search.flags(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (c *cli) printExplanation(e resolve.Explanation, here []string, asJSON bool) error {
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
		out := map[string]any{"path": e.Path, "real": e.Real, "exists": e.Exists, "on_this_host": here}
		for _, a := range answers {
			out[a.word] = a.answer
		}
		return c.printJSON(c.stdout, out)
	}
	fmt.Fprintln(c.stdout, oneLine(e.Path))
	if e.Real != e.Path {
		fmt.Fprintln(c.stdout, "  is", oneLine(e.Real))
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
	for _, text := range here {
		fmt.Fprintf(w, "  here\tbut\t%s\n", text)
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
		Errata: h.Errata, LegacyTIOCSTI: h.LegacyTIOCSTI, Confined: notNull(g.Confined), Open: notNull(g.Open)}
	if h.Arm == "seatbelt" { // which has no versions
		out.NewestABI, out.Confined, out.Open = 0, []string{}, []string{}
	}
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
	if h.Arm == "seatbelt" {
		return s + ", Seatbelt"
	}
	s += fmt.Sprintf(", Landlock ABI %d", h.Used)
	if h.Lowered != "" {
		s += fmt.Sprintf(" (the kernel offers %d; %s)", h.Offered, h.Lowered)
	}
	return s
}

func factsCommand(c *cli) *command.Command {
	var asJSON bool
	cmd := &command.Command{
		Use:    "facts",
		Short:  "Print what this host and this caller contribute to a boundary",
		NoArgs: true,
	}
	cmd.Run = func(command.Args) error {
		f, h := c.facts(), enforce.Probe()
		if asJSON {
			values := map[string]string{}
			for _, name := range resolve.FactNames() {
				values[name], _ = f.Lookup(name)
			}
			return c.printJSON(c.stdout, map[string]any{"host": toHostJSON(f, h), "facts": values, "terminals": notNull(f.Terminals)})
		}
		w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "host\t%s\n", hostLine(f, h))
		if h.Arm != "seatbelt" {
			fmt.Fprintf(w, "newest ABI known\t%d\n", enforce.NewestABI)
			fmt.Fprintf(w, "errata fixed\t%#x\n", h.Errata)
		}
		if h.LegacyTIOCSTI != "" {
			fmt.Fprintf(w, "dev.tty.legacy_tiocsti\t%s\n", h.LegacyTIOCSTI)
		}
		for _, name := range resolve.FactNames() {
			value, _ := f.Lookup(name)
			if value == "" {
				value = "(unset)"
			}
			fmt.Fprintf(w, "${%s}\t%s\n", name, oneLine(value))
		}
		for _, t := range f.Terminals {
			fmt.Fprintf(w, "terminal\t%s\n", t)
		}
		return w.Flush()
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}
