package escapes

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// cell is what one user's two runs of a row came to.
type cell struct {
	measured result
	verdict  string // held, closed, limit, works, unproven, or what is wrong in capitals
	why      string
}

// judge compares a control and a confined run with the table.
func (h *harness) judge(r *row, user int, control, inside result) cell {
	c := cell{measured: inside, verdict: string(r.kind)}
	want := r.wants(user, h.abi)
	switch {
	case r.kind == limit && !matches("allowed", want):
		c.verdict = string(closed) // this kernel's ABI closes it
	case (r.kind == held || r.kind == closed) && want == "allowed", r.kind == works && want != "allowed":
		c.verdict = string(limit) // or does not yet, or is too tight
	}
	if control.verdict != "allowed" {
		errno := strings.TrimPrefix(control.verdict, "denied ")
		if !r.blocked[user].covers(errno) {
			c.verdict, c.why = "UNPROVEN", "control: "+control.String()
			return c
		}
		c.verdict, c.why = "unproven", fmt.Sprintf("%s (control %s)", r.blocked[user].why, errno)
		if inside.verdict == "allowed" || inside.verdict == "broken" {
			c.verdict = "BREACHED"
		}
		return c
	}
	if matches(inside.verdict, want) {
		return c
	}
	c.why = "want " + want
	switch {
	case inside.verdict == "allowed" && c.verdict != string(limit) && r.kind != works:
		c.verdict = "BREACHED"
	default:
		c.verdict = "DIFFERS"
	}
	return c
}

// TestEscapes measures all of it with one binary.
func TestEscapes(t *testing.T) {
	h := newHarness(t)
	t.Run("table", h.table)
	t.Run("race", h.race)
	t.Run("swapped-target", h.swappedTarget)
	t.Run("layers", h.layers)
	t.Run("stdio", h.stdio)
}

// table measures every row as every user that this process can be.
func (h *harness) table(t *testing.T) {
	measured := map[string][2]cell{}
	for _, user := range h.users() {
		t.Run(userName(user), func(t *testing.T) {
			for _, r := range rows() {
				t.Run(r.name, func(t *testing.T) {
					both := measured[r.name]
					defer func() { measured[r.name] = both }()
					if r.rootFixture && !h.root {
						both[user] = cell{verdict: "unmeasured", why: "the fixture needs root"}
						t.Skip("the fixture needs root")
					}
					control, inside := h.measure(r, user, false), h.measure(r, user, true)
					c := h.judge(r, user, control, inside)
					both[user] = c
					if c.verdict == strings.ToUpper(c.verdict) {
						t.Errorf("%s: %s: measured %s, %s", c.verdict, r.about, inside, c.why)
					}
				})
			}
		})
	}
	table := markdown(measured, h.abi)
	if testing.Verbose() {
		fmt.Print(table)
	}
	if name := os.Getenv(envTable); name != "" {
		if err := os.WriteFile(name, []byte(table), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// markdown is the table for people and documents. It is the same every time on
// the same host.
func markdown(measured map[string][2]cell, abi int) string {
	var b, notes strings.Builder
	fmt.Fprintf(&b, "Landlock ABI %d, confinectl exec\n\n", abi)
	fmt.Fprint(&b, "| id | case | what | root | uid 1000 | expected | verdict |\n|---|---|---|---|---|---|---|\n")
	counts := map[string]int{}
	for _, r := range rows() {
		cells, ok := measured[r.name]
		if !ok {
			continue
		}
		verdicts := []string{}
		text := [2]string{"-", "-"}
		for user, c := range cells {
			if c.verdict == "" {
				continue
			}
			counts[c.verdict]++
			if text[user] = c.measured.verdict; text[user] == "" {
				text[user] = "-"
			}
			if len(verdicts) == 0 || verdicts[0] != c.verdict {
				verdicts = append(verdicts, c.verdict)
			}
			if c.why != "" {
				fmt.Fprintf(&notes, "- %s, %s: %s\n", r.name, userName(user), c.why)
			}
		}
		expected := r.want[asRoot].String()
		if r.want[asRoot] != r.want[asUser] {
			expected += " / " + r.want[asUser].String()
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", r.id, r.name, r.about, text[asRoot], text[asUser],
			strings.ReplaceAll(expected, "|", " or "), strings.Join(verdicts, " / "))
	}
	fmt.Fprint(&b, "\n")
	for _, v := range []string{"held", "closed", "limit", "works", "unproven", "unmeasured", "BREACHED", "DIFFERS", "UNPROVEN"} {
		if counts[v] > 0 {
			fmt.Fprintf(&b, "%s %d\n", v, counts[v])
		}
	}
	if notes.Len() > 0 {
		fmt.Fprintf(&b, "\n%s", notes.String())
	}
	return b.String()
}
