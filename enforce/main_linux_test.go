package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/confinectl/confinectl/resolve"
	"github.com/confinectl/confinectl/test/fakeabi"
	"github.com/confinectl/confinectl/test/testenv"
	"golang.org/x/sys/unix"
)

// The test binary plays every part: the launcher, the confined program, and
// the kernel with another Landlock.
func TestMain(m *testing.M) {
	switch os.Getenv("ENFORCE_ROLE") {
	case "launch":
		os.Exit(launchRole())
	case "act":
		os.Exit(actRole())
	case "foreground":
		os.Exit(foregroundRole())
	case "fakeabi":
		os.Setenv("ENFORCE_ROLE", os.Getenv("ENFORCE_NEXT"))
		fakeabi.Main()
	}
	os.Exit(m.Run())
}

// noRaceSleep takes the second away that a binary built with -race sleeps at its end.
const noRaceSleep = "GORACE=atexit_sleep_ms=0"

// launch is what the launcher is told, as JSON in its environment.
type launch struct {
	Policy  string
	Permit  string
	Dir     string
	Tmp     string
	Command []string
	Keep    []int
	Between [][]string // what happens to the file system between Compile and Exec
	Layers  int        // confine this often, each time by Exec, before the command
	Only    string     // "compile", "rehearse": stop there
	Files   int        // RLIMIT_NOFILE before Exec
	NoSets  bool       // a seccomp filter lets nobody read or lower the bounding set of capabilities
}

// verdict is what the launcher prints when it did not become the command.
type verdict struct {
	Codes  []string
	Text   string
	Status int
	Keep   int
}

// boundary resolves the launch for this host and user.
func (l launch) boundary(env []string) (*resolve.Boundary, error) {
	policy, err := resolve.DecodePolicy([]byte(l.Policy))
	if err != nil {
		return nil, err
	}
	cwd, _ := os.Getwd()
	facts := &resolve.Facts{OS: runtime.GOOS, UID: os.Getuid(), Home: "/nonexistent", TmpRoot: l.Tmp, Cwd: cwd, Env: env}
	return resolve.Resolve(policy, facts, resolve.Request{PermitPath: l.Permit, Dir: l.Dir, Command: l.Command})
}

func launchRole() int {
	var l launch
	if err := json.Unmarshal([]byte(os.Getenv("ENFORCE_LAUNCH")), &l); err != nil {
		panic(err)
	}
	os.Setenv("ENFORCE_ROLE", "act")
	if l.Layers > 0 {
		inner := l
		inner.Layers--
		b, _ := json.Marshal(inner)
		os.Setenv("ENFORCE_ROLE", "launch")
		os.Setenv("ENFORCE_LAUNCH", string(b))
		l.Command = l.Command[:1]
	}
	err := l.run()
	v := verdict{Status: StatusRefused, Text: fmt.Sprint(err)}
	var refusals resolve.Refusals
	var refusal *resolve.Refusal
	var notRun *ExecError
	var keep *KeepError
	switch {
	case err == nil:
		v.Status, v.Text = 0, ""
	case errors.As(err, &refusals):
		for _, r := range refusals {
			v.Codes = append(v.Codes, string(r.Code))
		}
	case errors.As(err, &refusal):
		v.Codes = []string{string(refusal.Code)}
	case errors.As(err, &notRun):
		v.Status = notRun.Status
	case errors.As(err, &keep):
		v.Keep = keep.FD
	}
	b, _ := json.Marshal(v)
	fmt.Fprintln(os.Stderr, string(b))
	return v.Status
}

func (l launch) run() error {
	b, err := l.boundary(os.Environ())
	if err != nil {
		return err
	}
	if l.NoSets {
		refuseBoundingSet()
	}
	p, err := Compile(b)
	if err != nil || l.Only == "compile" {
		return err
	}
	for _, step := range l.Between {
		if err := happen(step); err != nil {
			panic(err)
		}
	}
	if l.Only == "rehearse" {
		return p.Rehearse()
	}
	if l.Files > 0 {
		if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(l.Files), Max: uint64(l.Files)}); err != nil {
			panic(err)
		}
	}
	return p.Exec(l.Keep)
}

// happen does one thing to the file system.
func happen(step []string) error {
	switch step[0] {
	case "rename":
		return os.Rename(step[1], step[2])
	case "symlink":
		return os.Symlink(step[1], step[2])
	case "mkdir":
		if err := os.Mkdir(step[1], 0o755); err != nil {
			return err
		}
		if len(step) < 3 {
			return nil
		}
		mode, _ := strconv.ParseUint(step[2], 8, 32)
		return unix.Chmod(step[1], uint32(mode))
	case "chmod":
		mode, _ := strconv.ParseUint(step[2], 8, 32)
		return unix.Chmod(step[1], uint32(mode))
	case "chown":
		uid, _ := strconv.Atoi(step[2])
		return os.Chown(step[1], uid, -1)
	case "remove":
		return os.RemoveAll(step[1])
	case "write":
		return os.WriteFile(step[1], []byte("written\n"), 0o755)
	}
	panic("no such step: " + step[0])
}

