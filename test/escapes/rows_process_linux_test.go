package escapes

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

func victim() int {
	pid, _ := strconv.Atoi(os.Getenv(envPID))
	return pid
}

func proc(name string) string { return fmt.Sprintf("/proc/%d/%s", victim(), name) }

func secretAt() uintptr {
	address, _ := strconv.ParseUint(os.Getenv(envAddr), 16, 64)
	return uintptr(address)
}

// processRows reach for the outside through another process of the same user.
func processRows() []*row {
	fd := func() string { return proc("fd/" + os.Getenv(envFD)) }
	rs := []*row{
		{name: "proc/root", about: "/proc/PID/root of a process outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(proc("root"+a.out("f")), 0) }},
		{name: "proc/cwd", about: "/proc/PID/cwd", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(proc("cwd/f"), 0) }},
		{name: "proc/fd", about: "/proc/PID/fd/N, opened again for writing", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(fd(), 0) }},
		{name: "proc/fd-readlink", about: "readlink of /proc/PID/fd/N", kind: held, want: eacces,
			try: func(a *attempt) error {
				_, err := unix.Readlink(fd(), make([]byte, 256))
				return err
			}},
		{name: "proc/mem", about: "/proc/PID/mem, write", kind: held, want: eacces, effect: bystanderChanged,
			try: func(a *attempt) error {
				f, err := os.OpenFile(proc("mem"), os.O_RDWR, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteAt([]byte("STOLEN"), int64(secretAt()))
				return err
			}},
		{name: "proc/oom", about: "/proc/PID/oom_score_adj, open for writing", kind: held, want: eacces,
			try: func(a *attempt) error { return opens(proc("oom_score_adj"), unix.O_WRONLY) }},
		{name: "proc/ns", about: "/proc/PID/ns/mnt, readlink (what monitoring tools do)", kind: held, want: eacces,
			try: func(a *attempt) error {
				_, err := unix.Readlink(proc("ns/mnt"), make([]byte, 64))
				return err
			}},
		{name: "proc/setns", about: "open /proc/PID/ns/mnt and enter it", kind: held, want: eacces,
			blocked: [2]blocked{asUser: {"EPERM", "setns needs CAP_SYS_ADMIN"}},
			try: func(a *attempt) error {
				ns, err := unix.Open(proc("ns/mnt"), unix.O_RDONLY, 0)
				if err != nil {
					return err
				}
				if err := unix.Unshare(unix.CLONE_FS); err != nil {
					return err
				}
				return unix.Setns(ns, unix.CLONE_NEWNS)
			}},
		{name: "proc/setns-pidfd", about: "enter the mount namespace by a pidfd", kind: held, want: eperm,
			blocked: [2]blocked{asUser: {"EPERM", "setns needs CAP_SYS_ADMIN"}},
			try: func(a *attempt) error {
				pidfd, err := unix.PidfdOpen(victim(), 0)
				if err != nil {
					return err
				}
				if err := unix.Unshare(unix.CLONE_FS); err != nil {
					return err
				}
				return unix.Setns(pidfd, unix.CLONE_NEWNS)
			}},
		{name: "proc/environ", id: "E18", about: "environment of a process outside", kind: closed, want: eacces,
			try: func(a *attempt) error { return read(proc("environ")) }},
		{name: "proc/maps", id: "E18", about: "memory map of a process outside", kind: closed, want: eacces,
			try: func(a *attempt) error { return read(proc("maps")) }},
		{name: "proc/fd-list", about: "list /proc/PID/fd", kind: limit, want: allowed,
			try: func(a *attempt) error { return list(proc("fd")) }},
		{name: "proc/cmdline", about: "command line of a process outside", kind: limit, want: allowed,
			try: func(a *attempt) error { return read(proc("cmdline")) }},

		{name: "ptrace/attach", about: "PTRACE_ATTACH", kind: held, want: eperm,
			try: func(a *attempt) error {
				if err := unix.PtraceAttach(victim()); err != nil {
					return err
				}
				_, err := unix.Wait4(victim(), nil, unix.WALL, nil)
				_ = unix.PtraceDetach(victim())
				return err
			}},
		{name: "ptrace/seize", about: "PTRACE_SEIZE", kind: held, want: eperm,
			try: func(a *attempt) error { return unix.PtraceSeize(victim()) }},
		{name: "ptrace/vm-read", about: "process_vm_readv", kind: held, want: eperm,
			try: func(a *attempt) error {
				buf := make([]byte, 6)
				local := []unix.Iovec{{Base: &buf[0], Len: 6}}
				_, err := unix.ProcessVMReadv(victim(), local, []unix.RemoteIovec{{Base: secretAt(), Len: 6}}, 0)
				return err
			}},
		{name: "ptrace/vm-write", about: "process_vm_writev", kind: held, want: eperm, effect: bystanderChanged,
			try: func(a *attempt) error {
				buf := []byte("STOLEN")
				local := []unix.Iovec{{Base: &buf[0], Len: 6}}
				_, err := unix.ProcessVMWritev(victim(), local, []unix.RemoteIovec{{Base: secretAt(), Len: 6}}, 0)
				return err
			}},
		{name: "ptrace/pidfd-getfd", about: "take a writable descriptor with pidfd_getfd and write", kind: held, want: eperm, changes: content,
			try: func(a *attempt) error {
				pidfd, err := unix.PidfdOpen(victim(), 0)
				if err != nil {
					return err
				}
				n, _ := strconv.Atoi(os.Getenv(envFD))
				stolen, err := unix.PidfdGetfd(pidfd, n, 0)
				if err != nil {
					return err
				}
				_, err = unix.Write(stolen, []byte("X"))
				return err
			}},

		{name: "signal/kill", id: "E17", about: "kill(2) of a process outside", kind: closed, want: both(since(6, "denied EPERM")), effect: bystanderChanged,
			try: func(a *attempt) error { return unix.Kill(victim(), unix.SIGUSR1) }},
		{name: "signal/tgkill", id: "E17", about: "tgkill(2)", kind: closed, want: both(since(6, "denied EPERM")), effect: bystanderChanged,
			try: func(a *attempt) error { return unix.Tgkill(victim(), victim(), unix.SIGUSR1) }},
		{name: "signal/pidfd", id: "E17", about: "pidfd_send_signal", kind: closed, want: both(since(6, "denied EPERM")), effect: bystanderChanged,
			try: func(a *attempt) error {
				pidfd, err := unix.PidfdOpen(victim(), 0)
				if err != nil {
					return err
				}
				return unix.PidfdSendSignal(pidfd, unix.SIGUSR1, nil, 0)
			}},
		{name: "signal/setown", id: "E17", about: "F_SETOWN to a process outside and have the kernel send the signal", kind: closed, want: both(since(6, "harmless")), effect: bystanderChanged, silent: true,
			try: func(a *attempt) error {
				var p [2]int
				p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETOWN, victim()); err != nil {
					return err
				}
				if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETSIG, int(unix.SIGUSR1)); err != nil {
					return err
				}
				if _, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_ASYNC|unix.O_NONBLOCK); err != nil {
					return err
				}
				_, err = unix.Write(p[1], []byte("X"))
				return err
			}},
		{name: "signal/prlimit", id: "E17", about: "prlimit of a process outside", kind: limit, want: allowed, effect: bystanderChanged,
			try: func(a *attempt) error {
				return unix.Prlimit(victim(), unix.RLIMIT_CORE, &unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY}, nil)
			}},
		{name: "signal/affinity", id: "E17", about: "sched_setaffinity of a process outside", kind: limit, want: allowed,
			try: func(a *attempt) error {
				var set unix.CPUSet
				if err := unix.SchedGetaffinity(victim(), &set); err != nil {
					return err
				}
				return unix.SchedSetaffinity(victim(), &set)
			}},
	}
	for _, r := range rs {
		r.prepare = bystander
	}
	return append(rs, &row{name: "ptrace/own-child", about: "trace a child of one's own", kind: works, want: allowed,
		inner: func(*attempt) error { select {} },
		try: func(a *attempt) error {
			cmd := self()
			cmd.Env = append(os.Environ(), envRole+"=inner")
			if err := cmd.Start(); err != nil {
				return err
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			if err := unix.PtraceAttach(cmd.Process.Pid); err != nil {
				return err
			}
			_, err := unix.Wait4(cmd.Process.Pid, nil, unix.WALL, nil)
			_ = unix.PtraceDetach(cmd.Process.Pid)
			return err
		}})
}

