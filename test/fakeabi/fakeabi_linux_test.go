package fakeabi

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is the child as well: it asks the kernel and prints the answers.
func TestMain(m *testing.M) {
	switch os.Getenv("FAKEABI_ROLE") {
	case "main":
		os.Setenv("FAKEABI_ROLE", "child")
		Main()
	case "child":
		child(os.Args[1:])
	}
	os.Exit(m.Run())
}

func child(args []string) {
	switch args[0] {
	case "exit7":
		os.Exit(7)
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	name := func(r uintptr, e syscall.Errno) string {
		if e != 0 {
			return unix.ErrnoName(e)
		}
		return string(rune('0' + r))
	}
	version, _, e := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	println("version", name(version, e))
	_, _, e = unix.Syscall(unix.SYS_LANDLOCK_ADD_RULE, ^uintptr(0), 0, 0)
	println("add_rule", unix.ErrnoName(e))
	_, _, e = unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ^uintptr(0), 0, 0)
	println("restrict_self", name(0, e))
	os.Exit(0)
}

func run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(args, "SELF")
	args[i] = self
	cmd := exec.Command(self, args...)
	cmd.Env = []string{"FAKEABI_ROLE=main"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		flags string
		want  []string
	}{
		{"-v 3", []string{"version 3"}},
		{"-v 1", []string{"version 1"}},
		{"-v 0", []string{"version ENOTSUP", "add_rule ENOTSUP", "restrict_self ENOTSUP"}},
		{"-e ENOSYS", []string{"version ENOSYS", "add_rule ENOSYS", "restrict_self ENOSYS"}},
		{"-e 1", []string{"version EPERM", "add_rule EPERM", "restrict_self EPERM"}},
		{"-v 5 -a EDOM", []string{"version 5", "add_rule EDOM"}},
		{"-l", []string{"restrict_self 0"}}, // a ruleset that does not exist: the kernel was not asked
		{"-l -r EDOM", []string{"restrict_self EDOM"}},
		{"-v 5 -r E2BIG", []string{"version 5", "restrict_self E2BIG"}},
	} {
		got, status := run(t, append(strings.Fields(c.flags), "--", "SELF", "ask")...)
		lines := strings.Split(got, "\n")
		if status != 0 || slices.ContainsFunc(c.want, func(line string) bool { return !slices.Contains(lines, line) }) {
			t.Errorf("%s: status %d, %q; want %q", c.flags, status, lines, c.want)
		}
	}
}

func TestStatus(t *testing.T) {
	for arg, want := range map[string]int{"exit7": 7, "kill": 128 + 9, "ask": 0} {
		if out, status := run(t, "-v", "3", "SELF", arg); status != want {
			t.Errorf("%s: status %d, want %d: %s", arg, status, want, out)
		}
	}
	if status, err := Run(Spec{}, []string{"/no/such/program"}); status != 125 || !errors.Is(err, os.ErrNotExist) {
		t.Error(status, err)
	}
}

func TestParse(t *testing.T) {
	s, argv, err := Parse([]string{"-v", "3", "-x", "1", "-a", "22", "-r", "E2BIG", "-l", "cmd", "-v"})
	if err != nil || s.ABI != 3 || s.String() != "-v 3 -x 1 -a EINVAL -r E2BIG -l" || !slices.Equal(argv, []string{"cmd", "-v"}) {
		t.Error(s, argv, err)
	}
	for _, args := range [][]string{{}, {"-v", "3"}, {"-z", "1", "cmd"}, {"-e", "ENONSENSE", "cmd"}, {"-v"}, {"-v", "-1", "cmd"}, {"--"}} {
		if _, _, err := Parse(args); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