// actRole is the program that gets confined: it tries every operation of its
// arguments, "name|argument|argument", and prints what became of each.
func actRole() int {
	for _, op := range os.Args[1:] {
		fmt.Printf("%s=%s\n", op, act(strings.Split(op, "|")))
	}
	return 0
}

func act(op []string) string {
	arg := func(i int) string { return op[i] }
	number := func(i int) int {
		n, err := strconv.Atoi(op[i])
		if err != nil {
			panic(err)
		}
		return n
	}
	result := func(err error) string {
		var e syscall.Errno
		switch {
		case err == nil:
			return "ok"
		case errors.As(err, &e):
			return unix.ErrnoName(e)
		}
		return err.Error()
	}
	switch op[0] {
	case "write":
		f, err := os.OpenFile(arg(1), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err == nil {
			_, err = f.WriteString("written\n")
			f.Close()
		}
		return result(err)
	case "read":
		_, err := os.ReadFile(arg(1))
		return result(err)
	case "list":
		_, err := os.ReadDir(arg(1))
		return result(err)
	case "exec":
		return result(exec.Command(arg(1)).Run())
	case "rename":
		return result(unix.Rename(arg(1), arg(2)))
	case "link":
		return result(unix.Link(arg(1), arg(2)))
	case "symlink":
		return result(unix.Symlink(arg(1), arg(2)))
	case "truncate":
		return result(unix.Truncate(arg(1), 0))
	case "mkdir":
		return result(unix.Mkdir(arg(1), 0o755))
	case "rmdir":
		return result(unix.Rmdir(arg(1)))
	case "unlink":
		return result(unix.Unlink(arg(1)))
	case "mkfifo":
		return result(unix.Mkfifo(arg(1), 0o644))
	case "mkchar":
		return result(unix.Mknod(arg(1), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	case "bind": // a socket that other processes can find
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: arg(1)})
			unix.Close(fd)
		}
		return result(err)
	case "connect": // "@name" is an abstract socket
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: arg(1)})
			unix.Close(fd)
		}
		return result(err)
	case "signal": // SIGCONT does nothing to a process that runs
		return result(unix.Kill(number(1), unix.SIGCONT))
	case "fd", "fdwrite": // a descriptor that was inherited: the runtime's own have the flag
		flags, err := unix.FcntlInt(uintptr(number(1)), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC != 0 {
			err = unix.EBADF
		}
		if err == nil && op[0] == "fdwrite" {
			_, err = unix.Write(number(1), []byte("written\n"))
		}
		return result(err)
	case "cap":
		return capabilitySets(uint(number(1)))
	case "mount":
		return result(unix.Mount("none", arg(1), "tmpfs", 0, ""))
	case "no_new_privs":
		n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
		if err != nil {
			return result(err)
		}
		return strconv.Itoa(n)
	case "foreground":
		group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
		if err == nil && (group != unix.Getpgrp() || group != os.Getpid()) {
			return fmt.Sprintf("the terminal's group is %d, pid %d is in %d", group, os.Getpid(), unix.Getpgrp())
		}
		return result(err)
	case "pdeathsig":
		err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0)
		time.Sleep(300 * time.Millisecond)
		return result(err)
	case "cwd":
		dir, err := syscall.Getwd()
		if err != nil {
			return result(err)
		}
		return dir
	case "env":
		return os.Getenv(arg(1))
	case "pid":
		return strconv.Itoa(os.Getpid())
	case "nofile":
		var l unix.Rlimit
		_ = unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l) // Go has raised its own by now; Max tells
		return strconv.FormatUint(l.Max, 10)
	}
	return "no such operation"
}

// capabilitySets says in which sets of this thread a capability is: permitted, effective,
// inheritable, bounding, ambient.
func capabilitySets(c uint) string {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err.Error()
	}
	sets := ""
	bit := uint32(1) << (c % 32)
	for _, s := range []struct {
		name string
		in   bool
	}{{"p", data[c/32].Permitted&bit != 0}, {"e", data[c/32].Effective&bit != 0}, {"i", data[c/32].Inheritable&bit != 0}} {
		if s.in {
			sets += s.name
		}
	}
	if n, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && n == 1 {
		sets += "b"
	}
	if n, err := unix.PrctlRetInt(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_IS_SET, uintptr(c), 0, 0); err == nil && n == 1 {
		sets += "a"
	}
	if sets == "" {
		return "none"
	}
	return sets
}

// needABI skips a test that needs a Landlock of at least abi. A host without
// any is a missing facility; an older one is another kernel to test on.
func needABI(t *testing.T, abi int) {
	t.Helper()
	h := Probe()
	if h.Missing != nil {
		testenv.Need(t, false, "Landlock: "+h.Missing.Error())
	}
	if h.Used < abi {
		t.Skipf("NOT TESTED: needs Landlock ABI %d, this kernel has %d", abi, h.Used)
	}
}

