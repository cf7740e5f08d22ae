package probe

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attempt is the side that tries. The same code runs inside the boundary and,
// for the control, outside; there the paths lead through descriptors that are
// held open, so that nobody can put something else in their place.
type attempt struct {
	job
	control bool
	base    int          // control: the probe's own directory
	parent  func() error // control: whether the directory above the root may be written
	null    *os.File     // control: for the streams of children
}

// setup says that an attempt could not be made: nothing follows from it.
type setup struct{ error }

func setupf(text string, err error) error {
	if err != nil {
		text += ": " + err.Error()
	}
	return setup{errors.New(text)}
}

// answerOf puts what came of an operation into the form that travels.
func answerOf(row string, err error) answer {
	a := answer{Row: row}
	var s setup
	var errno syscall.Errno
	switch {
	case err == nil:
		a.OK = true
	case errors.As(err, &s):
		a.Text = s.Error()
	case errors.As(err, &errno):
		a.Errno, a.Text = int(errno), unix.ErrnoName(errno)+" ("+errno.Error()+")"
	default:
		a.Text = err.Error()
	}
	return a
}

// denies reports whether an errno is one with which a boundary says no. EXDEV is
// Landlock's answer to a link or rename that would gain rights, where the control
// showed that both ends lie on one mount; EBADF is that of a descriptor that is not there.
func (c *Case) denies(errno int) bool {
	switch syscall.Errno(errno) {
	case unix.EACCES, unix.EPERM:
		return true
	case unix.EXDEV:
		return c.kind == write
	case unix.EBADF:
		return c.Key == "leaked"
	}
	return false
}

// attempts gives the attempts by the key of their case: nil means that it
// succeeded, an errno is that of the one system call that matters. It is a
// function because some start further processes, which look themselves up in it.
func attempts() map[string]func(a *attempt) error {
	return map[string]func(a *attempt) error{
		"write":          func(a *attempt) error { return a.append("write", a.target("write")) },
		"create":         func(a *attempt) error { return a.create(a.target("create.new")) },
		"remove":         func(a *attempt) error { return unix.Unlink(a.target("remove")) },
		"dotdot":         func(a *attempt) error { return a.append("dotdot", a.Dots+"/dotdot") },
		"procroot":       func(a *attempt) error { return a.throughRoot() },
		"symlink-before": func(a *attempt) error { return a.throughLink("symlink-before") },
		"symlink-after": func(a *attempt) error {
			if err := unix.Symlink(a.LinkTo+"/symlink-after", a.In+"/symlink-after"); err != nil {
				return setupf("making a symlink inside", err)
			}
			return a.throughLink("symlink-after")
		},
		"rename-out": func(a *attempt) error { return a.moveOut("rename-out", unix.Rename) },
		"link-out":   func(a *attempt) error { return a.moveOut("link-out", unix.Link) },
		"rename-in":  func(a *attempt) error { return unix.Rename(a.target("rename-in"), a.own("rename-in.in")) },
		"link-in": func(a *attempt) error {
			if err := unix.Link(a.target("link-in"), a.own("link-in.in")); err != nil {
				return err
			}
			return a.append("link-in", a.own("link-in.in"))
		},
		"rename-root":  (*attempt).renameRoot,
		"tmpfile":      func(a *attempt) error { return opens(a.target("."), unix.O_TMPFILE|unix.O_WRONLY) },
		"tmpfile-link": (*attempt).tmpfileLink,
		"truncate": func(a *attempt) error {
			return a.follow("truncate", func(path string) error { return unix.Truncate(path, 0) })
		},
		"reopen":  func(a *attempt) error { return a.append("reopen", "/proc/self/fd/"+strconv.Itoa(a.Reopen)) },
		"nested":  (*attempt).nested,
		"wider":   (*attempt).wider,
		"read":    func(a *attempt) error { return reads(a.target("read")) },
		"list":    func(a *attempt) error { return lists(a.target(".")) },
		"execute": (*attempt).execute,
		"device":  (*attempt).device,
		"leaked":  func(a *attempt) error { return a.writeFD("leaked", a.Leaked) },
		"mknod":   func(a *attempt) error { return unix.Mknod(a.In+"/mknod.in", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) },
		"mount":   (*attempt).mount,
		"ptrace": func(a *attempt) error {
			runtime.LockOSThread() // never unlocked: the tracer is a thread, and lets go when it ends
			return unix.PtraceSeize(a.Bystander)
		},
		"signal":   func(a *attempt) error { return unix.Kill(a.Bystander, unix.SIGURG) },
		"abstract": func(a *attempt) error { return connects("@" + a.Abstract) },
		"socket":   (*attempt).socket,
		"passed":   func(a *attempt) error { return a.writeFD("passed", a.Passed) },
		"metadata": func(a *attempt) error {
			return a.follow("metadata", func(path string) error { return unix.Chmod(path, 0o640) })
		},
		"existence": func(a *attempt) error {
			var st unix.Stat_t
			return unix.Lstat(a.target("existence"), &st)
		},
		"environment": func(a *attempt) error {
			if os.Getenv(variable) != a.Value {
				return setupf(variable+" did not arrive as it was set", nil)
			}
			return nil
		},
	}
}