// confined says whether this process was launched by confinectl.
func confined() bool { return os.Getenv(envConfined) != "" }

// noNewPrivs says whether this process can still gain rights by an exec.
func noNewPrivs() bool {
	n, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return err == nil && n == 1
}

// inherited finds an inherited descriptor of an outside file, by the file's
// identity: the number may long be that of something else.
func inherited(path string) (int, error) {
	var want unix.Stat_t
	if err := unix.Stat(path, &want); err != nil {
		return -1, err
	}
	for fd := 3; fd < 256; fd++ {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) == nil && st.Dev == want.Dev && st.Ino == want.Ino {
			return fd, nil
		}
	}
	return -1, unix.EBADF
}

// descriptorRows use what confinectl was started with.
func descriptorRows() []*row {
	on := func(name string, use func(a *attempt, fd int) error) func(*attempt) error {
		return func(a *attempt) error {
			fd, err := inherited(a.out(name))
			if err != nil {
				return err
			}
			return use(a, fd)
		}
	}
	writeTo := on("held", func(_ *attempt, fd int) error {
		_, err := unix.Write(fd, []byte("X"))
		return err
	})
	listDir := on("", func(_ *attempt, fd int) error {
		_, err := unix.Getdents(fd, make([]byte, 4096))
		return err
	})
	createIn := on("", func(_ *attempt, fd int) error { return writeAt(fd, "made", unix.O_CREAT) })
	reopen := on("held_ro", func(_ *attempt, fd int) error { return write(fmt.Sprintf("/proc/self/fd/%d", fd), 0) })

	rs := []*row{
		{name: "descriptor/write", id: "E3", about: "inherited writable descriptor of an outside file: write", kind: closed, want: ebadf, changes: content, try: writeTo},
		{name: "descriptor/truncate", id: "E3", about: "ftruncate", kind: closed, want: ebadf, changes: content,
			try: on("held", func(_ *attempt, fd int) error { return unix.Ftruncate(fd, 1) })},
		{name: "descriptor/chmod", id: "E3", about: "fchmod", kind: closed, want: ebadf, changes: metadata,
			try: on("held", func(_ *attempt, fd int) error { return unix.Fchmod(fd, 0o600) })},
		{name: "descriptor/mmap", id: "E3", about: "shared mapping", kind: closed, want: ebadf, changes: content,
			try: on("held", func(_ *attempt, fd int) error {
				m, err := unix.Mmap(fd, 0, 8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
				if err != nil {
					return err
				}
				m[0] = 'X'
				return unix.Munmap(m)
			})},
		{name: "descriptor/dir-list", id: "E4", about: "inherited descriptor of an outside directory: list", kind: closed, want: ebadf, try: listDir},
		{name: "descriptor/dir-fchdir", id: "E4", about: "fchdir", kind: closed, want: ebadf,
			try: on("", func(_ *attempt, fd int) error { return unix.Fchdir(fd) })},
		{name: "descriptor/dir-create", id: "E4", about: "create below it", kind: closed, want: ebadf, changes: content, try: createIn},
		{name: "descriptor/dir-unlink", id: "E4", about: "unlink below it", kind: closed, want: ebadf, changes: content,
			try: on("", func(_ *attempt, fd int) error { return unix.Unlinkat(fd, "victim", 0) })},
		{name: "descriptor/reopen", about: "inherited read-only descriptor, opened again for writing", kind: closed, want: ebadf, changes: content, try: reopen},

		{name: "keep-fd/write", id: "E3", about: "--keep-fd: write", kind: limit, want: allowed, changes: content, flags: []string{"--keep-fd", "3"}, try: writeTo},
		{name: "keep-fd/reopen-own", about: "--keep-fd: the same descriptor, opened again", kind: held, want: eacces, changes: content, flags: []string{"--keep-fd", "3"},
			try: on("held", func(_ *attempt, fd int) error { return write(fmt.Sprintf("/proc/self/fd/%d", fd), 0) })},
		{name: "keep-fd/link-in", about: "--keep-fd: hard link it into the permit path", kind: held, want: exdev, changes: content, flags: []string{"--keep-fd", "3"},
			try: on("held", func(a *attempt, fd int) error {
				if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, a.in("linked"), unix.AT_SYMLINK_FOLLOW); err != nil {
					return err
				}
				return write(a.in("linked"), 0)
			})},
		{name: "keep-fd/dir-list", id: "E4", about: "--keep-fd: list a directory", kind: limit, want: allowed, flags: []string{"--keep-fd", "4"}, try: listDir},
		{name: "keep-fd/dir-create", about: "--keep-fd: create below a directory", kind: held, want: eacces, changes: content, flags: []string{"--keep-fd", "4"}, try: createIn},
		{name: "keep-fd/reopen", about: "--keep-fd: read-only descriptor, opened again for writing", kind: held, want: eacces, changes: content, flags: []string{"--keep-fd", "5"}, try: reopen},
		{name: "keep-fd/only-that", about: "--keep-fd 5: the other descriptors are closed all the same", kind: closed, want: ebadf, changes: content, flags: []string{"--keep-fd", "5"}, try: writeTo},
	}
	for _, r := range rs {
		r.prepare = (*fixture).outsideFiles
	}
	stdin := func(name string, flags int) func(fx *fixture) error {
		return func(fx *fixture) (err error) {
			if fx.stdin, err = os.OpenFile(fx.out(name), flags, 0); err == nil {
				fx.later(func() { fx.stdin.Close() })
			}
			return err
		}
	}
	return append(rs,
		&row{name: "descriptor/stdin", id: "E3", about: "standard input is an outside file, open for writing: the caller's grant", kind: limit, want: allowed, changes: content,
			prepare: stdin("held", os.O_RDWR),
			try: func(*attempt) error {
				_, err := unix.Write(0, []byte("X"))
				return err
			}},
		&row{name: "descriptor/stdin-reopen", about: "standard input is an outside file, open for reading: opened again for writing", kind: held, want: eacces, changes: content,
			prepare: stdin("held", os.O_RDONLY), try: func(*attempt) error { return write("/dev/stdin", 0) }},
		&row{name: "descriptor/stdin-directory", about: "standard input is an outside directory: create below it", kind: held, want: eacces, changes: content,
			prepare: stdin("", os.O_RDONLY), try: func(*attempt) error { return writeAt(0, "made", unix.O_CREAT) }},
	)
}

