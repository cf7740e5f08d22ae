package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// point is one size of something that may grow.
type point struct {
	Name   string  `json:"name"`
	WallMs float64 `json:"wall_ms_median"`
	P95Ms  float64 `json:"wall_ms_p95"`
	Added  string  `json:"added,omitempty"` // over the point that it grew from
}

type growResults struct {
	Rounds int     `json:"rounds"`
	Points []point `json:"points"`
	Goals  []goal  `json:"goals"`
}

// growth is one command that is timed, and the smaller one that it grew from.
type growth struct {
	name string
	argv []string
	from string // name of the smaller one
	by   int    // how many more there are
	unit string
}

const (
	one    = "exec, 1 profile in the directory"
	crowd  = "exec, 10,000 profiles in the directory"
	paths  = "exec, 1,000 extra subpaths"
	levels = "exec, 16 levels of extends"
)

// grow times what must not grow, or only little, with more profiles, levels
// of extends, drop-ins and paths.
func grow(wb *workbench) (any, error) {
	if wb.rounds == 0 {
		wb.rounds = 200
	}
	list, err := wb.growths()
	if err != nil {
		return nil, err
	}
	var commands [][]string
	for _, g := range list {
		commands = append(commands, g.argv)
	}
	if err := wb.must(commands...); err != nil {
		return nil, err
	}
	samples, err := wb.spawn(wb.rounds, 5, nil, commands...)
	if err != nil {
		return nil, err
	}
	reports := []string{"list", "list --json", "check --no-measure"}
	commands = nil
	for _, r := range reports {
		commands = append(commands, wb.confinectl(append(strings.Fields(r), "--profile-dir", wb.path("crowd"))...))
	}
	if err := wb.must(commands...); err != nil {
		return nil, err
	}
	const runs = 5
	reported, err := wb.spawn(runs, 0, nil, commands...)
	if err != nil {
		return nil, err
	}

	index := func(name string) int { return slices.IndexFunc(list, func(g growth) bool { return g.name == name }) }
	results := growResults{Rounds: wb.rounds}
	t := newTable("command", "wall ms", "p95", "added")
	for i, g := range list {
		p := point{Name: g.name, WallMs: of(samples[i], wallMs, .5), P95Ms: of(samples[i], wallMs, .95)}
		if g.from != "" {
			p.Added = fmt.Sprintf("%.1f µs for each %s", (p.WallMs-of(samples[index(g.from)], wallMs, .5))*1000/float64(g.by), g.unit)
		}
		results.Points = append(results.Points, p)
		t.row(p.Name, fmt.Sprintf("%.3f", p.WallMs), fmt.Sprintf("%.3f", p.P95Ms), p.Added)
	}
	for i, r := range reports {
		p := point{Name: r + ", 10,000 profiles", WallMs: of(reported[i], wallMs, .5), P95Ms: of(reported[i], wallMs, .95)}
		results.Points = append(results.Points, p)
		t.row(p.Name, fmt.Sprintf("%.0f", p.WallMs), fmt.Sprintf("%.0f", p.P95Ms), fmt.Sprintf("%d runs, CPU %.0f ms, peak %.0f MiB", runs, of(reported[i], cpuMs, .5), of(reported[i], peakMiB, .5)))
	}
	t.print()
	r := wallRatio(samples[index(crowd)], samples[index(one)])
	results.Goals = []goal{
		{"exec with 10,000 profiles / with 1", r.Median, 1.05, "×", fmt.Sprintf("(%.2f–%.2f)", r.Low, r.High)},
		{Name: paths, Figure: of(samples[index(paths)], wallMs, .5), Most: 30, Unit: "ms"},
	}
	for i, most := range []float64{1000, 1000, 5000} {
		results.Goals = append(results.Goals, goal{Name: reports[i] + " of 10,000 profiles", Figure: of(reported[i], wallMs, .5), Most: most, Unit: "ms"})
	}
	printGoals(results.Goals)
	return results, nil
}

// growths writes the profiles and gives the commands. No profile of this kind has rules of
// its own but the one with the subpaths: reading and merging is what grows.
func (wb *workbench) growths() ([]growth, error) {
	var failed error
	write := func(name, format string, args ...any) {
		failed = errors.Join(failed, wb.profile(name, fmt.Sprintf(format, args...)))
	}
	var list []growth
	add := func(name, dir, from string, by int, unit string) {
		list = append(list, growth{name, wb.confinectl("exec", "--profile-dir", wb.path(dir), "p", "--", wb.target), from, by, unit})
	}
	root := fmt.Sprintf("permit_path = %q\n", wb.work())

	write("one/p.toml", "%s", root)
	write("crowd/p.toml", "%s", root)
	for i := range 9999 {
		write(fmt.Sprintf("crowd/n%04d.toml", i), "description = \"number %d\"\n%sset_env = { NUMBER = \"%d\" }\n", i, root, i)
	}
	add(one, "one", "", 0, "")
	add(crowd, "crowd", one, 9999, "profile")

	// level N extends level N-1, and so on down to the one with the permit path.
	chain := func(dir string, n int) {
		write(dir+"/l1.toml", "%sset_env = { L1 = \"1\" }\n", root)
		for i := 2; i <= n; i++ {
			write(fmt.Sprintf("%s/l%d.toml", dir, i), "extends = [\"l%d\"]\nset_env = { L%d = \"1\" }\n", i-1, i)
		}
		write(dir+"/p.toml", "extends = [\"l%d\"]\n", n)
	}
	dropIns := func(dir string, n int) {
		for i := range n {
			write(fmt.Sprintf("%s/p.d/%03d.toml", dir, i), "set_env = { D%d = \"1\" }\n", i)
		}
	}
	before, count := one, 0
	for _, n := range []int{1, 2, 4, 8, 16} {
		dir, name := "levels"+strconv.Itoa(n), "exec, "+plural(n, "level")+" of extends"
		chain(dir, n)
		add(name, dir, before, n-count, "level")
		before, count = name, n
	}
	before, count = one, 0
	for _, n := range []int{1, 10, 100} {
		dir, name := "dropins"+strconv.Itoa(n), "exec, "+plural(n, "drop-in")
		write(dir+"/p.toml", "%s", root)
		dropIns(dir, n)
		add(name, dir, before, n-count, "drop-in")
		before, count = name, n
	}
	chain("both", 16)
	dropIns("both", 100)
	add("exec, 16 levels and 100 drop-ins", "both", levels, 100, "drop-in")

	subpaths := root + "permit_extra_subpaths = [\n"
	for i := range 1000 {
		dir := wb.path(fmt.Sprintf("sub/%d", i))
		failed = errors.Join(failed, os.MkdirAll(dir, 0o755))
		subpaths += fmt.Sprintf("  %q,\n", dir)
	}
	write("paths/p.toml", "%s]\n", subpaths)
	add(paths, "paths", one, 1000, "path")
	return list, failed
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
