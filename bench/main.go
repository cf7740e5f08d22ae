// Bench times `confinectl exec` beside its peers and beside two floors, all in
// one run, interleaved, under the same boundary, and prints a table and, with
// -json, a document. docs/benchmarks.md has results and the method.
//
//	go run ./bench [-rounds 200] [-peers DIR] [-json FILE] [-target /usr/bin/true]
//
// It needs gcc. Peers that are not there are named and left out; none is downloaded here: put
// what the package managers do not install (landrun, landlock-restrict, codex, srt) into
// one directory and name it with -peers.
package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// contender is one command line that starts the target.
type contender struct {
	Name  string
	Floor bool
	argv  []string
}

// result is what its runs came to.
type result struct {
	Name      string             `json:"name"`
	WallMs    float64            `json:"wall_ms_median"`
	WallP95Ms float64            `json:"wall_ms_p95"`
	CPUMs     float64            `json:"cpu_ms_median"`
	CPUP95Ms  float64            `json:"cpu_ms_p95"`
	PeakMiB   float64            `json:"peak_mib"`
	Ratio     map[string]float64 `json:"wall_ratio_to_floor"` // median of the ratios round by round
	RatioLow  map[string]float64 `json:"wall_ratio_q1"`
	RatioHigh map[string]float64 `json:"wall_ratio_q3"`
}

func main() {
	rounds := flag.Int("rounds", 200, "counted rounds")
	peers := flag.String("peers", "", "directory with further peers")
	jsonFile := flag.String("json", "", "write the results to this file as well")
	target := flag.String("target", "/usr/bin/true", "the program to start")
	flag.Parse()
	if err := bench(*rounds, *peers, *jsonFile, *target); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(rounds int, peers, jsonFile, target string) error {
	dir, err := os.MkdirTemp("", "confinectl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	contenders, missing, err := build(dir, peers, target)
	if err != nil {
		return err
	}
	samples, err := run(dir, contenders, rounds)
	if err != nil {
		return err
	}
	results := evaluate(contenders, samples)
	print(results, contenders, missing, rounds)
	if jsonFile == "" {
		return nil
	}
	data, err := json.MarshalIndent(map[string]any{"date": time.Now().Format(time.DateOnly), "machine": machine(), "rounds": rounds, "target": target,
		"results": results, "missing": missing}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(jsonFile, append(data, '\n'), 0o644)
}

// runtimeRules is the boundary of every contender in the words of the C floor:
// one read-write directory and what a program needs to start.
func runtimeRules(work string) []string {
	rules := []string{"w:" + work, "x:/usr", "x:/opt", "r:/etc", "r:/proc", "r:/sys/devices/system", "r:/sys/fs/cgroup"}
	for _, d := range []string{"null", "zero", "full", "random", "urandom"} {
		rules = append(rules, "d:/dev/"+d)
	}
	return rules
}

// build makes the floors and confinectl, writes the profiles, and finds the peers.
func build(dir, peers, target string) (list []contender, missing []string, err error) {
	work := filepath.Join(dir, "work")
	for _, d := range []string{"work", "one", "many"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return nil, nil, err
		}
	}
	bin := func(name string) string { return filepath.Join(dir, name) }
	for _, step := range [][]string{
		{"gcc", "-O2", "-static", "-o", bin("c-floor"), "bench/floor/landlock.c"},
		{"gcc", "-O2", "-static", "-o", bin("spawn"), "bench/floor/spawn.c"},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin("go-floor"), "./bench/floor/exec"},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin("confinectl"), "./cmd/confinectl"},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
	}
	if err := os.WriteFile(bin("one/p.toml"), fmt.Appendf(nil, "permit_path = %q\n", work), 0o644); err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(bin("many/p.toml"), manyRules(dir, work), 0o644); err != nil {
		return nil, nil, err
	}
	add := func(name string, argv ...string) { list = append(list, contender{Name: name, argv: argv}) }
	add("bare", target)
	list = append(list, contender{"C floor", true, append(append([]string{bin("c-floor")}, runtimeRules(work)...), "--", target)})
	list = append(list, contender{"Go floor", true, []string{bin("go-floor"), target}})
	add("confinectl exec, one rule of its own", bin("confinectl"), "exec", "--profile-dir", bin("one"), "p", "--", target)
	add("confinectl exec workspace", bin("confinectl"), "exec", "workspace", "--", target)
	add("confinectl exec, 60 rules", bin("confinectl"), "exec", "--profile-dir", bin("many"), "p", "--", target)
	add("confinectl confine-exec", bin("confinectl"), "confine-exec", "--policy", fmt.Sprintf(`{"permit_path":%q}`, work), "--", target)
	for _, p := range []struct {
		name, program string
		args          []string
	}{
		{"setpriv", "setpriv", append(setprivRules(work), target)},
		{"go-landlock's landlock-restrict", "landlock-restrict", []string{"-7", "-ro", "/usr", "/etc", "/proc", "/opt", "-rw", work, "-rwfiles", "/dev/null", "--", target}},
		{"landrun", "landrun", []string{"--best-effort", "--rox", "/usr,/opt", "--ro", "/etc,/proc", "--rwx", work, target}},
		{"bwrap --unshare-all", "bwrap", []string{"--ro-bind", "/", "/", "--bind", work, work, "--dev", "/dev", "--proc", "/proc", "--unshare-all", target}},
		{"bwrap, mounts only", "bwrap", []string{"--ro-bind", "/", "/", "--bind", work, work, target}},
		{"firejail", "firejail", []string{"--quiet", "--noprofile", target}},
		{"codex sandbox", "codex", []string{"sandbox", "--", target}},
		{"srt", "srt", []string{target}},
	} {
		path, err := exec.LookPath(p.program)
		if peers != "" {
			if local := filepath.Join(peers, p.program); exec.Command("test", "-x", local).Run() == nil {
				path, err = local, nil
			}
		}
		if err != nil {
			missing = append(missing, p.name+": not on this machine")
			continue
		}
		argv := append([]string{path}, p.args...)
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v: %s", p.name, err, firstLine(out)))
			continue
		}
		list = append(list, contender{Name: p.name, argv: argv})
	}
	for _, c := range list {
		if out, err := exec.Command(c.argv[0], c.argv[1:]...).CombinedOutput(); err != nil {
			return nil, nil, fmt.Errorf("%s: %w\n%s", c.Name, err, out)
		}
	}
	return list, missing, nil
}