// uring is the least of io_uring that submits one request and waits for it.
type uring struct {
	fd           int
	sq, cq, sqes []byte
	params       [30]uint32
}

const uringEntries = 8

func newRing(flags uint32) (*uring, error) {
	r := &uring{}
	r.params[2] = flags
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uringEntries, uintptr(unsafe.Pointer(&r.params)), 0)
	if errno != 0 {
		return nil, errno
	}
	r.fd = int(fd)
	return r, r.mapRings()
}

// mapRings maps the rings of r.fd; the layout depends on the entries alone.
func (r *uring) mapRings() (err error) {
	sqOff, cqOff := r.params[10:], r.params[20:]
	prot, shared := unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE
	if r.sq, err = unix.Mmap(r.fd, 0, int(sqOff[6]+r.params[0]*4), prot, shared); err != nil {
		return err
	}
	if r.cq, err = unix.Mmap(r.fd, 0x8000000, int(cqOff[5]+r.params[1]*16), prot, shared); err != nil {
		return err
	}
	r.sqes, err = unix.Mmap(r.fd, 0x10000000, int(r.params[0])*64, prot, shared)
	return err
}

// sqe is one request, laid out as the kernel wants it.
type sqe struct {
	opcode, flags byte
	_             uint16
	fd            int32
	off, addr     uint64
	len, opFlags  uint32
	_             uint64
	_             uint16
	personality   uint16
	_             int32
	_             [2]uint64
}

