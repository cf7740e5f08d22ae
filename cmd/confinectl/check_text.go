package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/enforce/probe"
	"github.com/confinectl/confinectl/findings"
)

// colour is that of a word, on a terminal only.
func colour(word string) string {
	switch word {
	case checkBreached, string(probe.Breached):
		return "\x1b[1;31m"
	case checkRefused:
		return "\x1b[31m"
	case checkUnmeasured, string(probe.Unproven):
		return "\x1b[33m"
	case checkTemplate:
		return "\x1b[36m"
	case checkOK:
		return "\x1b[32m"
	}
	return ""
}

// line is one line below a profile: a label and a text.
type line struct{ label, text string }

// print prints the report for people: the host, then the profiles, the worst
// first. What is true of every measured profile is said once.
func (k *checker) print(r *checkReport) error {
	var b strings.Builder
	k.printHost(&b, r)
	lines := map[*checkEntry][]line{}
	var measured []*checkEntry
	for _, e := range r.Profiles {
		lines[e] = k.lines(e)
		if len(e.Probes) > 0 {
			measured = append(measured, e)
		}
	}
	common := takeCommon(measured, lines)
	width := 0
	for _, e := range r.Profiles {
		width = max(width, len(e.Name))
	}
	for _, status := range checkStatuses {
		for _, e := range r.Profiles {
			if e.Status != status {
				continue
			}
			fmt.Fprintf(&b, "%s  %-*s  %s\n", k.paint(status, fmt.Sprintf("%-10s", status)), width, e.Name, e.sources())
			k.printLines(&b, lines[e])
		}
	}
	if len(common) > 0 {
		fmt.Fprintf(&b, "\nin every profile that was measured\n")
		k.printLines(&b, common)
	}
	if len(r.Profiles) == 0 {
		fmt.Fprintf(&b, "no profiles in %s\n", layerNames(k.loader))
	}
	_, err := io.WriteString(k.cli.stdout, b.String())
	return err
}

// sources are the profile's own file, and the others that took part.
func (e *checkEntry) sources() string {
	text := e.File
	for _, f := range e.Files {
		if f != e.File {
			text += " + " + f
		}
	}
	return oneLine(text)
}

func (k *checker) printLines(b *strings.Builder, lines []line) {
	for _, l := range lines {
		fmt.Fprintf(b, "  %s  %s\n", k.paint(l.label, fmt.Sprintf("%-16s", l.label)), oneLine(l.text))
	}
}

func (k *checker) printHost(b *strings.Builder, r *checkReport) {
	h := k.host
	text := hostLine(k.facts, h)
	if h.Missing == nil {
		var fixed []string
		for i := range 31 {
			if h.Errata&(1<<i) != 0 {
				fixed = append(fixed, strconv.Itoa(i+1))
			}
		}
		if len(fixed) > 0 {
			text += ", errata fixed: " + strings.Join(fixed, " ")
		}
	}
	if h.LegacyTIOCSTI != "" {
		text += ", dev.tty.legacy_tiocsti " + h.LegacyTIOCSTI
	}
	fmt.Fprintf(b, "%-10s  %s\n", "host", text)
	if h.Missing != nil {
		for _, hint := range h.Missing.Hints {
			fmt.Fprintf(b, "  %-16s  %s\n", "hint", hint)
		}
	} else if h.Arm == "landlock" {
		for _, open := range enforce.Guarantees(h.Used).Open {
			fmt.Fprintf(b, "  %-16s  %s\n", "open here", open)
		}
	}
	if r.Host.InsideDomain != "" {
		fmt.Fprintf(b, "  %-16s  %s\n", "inside a domain", "check is confined itself ("+r.Host.InsideDomain+"): rows whose control that boundary denies are unproven")
	}
	if !r.Measured {
		fmt.Fprintf(b, "  %-16s  %s\n", "not measured", "--no-measure: ok means that exec would not refuse")
	}
	b.WriteByte('\n')
}

