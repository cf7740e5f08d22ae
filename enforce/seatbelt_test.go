package enforce

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// What sandbox-exec says is told apart: only "not possible at all" and "in
// this process not" are refusals that a user can act on.
func TestJudgeAnswer(t *testing.T) {
	const deprecated = "sandbox-exec: this tool is deprecated\n"
	for _, c := range []struct {
		name   string
		a      answer
		mayRun bool
		want   resolve.Code
		detail string
	}{
		{"works", answer{}, true, "", ""},
		{"works and talks", answer{stderr: deprecated}, true, "", ""},
		{"nested", answer{status: 71, stderr: "sandbox-exec: sandbox_apply: Operation not permitted\n"}, true, resolve.AlreadyConfined, "does not nest: sandbox-exec: sandbox_apply"},
		{"nested and talks", answer{status: 71, stderr: deprecated + "sandbox-exec: sandbox_apply: Operation not permitted\n"}, false, resolve.AlreadyConfined, "does not nest"},
		{"true may not run, and need not", answer{status: 71, stderr: "sandbox-exec: execvp() of '/usr/bin/true' failed: Operation not permitted\n"}, false, "", ""},
		{"true may run and does not", answer{status: 71, stderr: "sandbox-exec: execvp() of '/usr/bin/true' failed: Operation not permitted\n"}, true, resolve.ApplyFailed, "ended with status 71: sandbox-exec: execvp()"},
		{"71 for no reason", answer{status: 71}, false, resolve.ApplyFailed, "ended with status 71"},
		{"does not compile", answer{status: 65, stderr: "sandbox-exec: unbound variable: x at <input string>, line 3\n"}, true, resolve.ApplyFailed, "line 3"},
		{"killed by dyld", answer{status: 134}, true, resolve.ApplyFailed, "signal 6"},
		{"status 1", answer{status: 1, stderr: "no\n"}, true, resolve.ApplyFailed, "status 1: no"},
		{"cannot be run", answer{err: syscall.EACCES}, true, resolve.ApplyFailed, syscall.EACCES.Error()},
	} {
		r := judgeAnswer(c.a, c.mayRun)
		if c.want == "" && r != nil || c.want != "" && (r == nil || r.Code != c.want || !strings.Contains(r.Detail, c.detail)) {
			t.Errorf("%s: %v, want %q with %q", c.name, r, c.want, c.detail)
		}
	}
}

// paperBoundary is a boundary of a Mac that nobody looked at.
func paperBoundary(t *testing.T, policy string) *resolve.Boundary {
	t.Helper()
	p, err := resolve.DecodePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	b, err := resolve.Resolve(p, &resolve.Facts{OS: "darwin", UID: 501, OnPaper: true, Home: "/Users/me", TmpRoot: "/private/tmp"}, resolve.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Stand-ins take the place of sandbox-exec at the one path that is looked at.
func TestTrySeatbelt(t *testing.T) {
	s, err := Seatbelt(paperBoundary(t, `{"name":"p","permit_path":"/Users/me/work"}`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := func(name, script string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ran := filepath.Join(dir, "ran")
	for _, c := range []struct {
		name, path string
		want       resolve.Code
		detail     string
	}{
		{"missing", filepath.Join(dir, "none"), resolve.ArmMissing, "does not exist; one of another path is never used"},
		{"not executable", program("plain", "", 0o644), resolve.ArmMissing, "is not an executable file"},
		{"a directory", dir, resolve.ArmMissing, "is not an executable file"},
		{"no program", program("broken", "", 0o755) + "/x", resolve.ArmMissing, "not a directory"},
		{"works", program("works", `[ "$1 $3 $5" = '-D -D -D' ] && eval "last=\${$#}" && [ "$last" = /usr/bin/true ] && echo note >&2`, 0o755), "", ""},
		{"nested", program("nested", "echo 'sandbox-exec: sandbox_apply: Operation not permitted' >&2; exit 71", 0o755), resolve.AlreadyConfined, "already"},
		{"aborts", program("aborts", "kill -ABRT $$", 0o755), resolve.ApplyFailed, "signal 6"},
		{"talks a lot", program("talks", "head -c 100000 /dev/zero >&2; exit 0", 0o755), "", ""},
		{"no environment", program("env", `[ -z "$HOME$LANG" ]`, 0o755), "", ""},
	} {
		r := trySeatbelt(c.path, s)
		if c.want == "" && r != nil || c.want != "" && (r == nil || r.Code != c.want || !strings.Contains(r.Detail, c.detail)) {
			t.Errorf("%s: %v, want %q with %q", c.name, r, c.want, c.detail)
		}
	}
	// A wrapper that stands first in PATH is never run.
	program("sandbox-exec", "touch "+ran, 0o755)
	t.Setenv("PATH", dir)
	if r := trySeatbelt(sandboxExec, s); r == nil && !strings.Contains(sandboxExec, "/usr/bin/") {
		t.Error(r)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program of PATH was run")
	}
}

// A hanging sandbox-exec is a refusal and not a hanging launch.
func TestTryTimesOut(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 5 s")
	}
	path := filepath.Join(t.TempDir(), "hangs")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nsleep 100\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := judgeAnswer(try(path, nil), true); r == nil || r.Code != resolve.ApplyFailed || !strings.Contains(r.Detail, "no answer in 5s") {
		t.Error(r)
	}
}

// No value of the renderer's own types is an allow rule that allows everything.
func TestNoFilterIsNoRule(t *testing.T) {
	if rules := allow(nil, "file-read*"); rules != nil {
		t.Errorf("%v", rules)
	}
	if text := (&sbplRules{}).String(); text != "" {
		t.Errorf("an empty boundary renders %q", text)
	}
	for _, f := range []filter{literal(""), subpath(""), beneath(""), globalName(""), param("")} {
		if text := f.sbpl(); !strings.HasPrefix(text, "(") || !strings.Contains(text, `"`) {
			t.Errorf("%T: %q", f, text)
		}
	}
	// The interface is sealed: what implements it stands here.
	if n := reflect.TypeFor[filter]().NumMethod(); n != 1 {
		t.Errorf("%d methods", n)
	}
}

func TestBaseIsCommented(t *testing.T) {
	for name, text := range map[string]string{"base.sbpl": baseSBPL, "pty.sbpl": ptySBPL} {
		covered := false
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			switch {
			case line == "":
				covered = false
			case strings.HasPrefix(strings.TrimSpace(line), ";"):
				covered = true
			case !covered:
				t.Errorf("%s: no comment says why: %s", name, line)
			}
			if strings.TrimRight(line, " \t") != line {
				t.Errorf("%s: trailing blanks: %q", name, line)
			}
		}
	}
}

func TestSeatbeltSize(t *testing.T) {
	s, err := Seatbelt(paperBoundary(t, `{"name":"p","permit_path":"/Users/me/work"}`))
	if err != nil {
		t.Fatal(err)
	}
	if size := s.size(); size < 8<<10 || size > maxSBPL/2 {
		t.Errorf("a plain boundary has %d bytes", size)
	}
	if !s.mayExecute("/usr/bin/true") || s.mayExecute("/Applications/x") || s.mayExecute("/usr2/x") {
		t.Error("what may be executed")
	}
}
