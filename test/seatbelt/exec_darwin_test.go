package seatbelt

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
)

// cli builds the program and runs it with a profile directory and a directory to work on.
func (m *mac) cli(args ...string) result {
	m.Helper()
	program := filepath.Join(m.TempDir(), "confinectl")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/confinectl/confinectl/cmd/confinectl").CombinedOutput(); err != nil {
		m.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir = m.home + "/repo"
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// The exit status is the command's, and what is not a command keeps 126 and 127
// apart, as on Linux.
func TestExitStatus(t *testing.T) {
	m := newMac(t)
	must(m, os.WriteFile(m.home+"/repo/noexec", []byte("#!/bin/sh\n"), 0o600))
	must(m, os.WriteFile(m.home+"/repo/text", []byte("echo hello\n"), 0o755))
	must(m, os.WriteFile(m.home+"/repo/lost", []byte("#!/nowhere/x\n"), 0o755))
	for _, c := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"/bin/sh", "-c", "exit 42"}, 42, ""},
		{[]string{"sh", "-c", "exit 71"}, 71, ""},
		{[]string{"/usr/bin/true"}, 0, ""},
		{[]string{"no-such-command"}, 127, "not found in PATH"},
		{[]string{m.home + "/repo"}, 126, "is a directory"},
		{[]string{m.home + "/repo/noexec"}, 126, "not executable"},
		{[]string{m.home + "/repo/text"}, 126, "no format that macOS runs"},
		{[]string{m.home + "/repo/lost"}, 126, "/nowhere/x does not exist"},
	} {
		r := m.cli(append([]string{"exec", "workspace", "--"}, c.args...)...)
		if r.status != c.status || !strings.Contains(r.stderr, c.stderr) {
			t.Errorf("%q: %s, want %d with %q", c.args, r, c.status, c.stderr)
		}
	}
}

// Inside one boundary there is no second, whatever the second would allow.
func TestNested(t *testing.T) {
	m := newMac(t)
	program := filepath.Join(m.home, "ref", "confinectl")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/confinectl/confinectl/cmd/confinectl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, params := m.ours()
	r := m.run(s.Profile+"\n"+allowRead(`subpath (param "P")`)+`(allow process-exec* (subpath (param "P")))`, append(params, "P="+m.home+"/ref"), program, "exec", "workspace", "--", "/usr/bin/true")
	if r.status != 125 || !strings.Contains(r.stderr, "refused: already-confined") {
		t.Error(r)
	}
}

// A descriptor that was inherited is closed, unless it is kept by name.
func TestDescriptors(t *testing.T) {
	m := newMac(t)
	program := filepath.Join(t.TempDir(), "confinectl")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/confinectl/confinectl/cmd/confinectl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		flag string
		want string
	}{{"", "closed"}, {"--keep-fd=3", "secret"}} {
		f, err := os.Open(m.home + "/out/f")
		must(m, err)
		args := []string{"exec"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		cmd := exec.Command(program, append(args, "workspace", "--", "/bin/sh", "-c", "if cat <&3; then echo secret; else echo closed; fi 2>/dev/null")...)
		cmd.Dir = m.home + "/repo"
		cmd.ExtraFiles = []*os.File{f}
		out, err := cmd.Output()
		f.Close()
		if err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %q %v, want %s", c.flag, out, err, c.want)
		}
	}
}

// A path that changes between resolving and starting is refused.
func TestMoved(t *testing.T) {
	m := newMac(t)
	for _, c := range []struct {
		change func()
		want   resolve.Code
	}{
		{func() { must(m, os.Rename(m.home+"/ref", m.home+"/ref2")) }, resolve.PathMissing},
		{func() {
			must(m, os.Rename(m.home+"/ref", m.home+"/ref2"))
			must(m, os.Symlink(m.home+"/out", m.home+"/ref"))
		}, resolve.PathMoved},
		{func() {
			must(m, os.Rename(m.home+"/repo", m.home+"/repo2"))
			must(m, os.Mkdir(m.home+"/repo", 0o700))
		}, resolve.PathMoved},
	} {
		m.fill()
		plan, err := m.plan(policyText)
		must(m, err)
		c.change()
		if _, err := plan.Start(enforce.StartOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