func setprivRules(work string) []string {
	return []string{"--no-new-privs", "--landlock-access", "fs", "--landlock-rule", "path-beneath:read-file,read-dir,execute:/usr", "--landlock-rule",
		"path-beneath:read-file,read-dir:/etc", "--landlock-rule", "path-beneath:read-file,read-dir,write-file:" + work}
}

// manyRules is a profile with 60 rules of its own.
func manyRules(dir, work string) []byte {
	text := fmt.Sprintf("permit_path = %q\nread_paths = [\n", work)
	for i := range 60 {
		d := filepath.Join(dir, "r"+strconv.Itoa(i))
		os.Mkdir(d, 0o755)
		text += fmt.Sprintf("  %q,\n", d)
	}
	return []byte(text + "]\n")
}

func firstLine(out []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	return string(line)
}

// sample is one run.
type sample struct{ wall, cpu, rss float64 }

// run starts every contender once a round, in shuffled order.
func run(dir string, contenders []contender, rounds int) ([][]sample, error) {
	var lines []string
	for _, c := range contenders {
		lines = append(lines, strings.Join(c.argv, "\t"))
	}
	list := filepath.Join(dir, "commands")
	if err := os.WriteFile(list, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command(filepath.Join(dir, "spawn"), list, strconv.Itoa(rounds), "5")
	cmd.Dir, cmd.Stderr = filepath.Join(dir, "work"), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	samples := make([][]sample, len(contenders))
	for line := range strings.Lines(string(out)) {
		var c, status int
		var s sample
		if _, err := fmt.Sscan(line, &c, &s.wall, &s.cpu, &s.rss, &status); err != nil || status != 0 {
			return nil, fmt.Errorf("%q: %v", line, err)
		}
		samples[c] = append(samples[c], s)
	}
	return samples, nil
}

func quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[int(q*float64(len(v)-1)+0.5)]
}

func column(samples []sample, of func(sample) float64) []float64 {
	var v []float64
	for _, s := range samples {
		v = append(v, of(s))
	}
	return v
}

func evaluate(contenders []contender, samples [][]sample) []result {
	var results []result
	for i, c := range contenders {
		wall := column(samples[i], func(s sample) float64 { return s.wall / 1000 })
		cpu := column(samples[i], func(s sample) float64 { return s.cpu / 1000 })
		r := result{Name: c.Name, WallMs: quantile(wall, .5), WallP95Ms: quantile(wall, .95), CPUMs: quantile(cpu, .5), CPUP95Ms: quantile(cpu, .95),
			PeakMiB: quantile(column(samples[i], func(s sample) float64 { return s.rss / 1024 }), .5),
			Ratio:   map[string]float64{}, RatioLow: map[string]float64{}, RatioHigh: map[string]float64{}}
		for j, floor := range contenders {
			if !floor.Floor {
				continue
			}
			var ratios []float64
			for k := range samples[i] {
				ratios = append(ratios, samples[i][k].wall/samples[j][k].wall)
			}
			r.Ratio[floor.Name], r.RatioLow[floor.Name], r.RatioHigh[floor.Name] = quantile(ratios, .5), quantile(ratios, .25), quantile(ratios, .75)
		}
		results = append(results, r)
	}
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(a.WallMs, b.WallMs) })
	return results
}

func machine() string {
	var model string
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if v, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(v, "\t :"))
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s, uid %d", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(), os.Getuid())
}

func print(results []result, contenders []contender, missing []string, rounds int) {
	fmt.Printf("%s; %d rounds, interleaved\n\n", machine(), rounds)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	fmt.Fprint(w, "| launcher\t| wall ms median\t| p95\t| CPU ms median\t| p95\t| peak MiB\t")
	var floors []string
	for _, c := range contenders {
		if c.Floor {
			floors = append(floors, c.Name)
			fmt.Fprintf(w, "| × %s\t", c.Name)
		}
	}
	fmt.Fprint(w, "|\n|---\t|---\t|---\t|---\t|---\t|---\t"+strings.Repeat("|---\t", len(floors))+"|\n")
	for _, r := range results {
		fmt.Fprintf(w, "| %s\t| %.3f\t| %.3f\t| %.2f\t| %.2f\t| %.1f\t", r.Name, r.WallMs, r.WallP95Ms, r.CPUMs, r.CPUP95Ms, r.PeakMiB)
		for _, f := range floors {
			fmt.Fprintf(w, "| %.2f (%.2f–%.2f)\t", r.Ratio[f], r.RatioLow[f], r.RatioHigh[f])
		}
		fmt.Fprintln(w, "|")
	}
	w.Flush()
	if len(missing) > 0 {
		fmt.Println("\nnot measured:")
		for _, m := range missing {
			fmt.Println("-", m)
		}
	}
}
