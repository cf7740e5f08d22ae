package escapes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Environment of an attempt: confinectl passes it through unmodified.
const (
	envRole     = "ESCAPES_ROLE"     // attempt, inner or bystander; empty in the harness
	envRow      = "ESCAPES_ROW"      // the row to try
	envDir      = "ESCAPES_DIR"      // the fixture
	envConfined = "ESCAPES_CONFINED" // not empty in the run through confinectl
	envPermit   = "ESCAPES_PERMIT"   // the directory that the profile permits
	envPID      = "ESCAPES_PID"      // the bystander, and what there is to attack in it
	envAddr     = "ESCAPES_ADDR"
	envFD       = "ESCAPES_FD"
	envSocket   = "ESCAPES_SOCKET" // abstract name of the broker
	envPort     = "ESCAPES_PORT"   // its TCP port
	envDevice   = "ESCAPES_DEVICE" // block device node outside
	envPTY      = "ESCAPES_PTY"    // somebody else's terminal
	envDepth    = "ESCAPES_DEPTH"  // layers to go
)

// attempt is the process that tries to get out.
type attempt struct {
	row   *row
	dir   string
	stdin *bufio.Reader
}

// outcome is a verdict that is no errno of our own: one that a child reported,
// or one that needs words.
type outcome struct{ verdict, detail string }

func (o outcome) Error() string { return o.verdict + " " + o.detail }

// harmless is the verdict of an attempt that succeeds without reaching the outside.
func harmless(why string) error { return outcome{"harmless", why} }

// verdictOf is the machine-readable form of an attempt's result.
func verdictOf(err error) (verdict, detail string) {
	var o outcome
	var errno unix.Errno
	switch {
	case err == nil:
		return "allowed", ""
	case errors.As(err, &o):
		return o.verdict, o.detail
	case errors.As(err, &errno):
		return "denied " + unix.ErrnoName(errno), err.Error()
	default:
		return "broken", err.Error()
	}
}

// runAttempt is main for the roles attempt and inner: it prints one line,
// "VERDICT" and the verdict, after one that says whether the permit path can be
// written, without which no denial means anything.
func runAttempt(role string) int {
	runtime.LockOSThread()
	time.AfterFunc(20*time.Second, func() { os.Exit(3) })
	a := &attempt{dir: os.Getenv(envDir), stdin: bufio.NewReader(os.Stdin)}
	for _, r := range append(rows(), raceRow(), swapRow(), layersRow(), stdioRow()) {
		if r.name == os.Getenv(envRow) {
			a.row = r
		}
	}
	if a.row == nil {
		fmt.Println("VERDICT broken\tno such row")
		return 2
	}
	try := a.row.try
	if role == "inner" {
		try = a.row.inner
	} else if err := a.inside(); err != nil {
		fmt.Printf("INSIDE %v\n", err)
	} else {
		fmt.Println("INSIDE ok")
	}
	verdict, detail := verdictOf(try(a))
	fmt.Printf("VERDICT %s\t%s\n", verdict, strings.Join(strings.Fields(detail), " "))
	return 0
}

// inside is the control inside the boundary: make a file in the permit path,
// read it back, remove it.
func (a *attempt) inside() error {
	name := filepath.Join(os.Getenv(envPermit), ".inside")
	if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
		return err
	}
	if b, err := os.ReadFile(name); err != nil || string(b) != "x" {
		return fmt.Errorf("read back %q: %v", b, err)
	}
	return os.Remove(name)
}

func (a *attempt) in(name string) string  { return a.dir + "/in/" + name }
func (a *attempt) out(name string) string { return a.dir + "/out/" + name }
func (a *attempt) ro(name string) string  { return a.dir + "/ro/" + name }

// ask has the harness run the row's step, outside, and waits for it.
func (a *attempt) ask() error {
	fmt.Println("STEP")
	answer, err := a.stdin.ReadString('\n')
	if err != nil || answer != "done\n" {
		return fmt.Errorf("step: %q %v", answer, err)
	}
	return nil
}

// child runs the row's inner part in a new process of the given program and
// returns its verdict as an error.
func (a *attempt) child(cmd *exec.Cmd) error {
	cmd.Env = append(os.Environ(), envRole+"=inner")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	for line := range strings.Lines(string(stdout)) {
		if rest, ok := strings.CutPrefix(line, "VERDICT "); ok {
			verdict, detail, _ := strings.Cut(strings.TrimSpace(rest), "\t")
			if verdict == "allowed" {
				return nil
			}
			return outcome{verdict, detail}
		}
	}
	if code := refusalCode(stderr.String()); code != "" {
		return outcome{"refused " + code, stderr.String()}
	}
	if err == nil {
		err = errors.New("no verdict")
	}
	return fmt.Errorf("child: %w: %s", err, stderr.String())
}

// self is this very program, which the boundary grants because it is the command.
func self() *exec.Cmd { return exec.Command("/proc/self/exe") }

// inNamespace runs inner in a new user namespace (and flags more) with the
// caller mapped to root. Inside the boundary the map cannot be written, because
// /proc is read-only there; the child then goes on without one, and keeps what it
// may do in its namespace as ambient capabilities across its own exec.
func (a *attempt) inNamespace(flags uintptr) error {
	cmd := self()
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := a.child(cmd)
	if errors.Is(err, unix.EACCES) {
		cmd = self()
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER | flags,
			AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER},
		}
		err = a.child(cmd)
	}
	return err
}

// write appends one byte to a file: the open alone would not show that the
// content can change.
func write(path string, flags int) error { return writeAt(unix.AT_FDCWD, path, flags) }

func writeAt(dir int, path string, flags int) error {
	fd, err := unix.Openat(dir, path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC|flags, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("X"))
	return err
}

// read reads one byte; an empty file is ENODATA.
func read(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, make([]byte, 1))
	if err == nil && n == 0 {
		err = unix.ENODATA
	}
	return err
}

// opens opens and closes a file, for rows where opening alone is the breach.
func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func list(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Getdents(fd, make([]byte, 4096))
	return err
}

// refusalCode is the code in a refusal that confinectl printed, or empty.
func refusalCode(stderr string) string {
	for line := range strings.Lines(stderr) {
		if rest, ok := strings.CutPrefix(line, "confinectl: refused: "); ok {
			code, _, _ := strings.Cut(strings.TrimSpace(rest), ":")
			return code
		}
	}
	return ""
}
