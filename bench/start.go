package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// slowMs is what a contender may take and still run in every round; one that
// takes longer runs in every tenth.
const slowMs = 20

// result is what the runs of a contender came to.
type result struct {
	Name      string           `json:"name"`
	Boundary  string           `json:"boundary"`
	Confines  string           `json:"confines"` // what the control saw
	Runs      int              `json:"runs"`
	WallMs    float64          `json:"wall_ms_median"`
	WallP95Ms float64          `json:"wall_ms_p95"`
	CPUMs     float64          `json:"cpu_ms_median"`
	CPUP95Ms  float64          `json:"cpu_ms_p95"`
	PeakMiB   float64          `json:"peak_mib"`
	Faults    float64          `json:"minor_faults"`
	Ratio     map[string]ratio `json:"wall_ratio_to"`
}

type startResults struct {
	Rounds  int      `json:"rounds"`
	Target  string   `json:"target"`
	Rules   int      `json:"rules"`
	ABI     int      `json:"landlock_abi"`
	Results []result `json:"results"`
	Missing []string `json:"not_measured"`
	Goals   []goal   `json:"goals"`
}

const (
	cFloor    = "C floor"
	goFloor   = "Go floor"
	workspace = "confinectl exec workspace"
	manyRules = "confinectl exec, 60 paths of its own"
)

// start times one start of the target by every contender.
func start(wb *workbench) (any, error) {
	if wb.rounds == 0 {
		wb.rounds = 200
	}
	if wb.fetch {
		if err := wb.fetchPeers(); err != nil {
			return nil, err
		}
	}
	list, rs, err := wb.ours()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].confines, err = wb.control(list[i].prefix); err != nil {
			return nil, fmt.Errorf("%s: %w", list[i].name, err)
		}
		if free := list[i].confines == nothing; free != list[i].free {
			return nil, fmt.Errorf("%s: confines %s", list[i].name, list[i].confines)
		}
	}
	peers, missing := wb.contenders(rs)
	list = append(list, peers...)
	samples, err := wb.time(list)
	if err != nil {
		return nil, err
	}
	results := evaluate(list, samples)
	fmt.Printf("%s, %d rounds, interleaved; the boundary has %d rules (Landlock ABI %d)\n\n", wb.target, wb.rounds, len(rs.rules), rs.abi)
	printResults(results)
	for _, m := range missing {
		fmt.Println("not measured:", m)
	}
	fmt.Println()
	goals, err := wb.startGoals(results)
	if err != nil {
		return nil, err
	}
	printGoals(goals)
	return startResults{wb.rounds, wb.target, len(rs.rules), rs.abi, results, missing, goals}, nil
}

// ours are the floors and confinectl.
func (wb *workbench) ours() ([]contender, *ruleset, error) {
	own := fmt.Sprintf("permit_path = %q\n", wb.work())
	many := own + "read_paths = [\n"
	for i := range 60 {
		d := wb.path("read/" + strconv.Itoa(i))
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, nil, err
		}
		many += fmt.Sprintf("  %q,\n", d)
	}
	if err := errors.Join(wb.profile("one/p.toml", own), wb.profile("sixty/p.toml", many+"]\n")); err != nil {
		return nil, nil, err
	}
	// Once before, so that the private TMPDIR is there: the floor makes none.
	if err := wb.must(wb.confinectl("exec", "workspace", "--", wb.target)); err != nil {
		return nil, nil, err
	}
	rs, err := wb.workspaceRules()
	if err != nil {
		return nil, nil, err
	}
	return []contender{
		{name: "no launcher", boundary: "none", free: true},
		{name: goFloor, boundary: "none: a Go program that only executes", free: true, prefix: []string{wb.bin("go-floor")}},
		{name: cFloor, boundary: "the rules of `confinectl exec workspace`, from its command line", prefix: append([]string{wb.bin("c-floor")}, rs.cFloor()...)},
		{name: workspace, boundary: "one directory, a private TMPDIR, the runtime read set", prefix: wb.confinectl("exec", "workspace", "--")},
		{name: "confinectl exec, a profile of one line", boundary: "one directory, the runtime read set", prefix: wb.confinectl("exec", "--profile-dir", wb.path("one"), "p", "--")},
		{name: manyRules, boundary: "the same and 60 directories to read", prefix: wb.confinectl("exec", "--profile-dir", wb.path("sixty"), "p", "--")},
		{name: "confinectl confine-exec", boundary: "one directory, the runtime read set", prefix: wb.confinectl("confine-exec", "--policy", fmt.Sprintf(`{"permit_path":%q}`, wb.work()), "--")},
	}, rs, nil
}

