package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// work is one kind of work, done in every place.
type work struct {
	Name      string  `json:"name"`
	Unit      string  `json:"unit"`
	Free      float64 `json:"unconfined"`
	Floor     float64 `json:"c_floor"`
	Confined  float64 `json:"confinectl"`
	OverFree  ratio   `json:"confinectl_to_unconfined"`
	OverFloor ratio   `json:"confinectl_to_c_floor"`
}

type insideResults struct {
	Rounds int    `json:"rounds"`
	Work   []work `json:"work"`
	Goals  []goal `json:"goals"`
}

// inside times work unconfined, under the C floor and under confinectl, with
// the same ruleset in both. The clock runs inside the boundary: what a launcher costs
// is not in the figure, only what the boundary costs.
func inside(wb *workbench) (any, error) {
	if wb.rounds == 0 {
		wb.rounds = 30
	}
	if err := wb.insideTrees(); err != nil {
		return nil, err
	}
	// The stopwatch is executed inside and reads its list there. What is short
	// is done five times a round, and their median counts.
	list := wb.path("work/commands")
	programs := []string{"git status", "find /usr"}
	text := "1\tgit\t-C\t" + wb.path("work/repository") + "\tstatus\n5\tfind\t/usr\t-xdev\t-type\td\t!\t-readable\t-prune\t-o\t-size\t+100k\n"
	for _, name := range []string{"git", "find"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, err
		}
		text = strings.Replace(text, "\t"+name+"\t", "\t"+path+"\t", 1)
	}
	if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := wb.must(wb.confinectl("exec", "workspace", "--", "/bin/true")); err != nil {
		return nil, err
	}
	rs, err := wb.workspaceRules()
	if err != nil {
		return nil, err
	}
	const free, floor, confined = 0, 1, 2
	places := [][]string{nil, append([]string{wb.bin("c-floor")}, rs.cFloor()...), wb.confinectl("exec", "workspace", "--")}
	ops := []string{wb.path("work/ops"), wb.path("work/1/2/3/4/5/6/7/8")}
	whole := []string{wb.path("work/spawn"), list, "5", "0"}

	names, figures := []string{}, map[string][][]float64{} // by kind of work, by place, by round
	note := func(name string, place int, v float64) {
		if figures[name] == nil {
			figures[name] = make([][]float64, len(places))
			names = append(names, name)
		}
		figures[name][place] = append(figures[name][place], v)
	}
	for round := -1; round < wb.rounds; round++ { // the first one warms up
		for _, place := range rand.Perm(len(places)) {
			out, err := wb.timed(slices.Concat(places[place], ops))
			if err != nil {
				return nil, err
			}
			var name string
			var ns float64
			for line := range strings.Lines(out) {
				if _, err := fmt.Sscan(line, &name, &ns); err != nil {
					return nil, fmt.Errorf("ops: %q: %w", line, err)
				}
				if round >= 0 {
					note(name, place, ns/1000)
				}
			}
			out, err = wb.timed(slices.Concat(places[place], whole))
			if err != nil {
				return nil, err
			}
			samples, err := readSamples(out, [][]string{{programs[0]}, {programs[1]}})
			if err != nil {
				return nil, err
			}
			for i, s := range samples {
				if round >= 0 {
					note(programs[i], place, of(s, wallMs, .5))
				}
			}
		}
	}

	results := insideResults{Rounds: wb.rounds}
	fmt.Printf("%d rounds, interleaved; the boundary has %d rules (Landlock ABI %d)\n\n", wb.rounds, len(rs.rules), rs.abi)
	t := newTable("work", "unconfined", "C floor", "confinectl", "confinectl × unconfined", "confinectl × C floor")
	for _, name := range names {
		f := figures[name]
		w := work{Name: name, Unit: "µs", Free: quantile(f[free], .5), Floor: quantile(f[floor], .5), Confined: quantile(f[confined], .5),
			OverFree: ratioOf(quotients(f[confined], f[free])), OverFloor: ratioOf(quotients(f[confined], f[floor]))}
		if name == programs[0] || name == programs[1] {
			w.Unit = "ms"
		}
		results.Work = append(results.Work, w)
		cell := func(v float64) string { return fmt.Sprintf("%.3f %s", v, w.Unit) }
		t.row(name, cell(w.Free), cell(w.Floor), cell(w.Confined), w.OverFree.String(), w.OverFloor.String())
		results.Goals = append(results.Goals, goal{name + ", confinectl / C floor", w.OverFloor.Median, 1.02, "×", fmt.Sprintf("(%.2f–%.2f)", w.OverFloor.Low, w.OverFloor.High)})
	}
	t.print()
	printGoals(results.Goals)
	return results, nil
}

// timed runs a command that keeps the time itself, and gives what it printed.
func (wb *workbench) timed(argv []string) (string, error) {
	cmd := wb.command(argv...)
	if wb.fifo { // which only root may ask for, and so before it is the other user
		uid := strconv.Itoa(wb.uid)
		cmd = exec.Command("chrt", append([]string{"-f", "10", "setpriv", "--reuid", uid, "--regid", uid, "--clear-groups"}, argv...)...)
		cmd.Dir, cmd.Env = wb.work(), wb.env
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Base(argv[0]), err)
	}
	return string(out), nil
}

func quotients(a, b []float64) []float64 {
	v := make([]float64, len(a))
	for i := range a {
		v[i] = a[i] / b[i]
	}
	return v
}

// insideTrees makes what is worked on: a file eight directories below the
// permit path, and a git repository of 10,000 files. The stopwatch and the operations
// are executed inside, and so lie there too.
func (wb *workbench) insideTrees() error {
	deep := wb.path("work/1/2/3/4/5/6/7/8")
	err := errors.Join(os.MkdirAll(deep, 0o755), os.WriteFile(filepath.Join(deep, "file"), []byte("content\n"), 0o644))
	for _, name := range []string{"ops", "spawn"} {
		program, failed := os.ReadFile(wb.bin(name))
		err = errors.Join(err, failed, os.WriteFile(wb.path("work/"+name), program, 0o755))
	}
	for d := range 100 {
		dir := wb.path(fmt.Sprintf("work/repository/%d", d))
		err = errors.Join(err, os.MkdirAll(dir, 0o755))
		for f := range 100 {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, strconv.Itoa(f)), fmt.Appendf(nil, "%d %d\n", d, f), 0o644))
		}
	}
	if err := errors.Join(err, wb.handOver(wb.work())); err != nil {
		return err
	}
	git := []string{"git", "-C", wb.path("work/repository"), "-c", "user.name=bench", "-c", "user.email=bench@localhost"}
	with := func(args ...string) []string { return slices.Concat(git, args) }
	return wb.must(with("init", "-q"), with("add", "."), with("commit", "-q", "-m", "all"))
}
