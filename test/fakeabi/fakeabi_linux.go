package fakeabi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Main is the command `fakeabi`, also for testscript. It ends with the status of the
// child, 128 + N when signal N ended it, or 125.
func Main() {
	spec, argv, err := Parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeabi:", err)
		os.Exit(125)
	}
	status, err := Run(spec, argv)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fakeabi:", err)
	}
	os.Exit(status)
}

func parseErrno(s string) (syscall.Errno, error) {
	if n, err := strconv.Atoi(s); err == nil && n > 0 && n < 4096 {
		return syscall.Errno(n), nil
	}
	if s == "EOPNOTSUPP" { // a second name of ENOTSUP
		return unix.EOPNOTSUPP, nil
	}
	for e := syscall.Errno(1); e < 134; e++ {
		if unix.ErrnoName(e) == s {
			return e, nil
		}
	}
	return 0, errors.New("no such errno")
}

// Run runs argv below a Landlock as spec describes it, with the streams and the
// environment of this process, and gives its exit status: 125 with an error when it
// could not be started, 128 + N when signal N ended it. A caller without CAP_SYS_ADMIN gives the child
// no_new_privs, because the kernel demands it.
func Run(spec Spec, argv []string) (int, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return 125, err
	}
	type started struct {
		process  *os.Process
		listener int
		err      error
	}
	c := make(chan started, 1)
	quit := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked: the filter cannot be taken off this thread
		listener, err := install()
		if err != nil {
			c <- started{err: err}
			return
		}
		p, err := os.StartProcess(path, argv, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
		c <- started{p, listener, err}
		<-quit
	}()
	defer close(quit)
	s := <-c
	if s.err != nil {
		return 125, s.err
	}
	defer unix.Close(s.listener)
	go spec.answer(s.listener)
	state, err := s.process.Wait()
	if err != nil {
		return 125, err
	}
	if w := state.Sys().(syscall.WaitStatus); w.Signaled() {
		return 128 + int(w.Signal()), nil
	}
	return state.ExitCode(), nil
}

// install puts a filter on the calling thread that hands the three landlock
// calls, which follow each other in the table of every architecture, to the listener.
func install() (listener int, err error) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, K: unix.SYS_LANDLOCK_CREATE_RULESET, Jf: 2},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: unix.SYS_LANDLOCK_RESTRICT_SELF, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	try := func() (int, error) {
		fd, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
		if e != 0 {
			return -1, e
		}
		return int(fd), nil // close-on-exec
	}
	listener, err = try()
	if err == unix.EACCES {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return -1, err
		}
		listener, err = try()
	}
	if err != nil {
		return -1, fmt.Errorf("seccomp: %w", err)
	}
	return listener, nil
}

// notification and response are struct seccomp_notif and seccomp_notif_resp of
// linux/seccomp.h.
type notification struct {
	id    uint64
	pid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

type response struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

// answer answers until the listener is closed or nobody is left to ask.
func (s Spec) answer(listener int) {
	for {
		var n notification // must be zero, or the kernel refuses it
		if err := ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if err == unix.EINTR || err == unix.ENOENT && alive(listener) {
				continue // the caller was interrupted or killed before it was served
			}
			return
		}
		r := response{id: n.id}
		val, err := s.call(n)
		switch {
		case err != 0:
			r.error = -int32(err)
		case val >= 0:
			r.val = int64(val)
		default:
			r.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		}
		_ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)) // a caller that is gone needs no answer
	}
}

// alive reports whether any process is left under the filter.
func alive(listener int) bool {
	fds := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
	_, err := unix.Poll(fds, 0)
	return err == nil && fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) == 0
}

// call decides about one system call: an errno, a value, or -1 for "as the
// kernel does it".
func (s Spec) call(n notification) (val int, err syscall.Errno) {
	if s.All != 0 {
		return -1, s.All
	}
	switch uintptr(n.nr) {
	case unix.SYS_LANDLOCK_ADD_RULE:
		return -1, s.AddRule
	case unix.SYS_LANDLOCK_RESTRICT_SELF:
		if s.RestrictSelf == 0 && s.ABI > 0 && beyond(n.args[1], restrictFlags(s.ABI)) {
			return -1, unix.EINVAL
		}
		if s.Liar && s.RestrictSelf == 0 {
			return 0, 0
		}
		return -1, s.RestrictSelf
	}
	switch n.args[2] { // flags of landlock_create_ruleset
	case unix.LANDLOCK_CREATE_RULESET_VERSION:
		if s.ABI > 0 {
			return s.ABI, 0
		}
	case unix.LANDLOCK_CREATE_RULESET_ERRATA:
		if s.FakeErrata {
			return s.Errata, 0
		}
	case 0:
		if s.ABI == 0 {
			break
		}
		fs, net, scoped, e := attribute(n)
		if e != nil {
			return -1, unix.EFAULT
		}
		if beyond(fs, fsRights(s.ABI)) || beyond(net, netRights(s.ABI)) || beyond(scoped, scopes(s.ABI)) {
			return -1, unix.EINVAL
		}
	}
	return -1, 0
}

// attribute reads the struct landlock_ruleset_attr of the caller.
func attribute(n notification) (fs, net, scoped uint64, err error) {
	var buf [24]byte
	size := min(n.args[1], uint64(len(buf)))
	if size < 8 {
		return 0, 0, 0, nil
	}
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(int(size))
	remote := []unix.RemoteIovec{{Base: uintptr(n.args[0]), Len: int(size)}}
	if _, err := unix.ProcessVMReadv(int(n.pid), local, remote, 0); err != nil {
		return 0, 0, 0, err
	}
	word := func(i int) uint64 { return binary.NativeEndian.Uint64(buf[8*i:]) }
	return word(0), word(1), word(2), nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg))
	if e != 0 {
		return e
	}
	return nil
}

// String is the command line that Parse reads the Spec from.
func (s Spec) String() string {
	var w []string
	if s.ABI > 0 {
		w = append(w, "-v", strconv.Itoa(s.ABI))
	}
	if s.FakeErrata {
		w = append(w, "-x", strconv.Itoa(s.Errata))
	}
	for _, e := range []struct {
		flag string
		e    syscall.Errno
	}{{"-e", s.All}, {"-a", s.AddRule}, {"-r", s.RestrictSelf}} {
		if e.e != 0 {
			w = append(w, e.flag, unix.ErrnoName(e.e))
		}
	}
	if s.Liar {
		w = append(w, "-l")
	}
	return strings.Join(w, " ")
}

// fsRights and scopes are how many bits an ABI knows. Source:
// linux/landlock.h, and what real kernels of ABI 2 and 6 to 11 accept.
func fsRights(abi int) int {
	switch {
	case abi >= 9:
		return 17
	case abi >= 5:
		return 16
	case abi >= 3:
		return 15
	case abi == 2:
		return 14
	}
	return 13
}

func netRights(abi int) int {
	switch {
	case abi >= 10:
		return 4
	case abi >= 4:
		return 2
	}
	return 0
}

func scopes(abi int) int {
	if abi >= 6 {
		return 2
	}
	return 0
}

func restrictFlags(abi int) int {
	switch {
	case abi >= 11:
		return 5
	case abi >= 8:
		return 4
	case abi >= 7:
		return 3
	}
	return 0
}

// beyond reports whether set has a bit that is not one of the first n.
func beyond(set uint64, n int) bool { return set>>n != 0 }
