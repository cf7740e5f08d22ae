package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

// boundaryJSON is the effective boundary as `show --json` prints it.
type boundaryJSON struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	File        string            `json:"file"`
	Files       []string          `json:"files"`
	OS          string            `json:"os"`
	OnPaper     bool              `json:"on_paper"` // resolved for another host: no path was looked at
	PermitPath  string            `json:"permit_path"`
	Dir         string            `json:"dir"`
	MinABI      int               `json:"min_abi"`
	Audit       bool              `json:"audit"`
	MachLookup  []string          `json:"mach_lookup"`
	Guaranteed  []string          `json:"guaranteed"`
	AddedByHost []string          `json:"added_by_host"`
	Open        []string          `json:"open"`
	Rules       []ruleJSON        `json:"rules"`
	Covered     []ruleJSON        `json:"covered"`
	Skipped     []skippedJSON     `json:"skipped"`
	Made        []string          `json:"made"`
	Env         map[string]string `json:"env"`
}

type ruleJSON struct {
	Path    string      `json:"path"`
	Kind    string      `json:"kind"`
	Access  []string    `json:"access"`
	Reasons []valueJSON `json:"reasons"`
}

type valueJSON struct {
	Text string `json:"text"`
	File string `json:"file,omitempty"`
	Key  string `json:"key,omitempty"`
	Line int    `json:"line,omitzero"`
}

type skippedJSON struct {
	valueJSON
	Why string `json:"why"`
}

func showCommand(c *cli) *command.Command {
	l := &launch{}
	var asJSON, asText bool
	var arm, against string
	cmd := &command.Command{
		Use:   "show [flags] PROFILE [-- CMD [ARG…]]",
		Short: "Print the effective boundary of a profile, with the file and key behind every rule",
		Long: `Print the boundary that exec would enforce here and now: every real path, what
is granted there, and the file and key that asked for it. With a command, its
executable and interpreters are part of it. --text prints it in the words of the
arm: the Landlock ruleset, or the SBPL profile. Nothing is made or changed.

--arm asks for the arm of another operating system. Its paths cannot be looked at from
here, so that boundary is on paper: every path is taken as it is written and nothing is
missing, the home directory is the usual one there, a command is looked up there.

--diff-against compares it with what "show --json" printed earlier: what is
granted, made, added to the environment and left open, not where that is
written. The status is 1 where they differ.`,
	}
	cmd.Complete = c.completeProfiles(&l.search)
	cmd.Run = func(args command.Args) error {
		name, argv, err := profileAndMaybeCommand(cmd.Name(), args)
		if err != nil {
			return err
		}
		here := c.facts()
		f, err := factsOf(here, arm)
		if err != nil {
			return err
		}
		ld := l.look(here)
		p, err := ld.Load(name)
		if err != nil {
			return err
		}
		b, err := l.boundary(c, f, p.Policy, argv, ld.Protected(p))
		if err != nil {
			return err
		}
		var host enforce.Host
		if !b.OnPaper() {
			host = enforce.Probe()
		}
		if against != "" {
			return c.showDifference(showJSON(p, b, host), against, asJSON)
		}
		if asText {
			return writeText(c.stdout, b, host)
		}
		if asJSON {
			return c.printJSON(c.stdout, showJSON(p, b, host))
		}
		return showPeople(c.stdout, p, b, host)
	}
	l.search.flags(cmd)
	l.flags(cmd)
	jsonFlag(cmd, &asJSON)
	cmd.Flags.BoolVar(&asText, "text", false, "print it in the arm's own words")
	cmd.Flags.StringVar(&against, "diff-against", "", "print what differs from the boundary in `FILE`, which show --json wrote")
	armFlag(cmd, &arm)
	return cmd
}

// armFlag asks for the boundary of another operating system's arm.
func armFlag(cmd *command.Command, arm *string) {
	cmd.Flags.StringVar(arm, "arm", "", "landlock or seatbelt: the `arm` to resolve for (default: this host's)")
}

// factsOf are the facts to resolve with for an arm: this host's for its own arm, and
// for the other one those of a host that nobody can look at.
func factsOf(here *resolve.Facts, arm string) (*resolve.Facts, error) {
	systems := map[string]string{"": here.OS, "landlock": "linux", "seatbelt": "darwin"}
	system, known := systems[arm]
	switch {
	case !known:
		return nil, usagef("the arms are landlock and seatbelt", "the arm %q is not known", arm)
	case system == here.OS:
		return here, nil
	}
	return loader.PaperFacts(here, system), nil
}