// lines is what is to be said of one profile, the worst first.
func (k *checker) lines(e *checkEntry) (list []line) {
	say := func(label, format string, args ...any) {
		list = append(list, line{label, fmt.Sprintf(format, args...)})
	}
	if e.Status == checkTemplate {
		say("hint", "`confinectl check --permit-path DIR %s` checks it with a directory", e.Name)
	}
	if e.Status == checkRefused && !k.cannotRun(e) {
		for _, r := range e.problems {
			say("refused", "%s", r.Error())
			for _, h := range r.Hints {
				say("hint", "%s", h)
			}
		}
	}
	for _, v := range []probe.Verdict{probe.Breached, probe.Unproven, probe.Limit} {
		for _, row := range e.Probes {
			if row.Verdict != v {
				continue
			}
			text := row.Detail
			if row.Control != "ok" {
				text = "no control: " + row.Control
			}
			say(string(v), "%s: %s", row.Name, text)
		}
		if v == probe.Breached && e.Status == checkBreached {
			say("hint", "this host does not enforce what it was asked for: run nothing here under %s; `confinectl facts` and `uname -r` belong into the report", e.Name)
		}
	}
	if e.Detail != "" {
		say("unmeasured", "%s", e.Detail)
		say("hint", "%s", unmeasuredHint(e))
	}
	for _, s := range e.NotMeasured {
		if strings.HasSuffix(s, probe.NotThereYet) {
			continue // a finding says so as well
		}
		say("not measured", "%s", s)
	}
	if held := count(e.Probes, probe.Held); len(e.Probes) > 0 {
		say("held", "%d of %d attempts, each after the same one worked unconfined", held, len(e.Probes))
	}
	list = append(list, findingLines(e)...)
	return append(list, commandLines(e.Command)...)
}

// cannotRun reports whether all that is wrong with a profile was said of the host.
func (k *checker) cannotRun(e *checkEntry) bool {
	return k.host.Missing != nil && len(e.problems) == 1 && e.problems[0].Code == k.host.Missing.Code && e.problems[0].Detail == k.host.Missing.Detail
}

func unmeasuredHint(e *checkEntry) string {
	switch {
	case strings.HasPrefix(e.Detail, "the profile kills"):
		return "`confinectl check " + e.Name + " -- CMD` names the paths that a command is denied; `confinectl show " + e.Name + "` prints what is granted"
	case len(e.Probes) > 0:
		return "`TMPDIR=DIR confinectl check " + e.Name + "` with a directory that can be written and lies in no root"
	}
	return "`confinectl check " + e.Name + "` again; `confinectl facts` shows this host"
}

func count(rows []probe.Result, v probe.Verdict) (n int) {
	for _, r := range rows {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// findingLines says each code once, with its first paths.
func findingLines(e *checkEntry) (list []line) {
	for _, c := range findings.Codes() {
		var paths []string
		for _, f := range e.Findings {
			if f.Code == c {
				paths = append(paths, f.Path)
			}
		}
		if len(paths) == 0 {
			continue
		}
		text := strings.Join(paths[:min(len(paths), 3)], ", ")
		if len(paths) > 3 {
			text += fmt.Sprintf(" and %d more", len(paths)-3)
		}
		list = append(list, line{string(c), text}, line{"", c.Why()})
	}
	return list
}

// takeCommon takes out the lines that all of several measured profiles have.
func takeCommon(entries []*checkEntry, lines map[*checkEntry][]line) (common []line) {
	if len(entries) < 2 {
		return nil
	}
	for i, l := range lines[entries[0]] {
		if l.label == "" { // belongs to the line before it
			if i > 0 && len(common) > 0 && common[len(common)-1] == lines[entries[0]][i-1] {
				common = append(common, l)
			}
			continue
		}
		if !slices.ContainsFunc(entries[1:], func(e *checkEntry) bool { return !slices.Contains(lines[e], l) }) {
			common = append(common, l)
		}
	}
	for _, e := range entries {
		var keep []line
		taken := false
		for _, l := range lines[e] {
			if l.label != "" {
				taken = slices.Contains(common, l)
			}
			if !taken {
				keep = append(keep, l)
			}
		}
		lines[e] = keep
	}
	return common
}

// paint colours text by a word, if stdout is a terminal that wants it.
func (k *checker) paint(word, text string) string {
	if c := colour(word); c != "" && k.coloured() {
		return c + text + "\x1b[0m"
	}
	return text
}

// coloured follows no-color.org: NO_COLOR counts when it is not empty.
func (k *checker) coloured() bool {
	no, _ := k.facts.Getenv("NO_COLOR")
	term, _ := k.facts.Getenv("TERM")
	return no == "" && term != "dumb" && k.terminal(k.cli.stdout)
}

// terminal reports whether a stream is one of the terminals that the facts name.
func (k *checker) terminal(w io.Writer) bool {
	if o, wrapped := w.(*output); wrapped {
		w = o.to
	}
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	return err == nil && slices.Contains(k.facts.Terminals, path)
}

// progress says on a terminal how far a long measurement is. The function that it
// gives is called after each profile.
func (k *checker) progress(total int) (done func()) {
	if k.static || total < 4 || !k.terminal(k.cli.stderr) {
		return func() {}
	}
	var mu sync.Mutex
	n := 0
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if n++; n < total {
			fmt.Fprintf(k.cli.stderr, "\rmeasured %d of %d", n, total)
		} else {
			fmt.Fprint(k.cli.stderr, "\r\x1b[K")
		}
	}
}
