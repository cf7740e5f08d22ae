package escapes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/test/testenv"
)

// unprivileged is the uid and gid of the second measurement.
const unprivileged = 1000

const (
	roleHarness = "harness" // the harness, in its own mount namespace
	envBinary   = "CONFINECTL"
	envTable    = "ESCAPES_TABLE"
	envBase     = "ESCAPES_BASE" // made and removed by the outer process
)

// TestMain plays the other parts of the test binary. The harness itself starts
// over, as root in a mount namespace (and an IPC namespace) of its own: no mount
// outlives it, and what it leaves when it is killed is removed from out here.
func TestMain(m *testing.M) {
	switch role := os.Getenv(envRole); role {
	case "attempt", "inner":
		os.Exit(runAttempt(role))
	case "bystander":
		os.Exit(runBystander())
	case roleHarness:
		os.Unsetenv(envRole)
		unix.Umask(0o022)
		os.Exit(m.Run())
	default:
		os.Exit(startOver())
	}
}

func startOver() int {
	base, err := os.MkdirTemp(reachableTemp(), "escapes.")
	if err != nil {
		fmt.Fprintln(os.Stderr, "escapes:", err)
		return 1
	}
	defer func() {
		if err := removeTree(base); err != nil {
			fmt.Fprintln(os.Stderr, "escapes:", err)
		}
	}()
	runtime.LockOSThread() // Pdeathsig is that of the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), envRole+"="+roleHarness, envBase+"="+base)
	if os.Getenv("GORACE") == "" {
		cmd.Env = append(cmd.Env, "GORACE=atexit_sleep_ms=0") // a second for each attempt under -race
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS | unix.CLONE_NEWIPC
	}
	// go test sends SIGQUIT to the whole group on a timeout; the other one prints.
	signal.Ignore(unix.SIGQUIT)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	default:
		fmt.Fprintln(os.Stderr, "escapes: a mount namespace of its own:", err)
		return 1
	}
}

// harness is what all rows share.
type harness struct {
	root   bool
	abi    int
	base   string // the fixtures live below it
	bin    string // confinectl and the attempt's program; a read path of every profile
	serial int
	quiet  string // what an untouched bystander says
}

// newHarness finds or builds confinectl and makes the directory for the
// fixtures. Without Landlock, or without root under CI, it fails or skips.
func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{root: os.Geteuid() == 0, abi: landlockABI()}
	testenv.Need(t, h.abi >= 1, "Landlock in its kernel: nothing can be measured")
	if !h.root && os.Getenv("CI") == "true" {
		t.Fatal("not root: half of the table cannot be measured")
	}
	h.base = os.Getenv(envBase)
	h.bin = filepath.Join(h.base, "bin")
	if h.root {
		if err := h.plainMount(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(h.base, 0); err != nil { // not MNT_DETACH: nothing may still use it
				t.Error(err)
			}
		})
	}
	for _, d := range []string{h.base, h.bin} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	h.install(t, "/proc/self/exe", "attempt")
	if given := os.Getenv(envBinary); given != "" {
		h.install(t, given, "confinectl")
	} else {
		testenv.LookAtSources(t)
		build := exec.Command("go", "build", "-o", filepath.Join(h.bin, "confinectl"), "github.com/confinectl/confinectl/cmd/confinectl")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build confinectl: %v\n%s", err, out)
		}
	}
	return h
}

// plainMount makes the fixtures' directory a mount of its own without nosuid,
// nodev and noexec, or the set-uid and device rows would prove nothing.
func (h *harness) plainMount() error {
	if err := unix.Mount(h.base, h.base, "bind", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s: %w", h.base, err)
	}
	if err := unix.Mount("", h.base, "", unix.MS_REMOUNT|unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("remount %s: %w", h.base, err)
	}
	return nil
}

func (h *harness) install(t *testing.T, from, name string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(filepath.Join(h.bin, name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(dst, src); err != nil {
		t.Fatal(err)
	}
	if err := dst.Close(); err != nil {
		t.Fatal(err)
	}
}

// reachableTemp is a directory for temporary files that uid 1000 can reach too.
func reachableTemp() string {
	tmp := os.TempDir()
	for d := filepath.Clean(tmp); ; d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil || info.Mode().Perm()&1 == 0 {
			return "/var/tmp"
		}
		if d == "/" {
			return tmp
		}
	}
}

// users are those that this process can measure as.
func (h *harness) users() []int {
	if h.root {
		return []int{asRoot, asUser}
	}
	return []int{asUser}
}

func userName(user int) string { return [2]string{"root", "uid1000"}[user] }

// landlockABI is the ABI that counts: a kernel that claims 6 without the fix to
// the signal scope (erratum 2) counts as 5.
func landlockABI() int {
	const errata = 1 << 1 // LANDLOCK_CREATE_RULESET_ERRATA
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	fixed, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, errata)
	if abi >= 6 && (errno != 0 || fixed&(1<<1) == 0) {
		return 5
	}
	return int(abi)
}

