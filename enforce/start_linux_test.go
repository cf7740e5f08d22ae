package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/confinectl/confinectl/resolve"
	"golang.org/x/sys/unix"
)

// plan makes a plan in the test process itself, which stays unconfined.
func (w *world) plan(l launch, ops ...string) *Plan {
	w.t.Helper()
	l.Policy = w.expand(l.Policy)
	if l.Policy == "" {
		l.Policy = `{}`
	}
	l.Permit, l.Dir, l.Tmp = w.path("in"), w.expand(l.Dir), w.path("tmp")
	if l.Command == nil {
		l.Command = append([]string{w.path("bin/t")}, ops...)
	}
	l.Command = w.expandAll(l.Command)
	b, err := l.boundary([]string{"ENFORCE_ROLE=act", "PATH=/usr/bin:/bin", noRaceSleep})
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := Compile(b)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// run starts a plan and collects what the command printed.
func (w *world) run(p *Plan, o StartOptions) map[string]string {
	w.t.Helper()
	r, wr, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	o.Stdout = wr
	child, err := p.Start(o)
	wr.Close()
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err != nil {
		w.t.Fatal(err)
	}
	state, err := child.Wait()
	if err != nil || state.ExitCode() != 0 || state.Pid() != child.Pid {
		w.t.Fatalf("%v, %v", state, err)
	}
	return results(string(out))
}

// TestStartLeavesCallerUnconfined starts more children than a process could
// have layers, at once and one after the other, and then looks at the caller.
func TestStartLeavesCallerUnconfined(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	capsBefore := capabilitySets(unix.CAP_SYS_ADMIN)
	sysAdmin, capsInside := fmt.Sprintf("cap|%d", unix.CAP_SYS_ADMIN), "none"
	if os.Getuid() != 0 {
		capsInside = capsBefore // none that counts: an ordinary user's bounding set is left alone
	}
	ops := []string{"write|%in/f", "write|%out/f", "read|%out/f", "no_new_privs", "cwd", "fd|3", sysAdmin}
	p := w.plan(launch{Dir: "%in/a"}, ops...)
	check := func(got map[string]string) {
		for op, want := range map[string]string{"write|%in/f": "ok", "write|%out/f": "EACCES", "read|%out/f": "EACCES",
			"no_new_privs": "1", "cwd": w.path("in/a"), "fd|3": "EBADF", sysAdmin: capsInside} {
			if got[w.expand(op)] != want {
				t.Errorf("%s: %q, want %q", op, got[w.expand(op)], want)
			}
		}
	}
	for range 20 {
		check(w.run(p, StartOptions{}))
	}
	results := make(chan map[string]string)
	for range 20 {
		go func() { results <- w.run(p, StartOptions{}) }()
	}
	for range 20 {
		check(<-results)
	}

	if err := os.WriteFile(w.path("out/f"), nil, 0o644); err != nil {
		t.Errorf("the caller is confined: %v", err)
	}
	if caps := capabilitySets(unix.CAP_SYS_ADMIN); caps != capsBefore {
		t.Errorf("the caller lost capabilities: %s, before %s", caps, capsBefore)
	}
	deadline := time.Now().Add(5 * time.Second)
	for confined := []string{"?"}; len(confined) > 0; time.Sleep(10 * time.Millisecond) {
		confined = confined[:0]
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil || len(tasks) == 0 {
			t.Fatal(tasks, err)
		}
		for _, task := range tasks {
			if b, err := os.ReadFile(task); err == nil && strings.Contains(string(b), "NoNewPrivs:\t1") {
				confined = append(confined, task)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("threads that started children are left: %v", confined)
		}
	}
}

// TestStartSparesTheFirstThread starts from a goroutine that holds the thread
// which /proc/PID speaks for.
func TestStartSparesTheFirstThread(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	p := w.plan(launch{}, "no_new_privs")
	for range 10 {
		if got := w.run(p, StartOptions{}); got["no_new_privs"] != "1" {
			t.Fatal(got)
		}
		b, err := os.ReadFile("/proc/self/status")
		if err != nil || !strings.Contains(string(b), "NoNewPrivs:\t0") {
			t.Fatalf("the first thread was used: %v", err)
		}
	}
}

func TestStartFiles(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	f, err := os.OpenFile(w.path("out/f"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	loose, err := syscall.Dup(int(f.Fd())) // without close-on-exec, as C code opens files
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(loose)
	leak := fmt.Sprintf("fdwrite|%d", loose)
	got := w.run(w.plan(launch{}, "fdwrite|3", "fd|4", "fd|0", leak), StartOptions{ExtraFiles: []*os.File{f}, Setpgid: true})
	if got["fdwrite|3"] != "ok" || got["fd|4"] != "EBADF" || got["fd|0"] != "ok" || got[leak] != "EBADF" {
		t.Error(got)
	}
}

// TestStartThreadStays starts a child that asks for a signal when its parent
// dies. The kernel means the thread that started it.
func TestStartThreadStays(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	if got := w.run(w.plan(launch{}, "pdeathsig"), StartOptions{}); got["pdeathsig"] != "ok" {
		t.Error(got)
	}
}

func TestStartSignal(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	child, err := w.plan(launch{Command: []string{"sleep", "60"}}).Start(StartOptions{Setpgid: true})
	if err != nil {
		t.Fatal(err)
	}
	if pgid, err := syscall.Getpgid(child.Pid); err != nil || pgid != child.Pid {
		t.Errorf("process group %d, %v; want %d", pgid, err, child.Pid)
	}
	if err := child.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	state, err := child.Wait()
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("%v, %v", state, err)
	}
	if err := child.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal after the end: %v", err)
	}
	if again, err := child.Wait(); again != state || err != nil {
		t.Errorf("second wait: %v, %v", again, err)
	}
}

func TestStartRefuses(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	moved := w.plan(launch{}, "pid")
	if err := os.Rename(w.path("in"), w.path("was")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("out", w.path("in")); err != nil {
		t.Fatal(err)
	}
	if _, err := moved.Start(StartOptions{}); !errors.Is(err, resolve.PathMoved) {
		t.Errorf("swapped: %v", err)
	}

	w = newWorld(t, os.Getuid())
	var e *ExecError
	if _, err := w.plan(launch{Command: []string{"no-such-program-here"}}).Start(StartOptions{}); !errors.As(err, &e) || e.Status != StatusNotFound {
		t.Errorf("missing: %v", err)
	}
	if err := os.WriteFile(w.path("in/text"), []byte("text\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := w.plan(launch{Command: []string{"%in/text"}}).Start(StartOptions{}); !errors.As(err, &e) || e.Status != StatusNotExecuted || !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("no format: %v", err)
	}
}

// foregroundRole has a terminal of its own and starts a confined command on it.
func foregroundRole() int {
	var l launch
	if err := json.Unmarshal([]byte(os.Getenv("ENFORCE_LAUNCH")), &l); err != nil {
		panic(err)
	}
	b, err := l.boundary([]string{"ENFORCE_ROLE=act"})
	if err != nil {
		panic(err)
	}
	p, err := Compile(b)
	if err != nil {
		panic(err)
	}
	child, err := p.Start(StartOptions{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Foreground: true, Ctty: 0})
	if err != nil {
		panic(err)
	}
	if _, err := child.Wait(); err != nil {
		panic(err)
	}
	return 0
}

func TestStartForeground(t *testing.T) {
	needABI(t, 3)
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	w := newWorld(t, os.Getuid())
	cmd := exec.Command(w.path("bin/t"))
	cmd.Env = []string{"ENFORCE_ROLE=foreground", "ENFORCE_LAUNCH=" + w.encode(launch{}, []string{"foreground"})}
	cmd.Stdin = terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || out.String() != "foreground=ok\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}
