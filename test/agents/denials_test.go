//go:build agents

package agents

import (
	"bufio"
	_ "embed"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A denial is one system call that failed with EACCES, EPERM or EXDEV.
type denial struct {
	call  string // openat, mkdir, …
	args  string // as strace prints them
	errno string
}

func (d denial) String() string { return d.call + "(" + d.args + ") " + d.errno }

var (
	line       = regexp.MustCompile(`^(\d+) +(.*)$`)
	unfinished = regexp.MustCompile(`^(.*?) *<unfinished \.\.\.>$`)
	resumed    = regexp.MustCompile(`^<\.\.\. \w+ resumed>(.*)$`)
	number     = regexp.MustCompile(`\b(0x)?[0-9a-f]*[0-9][0-9a-f]*\b`)
	failed     = regexp.MustCompile(`^(\w+)\((.*)\) += -1 (EACCES|EPERM|EXDEV) `)
)

// denials reads the trace that strace wrote and gives every denial in it once, in
// order. A call that other processes interrupted in the trace is put together
// again. What differs from run to run (the seat's name, numbers) is made the same.
func (s *seat) denials() []denial {
	s.t.Helper()
	f, err := os.Open(s.trace())
	s.check(err)
	defer f.Close()
	var list []denial
	seen := map[denial]bool{}
	begun := map[string]string{}
	calls := 0
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		m := line.FindStringSubmatch(in.Text())
		if m == nil {
			continue
		}
		pid, text := m[1], m[2]
		if m := unfinished.FindStringSubmatch(text); m != nil {
			begun[pid] = m[1]
			continue
		}
		if m := resumed.FindStringSubmatch(text); m != nil {
			text = begun[pid] + m[1]
			delete(begun, pid)
		}
		calls++
		if m := failed.FindStringSubmatch(text); m != nil {
			args := strings.NewReplacer(s.project, "PROJECT", s.home, "HOME", s.base, "BASE", filepath.Dir(installed)+`"`, `ABOVE-PREFIX"`).Replace(m[2])
			args = number.ReplaceAllString(args, "N")
			if d := (denial{m[1], args, m[3]}); !seen[d] {
				seen[d] = true
				list = append(list, d)
			}
		}
	}
	s.check(in.Err())
	if calls < 1000 {
		s.t.Fatalf("the trace holds %d calls, and no agent does so little", calls)
	}
	return list
}

// denials.txt holds the denials that were looked into, each with a reason.
//
//go:embed denials.txt
var explainedText string

// explain counts the denials that the boundary causes and denials.txt
// explains, and gives those that it does not. Calls that were denied unconfined as
// well (free) are no work of the boundary.
func (s *seat) explain(agent string, list, free []denial) (count int, rest []denial) {
	s.t.Helper()
	type reason struct {
		agent      string
		call, args *regexp.Regexp
	}
	var known []reason
	for n, text := range strings.Split(explainedText, "\n") {
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Split(text, " | ")
		if len(fields) != 4 {
			s.t.Fatalf("denials.txt:%d: has %d fields, not 4", n+1, len(fields))
		}
		known = append(known, reason{strings.TrimSpace(fields[0]),
			regexp.MustCompile("^(" + strings.TrimSpace(fields[1]) + ")$"), regexp.MustCompile(strings.TrimSpace(fields[2]))})
	}
	for _, d := range list {
		switch {
		case slices.Contains(free, d):
		case slices.ContainsFunc(known, func(r reason) bool {
			return (r.agent == "*" || slices.Contains(strings.Fields(r.agent), agent)) && r.call.MatchString(d.call) && r.args.MatchString(d.args)
		}):
			count++
		default:
			rest = append(rest, d)
		}
	}
	return count, rest
}
