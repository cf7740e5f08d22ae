//go:build agents

package agents

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// What TestMain prepares.
var (
	// scratch holds the seats. Not in /tmp, because a home directory is not there
	// either, and Codex for one takes offence; and not deep, because sockets are made
	// in it, whose paths may have 107 bytes.
	scratch string
	// installed is the npm prefix with the agents.
	installed string
	// confinectl is the program under test.
	confinectl string
)

// These carry the three to the inner one of two runs, see TestMain.
const (
	scratchVariable    = "CONFINECTL_TEST_AGENTS_SCRATCH"
	installedVariable  = "CONFINECTL_TEST_AGENTS_INSTALLED"
	confinectlVariable = "CONFINECTL"
	keepVariable       = "CONFINECTL_TEST_AGENTS_KEEP"
)

// TestMain installs the agents and builds confinectl. As root it then starts itself again
// with a /tmp of its own and a network of its own that has nothing but loopback:
// agents leave sockets and directories at fixed places in /tmp, and some of them
// want to reach the network whatever their settings say. The inner run does
// the tests. Anyone else has one run only, on the host's /tmp and network.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	if scratch = os.Getenv(scratchVariable); scratch != "" {
		installed, confinectl = os.Getenv(installedVariable), os.Getenv(confinectlVariable)
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		status := m.Run()
		printTable()
		os.Exit(status)
	}
	os.Exit(outer(m))
}

func outer(m *testing.M) int {
	err := prepare()
	if scratch != "" && os.Getenv(keepVariable) == "" {
		defer os.RemoveAll(scratch)
	}
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	case os.Geteuid() != 0:
		status := m.Run()
		printTable()
		return status
	}
	// The go command reads a log from a path in the host's /tmp, to decide whether it
	// may keep the result; without that log it does not keep it.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(a string) bool { return strings.HasPrefix(a, "-test.testlogfile=") })
	runtime.LockOSThread() // the inner run ends with the thread that started it (Pdeathsig)
	inner := exec.Command("/proc/self/exe", args...)
	inner.Env = append(os.Environ(), scratchVariable+"="+scratch, installedVariable+"="+installed, confinectlVariable+"="+confinectl)
	inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err = inner.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL: a mount and a network namespace are needed (CAP_SYS_ADMIN):", err)
		return 1
	}
	return 0
}

// prepare finds or makes everything that the tests need.
func prepare() error {
	for _, p := range []string{"npm", "tmux", "strace", "git"} {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("%s is missing: apt-get install %[1]s", p)
		}
	}
	u := ordinary()
	users, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`(?m)^[^:]*:[^:]*:` + strconv.Itoa(u.uid) + `:`).Match(users) {
		return fmt.Errorf("uid %d is not in /etc/passwd, and agents do not start without that: useradd --uid %[1]d agent", u.uid)
	}
	if installed, err = prefix(); err != nil {
		return err
	}
	if scratch, err = os.MkdirTemp("/var/tmp", "cta-"); err != nil {
		return err
	}
	if err := os.Chmod(scratch, 0o755); err != nil {
		return err
	}
	if os.Getenv(keepVariable) != "" {
		fmt.Println("kept:", scratch)
	}
	// A copy of it, or one built from this clone, where every user can reach it.
	confinectl = filepath.Join(scratch, "confinectl")
	if given := os.Getenv(confinectlVariable); given != "" {
		program, err := os.ReadFile(given)
		if err != nil {
			return err
		}
		return os.WriteFile(confinectl, program, 0o755)
	}
	build := exec.Command("go", "build", "-o", confinectl, "github.com/confinectl/confinectl/cmd/confinectl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/confinectl: %w\n%s", err, out)
	}
	return nil
}

// enter furnishes the namespaces of the inner run: /tmp is an empty directory
// of the scratch one, and loopback is up.
func enter() error {
	tmp := filepath.Join(scratch, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(tmp, 0o777|os.ModeSticky); err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := syscall.Mount(tmp, "/tmp", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /tmp: %w", err)
	}
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(s)
	// struct ifreq, netdevice(7)
	request := struct {
		name  [16]byte
		flags uint16
		_     [22]byte
	}{name: [16]byte{'l', 'o'}, flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return fmt.Errorf("loopback: %w", errno)
	}
	return nil
}