// writeText writes a boundary in the words of its arm. The same boundary gives the same bytes.
func writeText(out io.Writer, b *resolve.Boundary, h enforce.Host) error {
	if b.OS() == "linux" {
		_, err := io.WriteString(out, enforce.Landlock(b, armABI(h)).Text())
		return err
	}
	s, err := enforce.Seatbelt(b)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, s.Text())
	return err
}

// armABI is the ABI to print a ruleset for: the host's, or the newest known
// where the host has none.
func armABI(h enforce.Host) int {
	if h.Used > 0 {
		return h.Used
	}
	return enforce.NewestABI
}

// floor is the ABI that holds for a boundary; 0 on macOS.
func floor(b *resolve.Boundary) int {
	if b.OS() == "darwin" {
		return 0
	}
	if n := b.MinABI().N; n > 0 {
		return n
	}
	return enforce.DefaultFloor
}

// guarantees splits what is confined into what min_abi promises on every
// host, and what this host adds to it.
func guarantees(b *resolve.Boundary, h enforce.Host) (promised, added, open []string) {
	if b.OS() == "darwin" { // no arm that has versions: docs/seatbelt.md says what is held
		return []string{}, []string{}, []string{}
	}
	floor := enforce.Guarantees(floor(b))
	host := enforce.Guarantees(armABI(h))
	if len(host.Confined) > len(floor.Confined) {
		added = host.Confined[len(floor.Confined):]
	}
	return floor.Confined, added, append(host.Open, floor.Lost...)
}

func toValueJSON(v resolve.Value) valueJSON {
	return valueJSON{v.Text, v.Origin.File, v.Origin.Key, v.Origin.Line}
}

func toRuleJSON(rules []resolve.Rule) []ruleJSON {
	list := []ruleJSON{}
	for _, r := range rules {
		j := ruleJSON{Path: r.Path, Kind: r.Kind.String(), Access: notNull(r.Access.Words()), Reasons: []valueJSON{}}
		for _, why := range r.Reasons {
			j.Reasons = append(j.Reasons, toValueJSON(why))
		}
		list = append(list, j)
	}
	return list
}

func showJSON(p *loader.Loaded, b *resolve.Boundary, h enforce.Host) boundaryJSON {
	dir, _ := b.Dir()
	out := boundaryJSON{Name: p.Name, Description: p.Description, File: p.File, Files: notNull(p.Files), OS: b.OS(), OnPaper: b.OnPaper(), PermitPath: b.PermitPath(), Dir: dir,
		MinABI: floor(b), Audit: b.Audit().On, MachLookup: []string{}, Rules: toRuleJSON(b.Rules()), Covered: toRuleJSON(b.Covered()), Made: notNull(b.ToMake()), Env: map[string]string{}, Skipped: []skippedJSON{}}
	promised, added, open := guarantees(b, h)
	out.Guaranteed, out.AddedByHost, out.Open = notNull(promised), notNull(added), notNull(open)
	for _, v := range b.MachLookup() {
		out.MachLookup = append(out.MachLookup, v.Text)
	}
	for _, s := range b.Skipped() {
		out.Skipped = append(out.Skipped, skippedJSON{toValueJSON(s.Value), s.Why})
	}
	for _, v := range b.Env() {
		out.Env[v.Name] = v.Value
	}
	return out
}

// because says in one line who asked for a rule.
func because(reasons []resolve.Value) string {
	var parts []string
	for i, v := range reasons {
		if i == 2 && len(reasons) > 3 {
			parts = append(parts, fmt.Sprintf("and %d more", len(reasons)-2))
			break
		}
		parts = append(parts, valueText(v))
	}
	return strings.Join(parts, "; ")
}

func valueText(v resolve.Value) string {
	switch v.Origin.File {
	case "runtime":
		return "runtime read set"
	case "command":
		return v.Text
	}
	where := v.Origin.String()
	if v.Text == "" || v.Text == v.Origin.Key {
		return where
	}
	if where == "" {
		return v.Text
	}
	return where + " " + quote(v.Text)
}

func quote(s string) string { return `"` + s + `"` }