func (h *harness) credential(user int) *syscall.Credential {
	if user == asUser && h.root {
		return &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	return nil
}

// result is what one launch came to.
type result struct {
	verdict string
	detail  string
}

func (r result) String() string {
	if r.detail == "" {
		return r.verdict
	}
	return r.verdict + " (" + r.detail + ")"
}

// measure runs a row once on a fresh fixture and compares the attempt's own
// verdict with what the fixture looks like afterwards.
func (h *harness) measure(r *row, user int, confined bool) (res result) {
	fx, err := h.newFixture(r, user)
	defer func() {
		if err := fx.close(); err != nil {
			res = result{"broken", "clean up: " + err.Error()}
		}
	}()
	if err != nil {
		verdict, detail := verdictOf(err)
		return result{verdict, "prepare: " + detail}
	}
	if fx.ask != nil && h.quiet == "" {
		if h.quiet, err = fx.ask("state"); err != nil {
			return result{"broken", err.Error()}
		}
	}
	before, err := fx.look()
	if err != nil {
		return result{"broken", err.Error()}
	}
	res = fx.launch(confined)
	after, err := fx.look()
	if err != nil {
		return result{"broken", err.Error()}
	}
	changed := after.content != before.content
	switch {
	case r.effect != nil:
		if changed, err = r.effect(fx); err != nil {
			return result{"broken", err.Error()}
		}
	case r.changes == metadata:
		changed = after.metadata != before.metadata
	}
	checked := r.effect != nil || r.changes != nothing
	if changed && res.verdict != "allowed" && res.verdict != "broken" {
		return result{"broken", fmt.Sprintf("reported %q, but the outside changed", res)}
	}
	if !changed && res.verdict == "allowed" && r.silent {
		return result{"harmless", "the call succeeds, but has no effect"}
	}
	if checked && !changed && res.verdict == "allowed" {
		return result{"broken", "reported allowed, but nothing outside changed"}
	}
	return res
}

// command is what starts the attempt, and its environment.
func (fx *fixture) command(confined bool) (argv, environ []string) {
	program := filepath.Join(fx.h.bin, "attempt")
	argv = []string{program}
	if confined {
		argv = append([]string{fx.binary, "exec", "--profile-dir", fx.profiles}, fx.flags...)
		argv = append(argv, "p", "--", program)
	}
	environ = append(os.Environ(), envRole+"=attempt", envRow+"="+fx.row.name, envDir+"="+fx.dir, envPermit+"="+fx.permit)
	if confined {
		environ = append(environ, envConfined+"=1")
	}
	return argv, append(environ, fx.env...)
}

func (fx *fixture) sys() *syscall.SysProcAttr {
	sys := &syscall.SysProcAttr{Credential: fx.h.credential(fx.user)}
	if fx.row.ownMounts && fx.h.root {
		sys.Unshareflags = unix.CLONE_NEWNS
	}
	return sys
}

// launch runs the attempt, as the command of confinectl exec or by itself.
func (fx *fixture) launch(confined bool) result {
	fx.confined = confined
	argv, environ := fx.command(confined)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = fx.dir + "/out"
	cmd.Env = environ
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.ExtraFiles = fx.files
	cmd.SysProcAttr = fx.sys()
	var answer io.Writer = io.Discard
	if fx.stdin != nil {
		cmd.Stdin = fx.stdin
		cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = fx.tty, fx.tty
	} else {
		pipe, err := cmd.StdinPipe()
		if err != nil {
			return result{"broken", err.Error()}
		}
		answer = pipe
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return result{"broken", err.Error()}
	}
	if err := cmd.Start(); err != nil {
		return result{"broken", err.Error()}
	}
	killer := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
	defer killer.Stop()
	res, inside := result{}, ""
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "INSIDE":
			inside = rest
		case "STEP":
			reply := "done\n"
			if err := fx.row.step(fx); err != nil {
				reply = err.Error() + "\n"
			}
			_, _ = io.WriteString(answer, reply)
		case "VERDICT":
			res.verdict, res.detail, _ = strings.Cut(rest, "\t")
		}
	}
	err = cmd.Wait()
	switch code := refusalCode(stderr.String()); {
	case code != "" && cmd.ProcessState.ExitCode() == 125 && inside == "":
		return result{"refused " + code, firstLine(stderr.String())}
	case res.verdict == "":
		return result{"broken", fmt.Sprintf("no verdict: %v: %s", err, firstLine(stderr.String()))}
	case inside != "ok":
		return result{"broken", "the permit path cannot be written inside: " + inside}
	}
	return res
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// countSignals counts SIGUSR1, with which the attempts try their luck.
func countSignals() func() int64 {
	var n atomic.Int64
	c := make(chan os.Signal, 8)
	signal.Notify(c, unix.SIGUSR1)
	go func() {
		for range c {
			n.Add(1)
		}
	}()
	return n.Load
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(&b[0])) }