// target is a file outside.
func (a *attempt) target(name string) string {
	if name == "." {
		return a.Out
	}
	return a.Out + "/" + name
}

// own is a file in the read-write root; the control makes its own there.
func (a *attempt) own(name string) string {
	if a.control {
		return a.Root + "/" + name + ".control"
	}
	return a.In + "/" + name
}

// follow hands out a path to an outside file for a system call that follows a link
// at the end: one through a mere reference to the file that was made, to open which
// needs no right. The call is judged by where that leads.
func (a *attempt) follow(name string, call func(path string) error) error {
	fd, err := unix.Open(a.target(name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return setupf("looking at the file", err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Ino != a.Inodes[name] || st.Dev != a.Dev {
		return setupf("this is not the file that was made for it", err)
	}
	return call("/proc/self/fd/" + strconv.Itoa(fd))
}

// append writes one byte to an outside file, after it made sure that it is the
// one that was made for this row: opening alone does not show that content can change.
func (a *attempt) append(row, path string) error {
	flags := unix.O_WRONLY | unix.O_APPEND | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	if row != "reopen" {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return a.writeFD(row, fd)
}

func (a *attempt) writeFD(row string, fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Ino != a.Inodes[row] || st.Dev != a.Dev {
		if row == "leaked" {
			return unix.EBADF // the number is taken by another file
		}
		return setupf("this is not the file that was made for it", nil)
	}
	_, err := unix.Write(fd, []byte("x"))
	return err
}

func (a *attempt) create(path string) error {
	return opens(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW)
}

func opens(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0o600)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// throughRoot goes in two steps, so that no link between them is followed.
func (a *attempt) throughRoot() error {
	root, err := unix.Open("/proc/self/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return setupf("/proc/self/root", err)
	}
	defer unix.Close(root)
	path := a.OutPath + "/procroot"
	fd, err := unix.Openat2(root, path[1:], &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_APPEND | unix.O_CLOEXEC | unix.O_NONBLOCK, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return a.writeFD("procroot", fd)
}

// throughLink follows the link that was made for it: the control only as long
// as it stays beneath the probe's own directory.
func (a *attempt) throughLink(name string) error {
	how := &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_APPEND | unix.O_CLOEXEC | unix.O_NONBLOCK}
	dir, path := unix.AT_FDCWD, a.In+"/"+name
	if a.control {
		dir, path, how.Resolve = a.base, "in/"+name, unix.RESOLVE_BENEATH
	}
	fd, err := unix.Openat2(dir, path, how)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return a.writeFD(name, fd)
}

// moveOut makes a file in a root and renames or links it to the outside.
func (a *attempt) moveOut(row string, move func(from, to string) error) error {
	from := a.own(row + ".in")
	if err := a.create(from); err != nil {
		return setupf("making a file inside", err)
	}
	return move(from, a.target(row+".new"))
}

// renameRoot tries to rename the permit path over a file, which rename(2)
// refuses by ENOTDIR whatever the file system is, but only after it asked every
// security module: the root stays where it is even where nothing is enforced. The
// control does not even try: it asks whether the parent may be written, and lies
// on the same device.
func (a *attempt) renameRoot() error {
	if a.control {
		return a.parent()
	}
	err := unix.Rename(a.Permit, a.target("rename-root"))
	switch err {
	case nil, unix.ENOTDIR:
		return nil
	case unix.EBUSY:
		return setupf("the root is a mount point, which nobody can rename", nil)
	}
	return err
}

func (a *attempt) tmpfileLink() error {
	dir := a.In
	if a.control {
		dir = a.Root
	}
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return setupf("O_TMPFILE inside", err)
	}
	defer unix.Close(fd)
	return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, a.target("tmpfile-link.new"), unix.AT_SYMLINK_FOLLOW)
}

// execute runs a script outside. The control asks the kernel whether it may be
// executed (which a noexec mount denies) and does not run it: somebody might have
// written something else into it.
func (a *attempt) execute() error {
	path := a.target("execute")
	if a.control {
		return unix.Faccessat2(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
	}
	for range 20 {
		p, err := os.StartProcess(path, []string{path}, &os.ProcAttr{Files: a.stdio()})
		if errors.Is(err, unix.ETXTBSY) {
			continue // another process is between fork and exec, with a copy of a descriptor
		}
		if err == nil {
			_, _ = p.Wait()
		}
		return err
	}
	return unix.ETXTBSY
}

func (a *attempt) device() error {
	if a.Node == "" {
		return setupf("no device of /dev/fuse, /dev/ptmx, /dev/net/tun is there and not granted", nil)
	}
	return opens(a.Node, unix.O_RDWR)
}

// mount mounts in a namespace of its own, which it first cuts off from the
// host's: nothing that it does is seen outside.
func (a *attempt) mount() error {
	if !a.Namespace {
		j := a.job
		j.Role, j.Rows, j.Namespace = roleOne, []string{"mount"}, true
		sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			// No user is mapped, because that is denied inside; so the capability has to be
			// kept over the exec by being ambient.
			sys.Cloneflags |= unix.CLONE_NEWUSER
			sys.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
		return a.child(append([]string{a.Self}, a.Entry...), sys, j)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("none", a.MountOn, "tmpfs", 0, "size=4k")
}

// nested tries from the fourth process of a chain, each executed by the one before.
func (a *attempt) nested() error {
	if a.Depth == 0 {
		return a.append("nested", a.target("nested"))
	}
	j := a.job
	j.Role, j.Rows, j.Depth = roleOne, []string{"nested"}, a.Depth-1
	return a.child(append([]string{a.Self}, a.Entry...), nil, j)
}

// wider confines itself again, by confinectl, with a policy that permits the outside.
func (a *attempt) wider() error {
	if a.Depth == 0 {
		return a.append("wider", a.target("wider"))
	}
	policy, err := json.Marshal(map[string]any{"permit_path": a.OutPath, "linux": map[string]any{"min_abi": 1}})
	if err != nil {
		return setupf("policy", err)
	}
	j := a.job
	j.Role, j.Rows, j.Depth = roleOne, []string{"wider"}, 0
	argv := append([]string{a.Self}, a.Wider...)
	argv = append(argv, string(policy), "--", a.Self)
	return a.child(append(argv, a.Entry...), nil, j)
}

// reads reads one byte.
func reads(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Read(fd, make([]byte, 1))
	return err
}

func lists(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Getdents(fd, make([]byte, 4096))
	return err
}

// socket goes through the directory where the path is too long for an address.
// To open a directory as a mere reference needs no right.
func (a *attempt) socket() error {
	path := a.target("socket")
	if len(path) > 107 {
		dir, err := unix.Open(a.Out, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return setupf("opening the directory of the socket", err)
		}
		defer unix.Close(dir)
		path = "/proc/self/fd/" + strconv.Itoa(dir) + "/socket"
	}
	return connects(path)
}

// connects connects to a Unix socket and says nothing there.
func connects(name string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return setupf("socket", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: name})
	if err == unix.EAGAIN { // its queue is full: it was reached
		return nil
	}
	return err
}

// stdio are the streams of a child: inside the boundary those of the probe, which are
// the null device, because opening one may not be granted.
func (a *attempt) stdio() []*os.File {
	if a.null != nil {
		return []*os.File{a.null, a.null, a.null}
	}
	return []*os.File{os.Stdin, os.Stdout, os.Stderr}
}
