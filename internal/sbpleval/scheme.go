package sbpleval

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed prelude.scm
var prelude string

// crashes is how often an interpreter that died by a signal is started again:
// the collector of Debian's 1.42 runs off its heap with some layouts of the address space (seen: one of
// our preludes, in every second run). One that died has answered nothing.
const crashes = 20

// ErrNoScheme says that this machine has no tinyscheme.
var ErrNoScheme = errors.New("tinyscheme is not installed: apt-get install tinyscheme")

// Scheme has tinyscheme execute a profile and answer the queries, in order. dir
// is a directory for its files. It is an error where the two accounts of rule order differ, and
// where the program says anything that is no answer: the interpreter ends with status 0
// also when a list was never closed.
func Scheme(dir, text string, params []Param, queries []Query) ([]bool, error) {
	program, err := exec.LookPath("tinyscheme")
	if err != nil {
		return nil, ErrNoScheme
	}
	var set, ask strings.Builder
	for _, p := range params {
		fmt.Fprintf(&set, "(set! params (cons (cons (string->symbol %s) %s) params))\n", schemeString(p.Key), schemeString(p.Value))
	}
	asked := map[Query]int{} // each question once: the interpreter is slow
	for _, q := range queries {
		if _, again := asked[q]; again {
			continue
		}
		asked[q] = len(asked)
		path, above := "'none", "'()"
		if q.Path != "" {
			path = symbol(q.Path)
			above = "(list"
			for p := q.Path; ; p = p[:strings.LastIndexByte(p, '/')] {
				if p == "" {
					above += " " + symbol("/") + ")"
					break
				}
				if p != "/" {
					above += " " + symbol(p)
				}
			}
		}
		name, target, ip := "'none", "'none", "#f"
		if q.Name != "" {
			name = symbol(q.Name)
		}
		if q.Target != "" {
			target = symbol(q.Target)
		}
		if q.IP {
			ip = "#t"
		}
		fmt.Fprintf(&ask, "(ask '%s %s %s %s %s %s)\n", q.Op, path, above, name, ip, target)
	}
	ask.WriteString("(display \"end\")(newline)\n")
	names := []string{"prelude.scm", "params.scm", "profile.sb", "queries.scm"}
	for i, content := range []string{prelude, set.String(), text + "\n(display \"profile\")(newline)\n", ask.String()} {
		if err := os.WriteFile(filepath.Join(dir, names[i]), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	var out []byte
	var stderr bytes.Buffer
	for range crashes {
		stderr.Reset()
		cmd := exec.Command(program, names...)
		cmd.Dir, cmd.Stderr = dir, &stderr
		out, err = cmd.Output()
		if err == nil || cmd.ProcessState == nil || cmd.ProcessState.ExitCode() >= 0 {
			break
		}
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || stderr.Len() > 0 || len(lines) != len(asked)+2 || lines[0] != "profile" || lines[len(lines)-1] != "end" {
		return nil, fmt.Errorf("tinyscheme: %v: %s%s", err, stderr.Bytes(), lines[max(0, len(lines)-2):])
	}
	said := lines[1 : len(lines)-1]
	answers := make([]bool, len(queries))
	for i, q := range queries {
		switch line := said[asked[q]]; line {
		case "allow allow":
			answers[i] = true
		case "deny deny":
		default:
			return nil, fmt.Errorf("tinyscheme: %+v: the two accounts say %q", q, line)
		}
	}
	return answers, nil
}

func symbol(s string) string { return "(string->symbol " + schemeString(s) + ")" }

// schemeString writes a string in pieces that the reader's buffer holds.
func schemeString(s string) string {
	const piece = 200
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	if len(s) <= piece/2 {
		return `"` + quote.Replace(s) + `"`
	}
	var b strings.Builder
	b.WriteString("(string-append")
	for len(s) > 0 {
		n := min(len(s), piece/2) // every byte may need an escape
		b.WriteString(` "` + quote.Replace(s[:n]) + `"`)
		s = s[n:]
	}
	return b.String() + ")"
}