// do submits one request and returns its result.
func (r *uring) do(e sqe) error {
	word := func(b []byte, off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[off])) }
	sqOff, cqOff := r.params[10:], r.params[20:]
	tail := word(r.sq, sqOff[1])
	index := *tail & *word(r.sq, sqOff[2])
	*(*sqe)(unsafe.Pointer(&r.sqes[index*64])) = e
	*word(r.sq, sqOff[6]+index*4) = index
	atomic.StoreUint32(tail, *tail+1)
	const getEvents, wakeUp = 1, 2
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 1, 1, getEvents|wakeUp, 0, 0); errno != 0 {
		return errno
	}
	head := word(r.cq, cqOff[0])
	cqe := r.cq[cqOff[5]+(*head&*word(r.cq, cqOff[2]))*16:]
	res := int32(binary.NativeEndian.Uint32(cqe[8:]))
	atomic.StoreUint32(head, *head+1)
	if res < 0 {
		return unix.Errno(-res)
	}
	return nil
}

func cstring(s string) uint64 {
	b, _ := unix.BytePtrFromString(s)
	pinned = append(pinned, b)
	return uint64(uintptr(unsafe.Pointer(b)))
}

// pinned keeps what the kernel was given an address of.
var pinned []*byte

// ringRows do the same by io_uring, where no system call of the caller opens anything.
func ringRows() []*row {
	noRing := sameBlock("ENOSYS EPERM", "io_uring is off (kernel.io_uring_disabled, or a seccomp filter)")
	cwd := int32(unix.AT_FDCWD)
	create := func(a *attempt) sqe {
		return sqe{opcode: 18, fd: cwd, addr: cstring(a.out("made")), len: 0o644, opFlags: unix.O_CREAT | unix.O_WRONLY}
	}
	own := func(flags uint32, request func(a *attempt) sqe) func(*attempt) error {
		return func(a *attempt) error {
			r, err := newRing(flags)
			if err != nil {
				return err
			}
			return r.do(request(a))
		}
	}
	const sqpoll = 2
	left := func(a *attempt, personality bool) error {
		fd := -1
		for n := 3; n < 256 && fd < 0; n++ {
			if link, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", n)); err == nil && strings.Contains(link, "io_uring") {
				fd = n
			}
		}
		if fd < 0 {
			return unix.EBADF
		}
		r, err := newRing(0) // for the layout
		if err != nil {
			return err
		}
		r.fd = fd
		if err := r.mapRings(); err != nil {
			return err
		}
		e := create(a)
		if personality {
			e.personality = 1
		}
		return r.do(e)
	}
	leave := func(fx *fixture) error {
		r, err := newRing(0)
		if err != nil {
			return err
		}
		const registerPersonality = 9
		id, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(r.fd), registerPersonality, 0, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		if id != 1 {
			return fmt.Errorf("personality %d", id)
		}
		fx.files = append(fx.files, os.NewFile(uintptr(r.fd), "ring"))
		return nil
	}
	return []*row{
		{name: "io_uring/openat", about: "IORING_OP_OPENAT: create outside", kind: held, want: eacces, changes: content, blocked: noRing, try: own(0, create)},
		{name: "io_uring/open-trunc", about: "IORING_OP_OPENAT with O_TRUNC", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe {
				return sqe{opcode: 18, fd: cwd, addr: cstring(a.out("f")), opFlags: unix.O_WRONLY | unix.O_TRUNC}
			})},
		{name: "io_uring/unlinkat", about: "IORING_OP_UNLINKAT", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe { return sqe{opcode: 36, fd: cwd, addr: cstring(a.out("victim"))} })},
		{name: "io_uring/renameat", about: "IORING_OP_RENAMEAT to the outside", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe {
				return sqe{opcode: 35, fd: cwd, addr: cstring(a.in("r1")), len: uint32(cwd), off: cstring(a.out("r1"))}
			})},
		{name: "io_uring/mkdirat", about: "IORING_OP_MKDIRAT", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe { return sqe{opcode: 37, fd: cwd, addr: cstring(a.out("made")), len: 0o755} })},
		{name: "io_uring/symlinkat", about: "IORING_OP_SYMLINKAT", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe {
				return sqe{opcode: 38, fd: cwd, addr: cstring("x"), off: cstring(a.out("made"))}
			})},
		{name: "io_uring/linkat", about: "IORING_OP_LINKAT to the outside", kind: held, want: eacces, changes: content, blocked: noRing,
			try: own(0, func(a *attempt) sqe {
				return sqe{opcode: 39, fd: cwd, addr: cstring(a.in("f")), len: uint32(cwd), off: cstring(a.out("linked"))}
			})},
		{name: "io_uring/sqpoll", about: "IORING_OP_OPENAT by the kernel's polling thread", kind: held, want: eacces, changes: content, blocked: noRing, try: own(sqpoll, create)},
		{name: "io_uring/inside", about: "IORING_OP_MKDIRAT inside", kind: works, want: allowed, blocked: noRing,
			try: own(0, func(a *attempt) sqe { return sqe{opcode: 37, fd: cwd, addr: cstring(a.in("made")), len: 0o755} })},
		{name: "io_uring/left", about: "a ring inherited from outside: create outside", kind: closed, want: ebadf, changes: content, blocked: noRing,
			prepare: leave, try: func(a *attempt) error { return left(a, false) }},
		{name: "io_uring/left-personality", about: "the same with the credentials that its maker registered", kind: closed, want: ebadf, changes: content, blocked: noRing,
			prepare: leave, try: func(a *attempt) error { return left(a, true) }},
		{name: "io_uring/kept-personality", about: "the same with --keep-fd: the kept ring keeps its maker's credentials", kind: limit, want: allowed, changes: content, blocked: noRing,
			prepare: leave, flags: []string{"--keep-fd", "3"}, try: func(a *attempt) error { return left(a, true) }},
	}
}