// needRoot skips what only root can set up.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: needs root")
	}
}

// world is a small file system of its own, owned by one user:
//
//	in/    the permit path, with a file, a program, two directories and links out
//	out/   what must not be reached, with the same things
//	tmp/   the temp root
//	bin/t  this test binary
type world struct {
	t   *testing.T
	dir string
	uid int
}

// newWorld makes a world for uid; only root can make one for another user.
func newWorld(t *testing.T, uid int) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "enforce")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	w := &world{t, dir, uid}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"", "in", "in/a", "in/b", "out", "out/d", "bin", "tmp"} {
		if err := os.Mkdir(w.path(d), 0o755); err != nil && d != "" {
			t.Fatal(err)
		}
		if err := os.Chmod(w.path(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	copyFile(t, self, w.path("bin/t"))
	for _, d := range []string{"in", "out"} {
		copyFile(t, "/bin/true", w.path(d+"/prog"))
		if err := os.WriteFile(w.path(d+"/f"), []byte("content\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"in/filelink": "../out/f", "in/dirlink": "../out"} {
		if err := os.Symlink(target, w.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil || uid == os.Getuid() {
			return err
		}
		return os.Lchown(p, uid, uid)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

func (w *world) path(p string) string { return filepath.Join(w.dir, p) }

// expand puts the world's paths in the place of "%" in front of a relative path.
func (w *world) expand(s string) string { return strings.ReplaceAll(s, "%", w.dir+"/") }

func (w *world) expandAll(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = w.expand(s)
	}
	return out
}

// process runs this test binary in a role, as the world's user.
func (w *world) process(role string, env []string, files []*os.File, args ...string) (out string, v verdict, status int) {
	w.t.Helper()
	cmd := exec.Command(w.path("bin/t"), args...)
	cmd.Dir = w.path("in")
	cmd.Env = append([]string{"ENFORCE_ROLE=" + role, "PATH=/usr/bin:/bin", noRaceSleep}, env...)
	cmd.ExtraFiles = files
	if w.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(stderr.String()) {
		if !strings.HasPrefix(line, "{") {
			w.t.Logf("stderr: %s", line)
		} else if err := json.Unmarshal([]byte(line), &v); err != nil {
			w.t.Fatal(err)
		}
	}
	return stdout.String(), v, cmd.ProcessState.ExitCode()
}

// results parses what actRole printed.
func results(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		if i := strings.LastIndexByte(line, '='); i >= 0 {
			m[line[:i]] = strings.TrimSuffix(line[i+1:], "\n")
		}
	}
	return m
}

// unconfined tries operations without a boundary.
func (w *world) unconfined(ops ...string) map[string]string {
	w.t.Helper()
	out, _, _ := w.process("act", nil, nil, w.expandAll(ops)...)
	return results(out)
}

// confined tries them inside one. What launch leaves out is the usual thing.
func (w *world) confined(l launch, files []*os.File, ops ...string) (map[string]string, verdict, int) {
	w.t.Helper()
	out, v, status := w.process("launch", []string{"ENFORCE_LAUNCH=" + w.encode(l, ops)}, files)
	return results(out), v, status
}

func (w *world) encode(l launch, ops []string) string {
	if l.Policy == "" {
		l.Policy = `{}`
	}
	l.Policy = w.expand(l.Policy)
	if l.Permit == "" && !strings.Contains(l.Policy, "permit_path") {
		l.Permit = "%in"
	}
	l.Permit, l.Dir = w.expand(l.Permit), w.expand(l.Dir)
	if l.Tmp == "" {
		l.Tmp = w.path("tmp")
	}
	if l.Command == nil {
		l.Command = append([]string{"%bin/t"}, ops...)
	}
	l.Command = w.expandAll(l.Command)
	for i := range l.Between {
		l.Between[i] = w.expandAll(l.Between[i])
	}
	b, err := json.Marshal(l)
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// asEach runs a test as the caller, and as uid 1000 when the caller is root.
func asEach(t *testing.T, f func(t *testing.T, uid int)) {
	t.Run("uid "+strconv.Itoa(os.Getuid()), func(t *testing.T) { f(t, os.Getuid()) })
	if os.Getuid() == 0 {
		t.Run("uid 1000", func(t *testing.T) { f(t, 1000) })
	}
}

// refuseBoundingSet puts a filter on all threads that answers EPERM to
// PR_CAPBSET_READ and PR_CAPBSET_DROP.
func refuseBoundingSet() {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PRCTL, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16}, // its first argument
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_CAPBSET_READ, Jt: 1},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.PR_CAPBSET_DROP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, err := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program))); err != 0 {
		panic(err)
	}
}
