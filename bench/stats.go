package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// sample is one run.
type sample struct {
	round, status         int
	wall, cpu, rss, fault float64 // µs, µs, KiB, minor page faults
}

// readSamples reads what the stopwatch printed. A command that failed while
// it was timed is an error: its figure would be of something else.
func readSamples(out string, commands [][]string) ([][]sample, error) {
	samples := make([][]sample, len(commands))
	for line := range strings.Lines(out) {
		var c int
		var s sample
		if _, err := fmt.Sscan(line, &c, &s.round, &s.wall, &s.cpu, &s.rss, &s.fault, &s.status); err != nil {
			return nil, fmt.Errorf("stopwatch: %q: %w", line, err)
		}
		if s.status != 0 {
			return nil, fmt.Errorf("%s: wait status %#x while it was timed", strings.Join(commands[c], " "), s.status)
		}
		samples[c] = append(samples[c], s)
	}
	return samples, nil
}

func wallMs(s sample) float64  { return s.wall / 1000 }
func cpuMs(s sample) float64   { return s.cpu / 1000 }
func peakMiB(s sample) float64 { return s.rss / 1024 }
func faults(s sample) float64  { return s.fault }

// of is the quantile of one figure of the samples.
func of(samples []sample, figure func(sample) float64, q float64) float64 {
	v := make([]float64, len(samples))
	for i, s := range samples {
		v[i] = figure(s)
	}
	return quantile(v, q)
}

func quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[int(q*float64(len(v)-1)+0.5)]
}

// ratio is how many times as long one thing takes as another: the median of
// the ratios round by round, so that what disturbs a round disturbs both, and their quartiles.
type ratio struct {
	Median float64 `json:"median"`
	Low    float64 `json:"q1"`
	High   float64 `json:"q3"`
}

func (r ratio) String() string { return fmt.Sprintf("%.2f (%.2f–%.2f)", r.Median, r.Low, r.High) }

func ratioOf(values []float64) ratio {
	return ratio{quantile(values, .5), quantile(values, .25), quantile(values, .75)}
}

// wallRatio compares a with b in the rounds that both ran in.
func wallRatio(a, b []sample) ratio {
	byRound := map[int]float64{}
	for _, s := range b {
		byRound[s.round] = s.wall
	}
	var v []float64
	for _, s := range a {
		if w, both := byRound[s.round]; both {
			v = append(v, s.wall/w)
		}
	}
	return ratioOf(v)
}

// A goal is a figure and the most that it may be.
type goal struct {
	Name   string  `json:"name"`
	Figure float64 `json:"figure"`
	Most   float64 `json:"most"`
	Unit   string  `json:"unit"`
	Spread string  `json:"spread,omitempty"`
}

func printGoals(goals []goal) {
	t := newTable("goal", "at most", "measured", "")
	for _, g := range goals {
		met := "**missed**"
		if g.Figure <= g.Most {
			met = "met"
		}
		t.row(g.Name, short(g.Most)+" "+g.Unit, strings.TrimSpace(short(g.Figure)+" "+g.Unit+" "+g.Spread), met)
	}
	t.print()
}

// short is a figure with no more digits than it is worth.
func short(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// table is one of Markdown.
type table struct{ rows [][]string }

func newTable(head ...string) *table {
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	return &table{[][]string{head, rule}}
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	for _, r := range t.rows {
		fmt.Fprintln(w, "| "+strings.Join(r, "\t| ")+"\t|")
	}
	w.Flush()
	fmt.Println()
}