// execRows run programs that the profile does not grant.
func execRows() []*row {
	report := func(*attempt) error { return nil }
	return []*row{
		{name: "exec/outside", about: "run a program outside", kind: held, want: eacces, inner: report,
			prepare: func(fx *fixture) error { return fx.copyProgram(fx.out("prog")) },
			try:     func(a *attempt) error { return a.child(exec.Command(a.out("prog"))) }},
		{name: "exec/interpreter", about: "run a script inside whose interpreter is outside", kind: held, want: eacces, inner: report,
			prepare: func(fx *fixture) error { return fx.copyProgram(fx.out("prog")) },
			try: func(a *attempt) error {
				if err := os.WriteFile(a.in("script"), []byte("#!"+a.out("prog")+"\n"), 0o755); err != nil {
					return err
				}
				return a.child(exec.Command(a.in("script")))
			}},
		{name: "exec/read-path", about: "run a program in a read path", kind: works, want: allowed, inner: report,
			prepare: func(fx *fixture) error { return fx.copyProgram(fx.ro("prog")) },
			try:     func(a *attempt) error { return a.child(exec.Command(a.ro("prog"))) }},
		{name: "exec/inside", about: "copy a program into the permit path and run it", kind: works, want: allowed, inner: report,
			try: func(a *attempt) error {
				program, err := os.ReadFile("/proc/self/exe")
				if err != nil {
					return err
				}
				if err := os.WriteFile(a.in("prog"), program, 0o755); err != nil {
					return err
				}
				return a.child(exec.Command(a.in("prog")))
			}},
		{name: "exec/memfd", about: "run a program from memory: limits on exec are no boundary", kind: limit, want: allowed, inner: report,
			try: func(a *attempt) error {
				program, err := os.ReadFile("/proc/self/exe")
				if err != nil {
					return err
				}
				fd, err := unix.MemfdCreate("prog", 0)
				if err != nil {
					return err
				}
				f := os.NewFile(uintptr(fd), "prog")
				if _, err := f.Write(program); err != nil {
					return err
				}
				cmd := exec.Command("/proc/self/fd/3")
				cmd.ExtraFiles = []*os.File{f}
				return a.child(cmd)
			}},
		{name: "nested/wider", about: "confinectl again, with a profile that permits the outside", kind: held, want: eacces, changes: content,
			prepare: func(fx *fixture) error {
				wide := fmt.Sprintf("permit_path = %q\nread_paths = [%q]\n", fx.dir+"/out", fx.h.bin)
				if err := os.WriteFile(fx.ro("wide.toml"), []byte(fx.withFloor(wide)), 0o644); err != nil {
					return err
				}
				return fx.own(fx.ro("wide.toml"))
			},
			inner: func(a *attempt) error { return write(a.out("f"), 0) },
			try: func(a *attempt) error {
				bin := filepath.Dir(must(os.Readlink("/proc/self/exe")))
				return a.child(exec.Command(bin+"/confinectl", "exec", "--profile-dir", a.ro(""), "wide", "--", bin+"/attempt"))
			}},
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