// time runs the target under every contender, the slow ones in every tenth
// round.
func (wb *workbench) time(list []contender) ([][]sample, error) {
	var commands [][]string
	for _, c := range list {
		commands = append(commands, append(slices.Clone(c.prefix), wb.target))
	}
	trial, err := wb.spawn(3, 1, nil, commands...)
	if err != nil {
		return nil, err
	}
	every := make([]int, len(list))
	for i := range every {
		every[i] = 1
		if of(trial[i], wallMs, .5) > slowMs {
			every[i] = 10
		}
	}
	return wb.spawn(wb.rounds, 5, every, commands...)
}

func evaluate(list []contender, samples [][]sample) []result {
	var results []result
	for i, c := range list {
		s := samples[i]
		r := result{Name: c.name, Boundary: c.boundary, Confines: c.confines, Runs: len(s), WallMs: of(s, wallMs, .5), WallP95Ms: of(s, wallMs, .95),
			CPUMs: of(s, cpuMs, .5), CPUP95Ms: of(s, cpuMs, .95), PeakMiB: of(s, peakMiB, .5), Faults: of(s, faults, .5), Ratio: map[string]ratio{}}
		for j, other := range list {
			if other.name == cFloor || other.name == goFloor {
				r.Ratio[other.name] = wallRatio(s, samples[j])
			}
		}
		if c.name == workspace { // the goals are ratios to these
			for j, other := range list {
				r.Ratio[other.name] = wallRatio(s, samples[j])
			}
		}
		results = append(results, r)
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(a.WallMs, b.WallMs) })
	return results
}

func printResults(results []result) {
	t := newTable("launcher", "wall ms", "p95", "CPU ms", "p95", "peak MiB", "faults", "× Go floor", "× C floor", "confines", "runs")
	for _, r := range results {
		t.row(r.Name, fmt.Sprintf("%.3f", r.WallMs), fmt.Sprintf("%.3f", r.WallP95Ms), fmt.Sprintf("%.2f", r.CPUMs), fmt.Sprintf("%.2f", r.CPUP95Ms),
			fmt.Sprintf("%.1f", r.PeakMiB), fmt.Sprintf("%.0f", r.Faults), r.Ratio[goFloor].String(), r.Ratio[cFloor].String(), r.Confines, strconv.Itoa(r.Runs))
	}
	t.print()
}

// startGoals holds the results against the goals; a peer that was not measured has none.
func (wb *workbench) startGoals(results []result) ([]goal, error) {
	find := func(name string) *result {
		i := slices.IndexFunc(results, func(r result) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return &results[i]
	}
	w, many := find(workspace), find(manyRules)
	var goals []goal
	against := func(r *result, other string, most float64) {
		if x, measured := r.Ratio[other]; measured {
			goals = append(goals, goal{r.Name + " / " + other, x.Median, most, "×", fmt.Sprintf("(%.2f–%.2f)", x.Low, x.High)})
		}
	}
	against(w, goFloor, 1.30)
	against(w, "landrun", 0.80)
	against(w, "bwrap --unshare-all", 0.50)
	against(w, "bwrap --unshare-all, all readable", 0.50)
	against(many, goFloor, 1.50)
	for _, r := range []*result{w, many} {
		goals = append(goals, goal{Name: "peak memory, " + r.Name, Figure: r.PeakMiB, Most: 6, Unit: "MiB"})
	}
	st, err := os.Stat(wb.bin("confinectl"))
	if err != nil {
		return nil, err
	}
	return append(goals, goal{Name: "binary, stripped: " + filepath.Base(wb.bin("confinectl")), Figure: float64(st.Size()) / (1 << 20), Most: 5, Unit: "MiB"}), nil
}