func showPeople(out io.Writer, p *loader.Loaded, b *resolve.Boundary, h enforce.Host) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	dir, _ := b.Dir()
	fmt.Fprintf(w, "profile\t%s\n", p.Name)
	if p.Description != "" {
		fmt.Fprintf(w, "description\t%s\n", p.Description)
	}
	for i, f := range p.Files {
		fmt.Fprintf(w, "%s\t%s\n", []string{"files", ""}[min(i, 1)], f)
	}
	fmt.Fprintf(w, "permit path\t%s\n", b.PermitPath())
	fmt.Fprintf(w, "starts in\t%s\n", dir)
	if b.OS() == "darwin" {
		fmt.Fprintf(w, "arm\tSeatbelt; what it holds was not measured by this program: docs/seatbelt.md\n")
	} else {
		fmt.Fprintf(w, "floor\t%s\n", floorText(b))
	}
	if b.OnPaper() {
		fmt.Fprintf(w, "on paper\tresolved for another host: no path was looked at\n")
	}
	w.Flush()

	file := func(r resolve.Rule, a resolve.Access) bool { return r.Kind != resolve.Device && r.Access&a == a }
	groups := []struct {
		title string
		has   func(resolve.Rule) bool
	}{
		{"read and write", func(r resolve.Rule) bool { return file(r, resolve.Write) && !r.Access.Has(resolve.Ioctl) }},
		{"read and execute", func(r resolve.Rule) bool { return file(r, resolve.Read|resolve.Execute) }},
		{"read", func(r resolve.Rule) bool { return file(r, resolve.Read) && !r.Access.Has(resolve.Ioctl) }},
		{"connect", func(r resolve.Rule) bool { return r.Kind == resolve.Socket }},
		{"devices", func(r resolve.Rule) bool { return true }},
	}
	rules := b.Rules()
	for _, g := range groups {
		var rest []resolve.Rule
		title := "\n" + g.title + "\n"
		for _, r := range rules {
			if !g.has(r) {
				rest = append(rest, r)
				continue
			}
			io.WriteString(w, title)
			title = ""
			what := ""
			switch r.Kind {
			case resolve.Directory:
			case resolve.Device:
				what = r.Access.String()
			default:
				what = r.Kind.String()
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", r.Path, what, because(r.Reasons))
		}
		rules = rest
		w.Flush()
	}
	section := func(title string, lines []string) {
		if len(lines) > 0 {
			fmt.Fprintf(out, "\n%s\n  %s\n", title, strings.Join(lines, "\n  "))
		}
	}
	var lines []string
	for _, r := range b.Covered() {
		if !r.FromHost() {
			lines = append(lines, r.Path+"  "+because(r.Reasons))
		}
	}
	section("granted by a wider rule already", lines)
	if skipped := b.Skipped(); len(skipped) > 0 {
		fmt.Fprintf(out, "\nleft out, because this host does not have it\n")
		for _, s := range skipped {
			why := ""
			if !strings.HasSuffix(s.Why, " does not exist") {
				why = s.Why
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\n", s.Value.Text, s.Value.Origin, why)
		}
		w.Flush()
	}
	section("made before the start where missing, mode 0700", b.ToMake())
	lines = nil
	for _, v := range b.Env() {
		lines = append(lines, oneLine(v.Name+"="+v.Value))
	}
	section("added to the environment", lines)
	lines = nil
	for _, v := range b.MachLookup() {
		lines = append(lines, v.Text+"  "+because([]resolve.Value{v}))
	}
	section("Mach services", lines)
	if b.OS() == "darwin" {
		return nil
	}
	promised, added, open := guarantees(b, h)
	section(fmt.Sprintf("held on every host that this profile starts on (Landlock ABI %d or newer)", floor(b)), promised)
	if h.Used > 0 {
		section(fmt.Sprintf("added by this host (ABI %d)", h.Used), added)
	}
	section("not confined here", append(open, "metadata: chmod, chown, utimes and setxattr work on every file of the user"))
	return nil
}

func floorText(b *resolve.Boundary) string {
	if m := b.MinABI(); m.N > 0 {
		return fmt.Sprintf("Landlock ABI %d, %s", m.N, m.Origin)
	}
	return fmt.Sprintf("Landlock ABI %d, the default", enforce.DefaultFloor)
}
