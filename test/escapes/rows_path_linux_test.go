package escapes

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// pathRows reach for the outside by its name, however it is spelled.
func pathRows() []*row {
	return []*row{
		{name: "plain/write", about: "open an outside file for writing", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.out("f"), 0) }},
		{name: "plain/create", about: "create an outside file", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.out("new"), unix.O_CREAT|unix.O_EXCL) }},
		{name: "plain/open-trunc", about: "open read-only with O_TRUNC", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return opens(a.out("t"), unix.O_RDONLY|unix.O_TRUNC) }},
		{name: "plain/truncate", id: "E25", about: "truncate(2) by name", kind: closed, want: both(since(3, "denied EACCES")), changes: content,
			try: func(a *attempt) error { return unix.Truncate(a.out("t"), 0) }},
		{name: "plain/truncate-min-abi-1", id: "E25", about: "truncate(2) by name, with a profile that asks for ABI 1 only: a floor is no ceiling", kind: closed, want: both(since(3, "denied EACCES")), changes: content,
			prepare: func(fx *fixture) error { fx.floor = 1; return nil },
			try:     func(a *attempt) error { return unix.Truncate(a.out("t"), 0) }},
		{name: "plain/mkdir", about: "mkdir outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Mkdir(a.out("made"), 0o755) }},
		{name: "plain/rmdir", about: "rmdir outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rmdir(a.out("emptydir")) }},
		{name: "plain/unlink", about: "unlink outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Unlink(a.out("victim")) }},
		{name: "plain/symlink", about: "make a symlink outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Symlink("x", a.out("made")) }},
		{name: "plain/mkfifo", about: "make a fifo outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Mkfifo(a.out("made"), 0o644) }},
		{name: "plain/mknod-file", about: "mknod of a regular file outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Mknod(a.out("made"), unix.S_IFREG|0o644, 0) }},
		{name: "plain/bind-socket", about: "bind a Unix socket outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				return unix.Bind(s, &unix.SockaddrUnix{Name: a.out("made")})
			}},
		{name: "plain/prefix", about: "a sibling whose name begins like the permit path's", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.dir+"/in-evil/f", 0) }},
		{name: "plain/profile-dir", about: "the profile that is in force", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.dir+"/in-prof/p.toml", 0) }},
		{name: "plain/read-path", about: "write in a read path", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.ro("f"), 0) }},
		{name: "plain/tmp", about: "create a file in the temporary directory", kind: held, want: eacces, changes: nothing,
			try: func(a *attempt) error { return temporary(filepath.Dir(filepath.Dir(a.dir))) }},
		{name: "plain/dev-shm", about: "create a file in /dev/shm", kind: held, want: eacces, changes: nothing,
			blocked: [2]blocked{{"ENOENT", "no /dev/shm"}, {"ENOENT EACCES", "no /dev/shm that others may write in"}},
			try:     func(a *attempt) error { return temporary("/dev/shm") }},

		{name: "spelling/dotdot", about: "..  from inside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.in("sub/../../out/f"), 0) }},
		{name: "spelling/dots-and-slashes", about: "//, /./ and ..", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write("/."+a.dir+"//in/./sub/..//../out/./f", 0) }},
		{name: "spelling/openat", about: "openat of a directory inside, with ..", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				d, err := unix.Open(a.in("sub"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
				if err != nil {
					return err
				}
				return writeAt(d, "../../out/f", 0)
			}},
		{name: "spelling/openat2", about: "openat2 of a directory inside, with ..", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				d, err := unix.Open(a.in("sub"), unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return err
				}
				fd, err := unix.Openat2(d, "../../out/f", &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_TRUNC})
				if err != nil {
					return err
				}
				return unix.Close(fd)
			}},
		{name: "spelling/proc-self-root", about: "/proc/self/root", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write("/proc/self/root"+a.out("f"), 0) }},
		{name: "spelling/proc-thread-self-root", about: "/proc/thread-self/root", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write("/proc/thread-self/root"+a.out("f"), 0) }},
		{name: "spelling/proc-self-cwd", about: "/proc/self/cwd and ..", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := unix.Chdir(a.in("")); err != nil {
					return err
				}
				return write("/proc/self/cwd/../out/f", 0)
			}},
		{name: "spelling/chdir", about: "relative name after chdir outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := unix.Chdir(a.out("")); err != nil {
					return err
				}
				return write("f", 0)
			}},
		{name: "spelling/inherited-cwd", about: "relative name in the working directory that confinectl was started in", kind: held, want: both(always("harmless")), changes: content,
			try: func(a *attempt) error {
				if err := write("made", unix.O_CREAT); err != nil {
					return err
				}
				if _, err := os.Stat(a.in("made")); err == nil {
					return harmless("the working directory is the permit path")
				}
				return nil
			}},
		{name: "spelling/o-path-dir", about: "name below an O_PATH descriptor of an outside directory", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				d, err := unix.Open(a.out(""), unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return err
				}
				return writeAt(d, "f", 0)
			}},
		{name: "spelling/o-path-dir-proc", about: "the same through /proc/self/fd", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				d, err := unix.Open(a.out(""), unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return err
				}
				return write(fmt.Sprintf("/proc/self/fd/%d/f", d), 0)
			}},
		{name: "spelling/o-path-file", about: "O_PATH descriptor of an outside file, opened again", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				fd, err := unix.Open(a.out("f"), unix.O_PATH, 0)
				if err != nil {
					return err
				}
				return write(fmt.Sprintf("/proc/self/fd/%d", fd), 0)
			}},

		{name: "symlink/old-file", about: "write through a link to the outside that was there", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.in("link_out"), 0) }},
		{name: "symlink/old-directory", about: "create below a link to an outside directory", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.in("dlink_out/made"), unix.O_CREAT) }},
		{name: "symlink/new", about: "write through a link made inside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := unix.Symlink(a.out("f"), a.in("link_new")); err != nil {
					return err
				}
				return write(a.in("link_new"), 0)
			}},
		{name: "symlink/chain", about: "through two new links, the second relative", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := unix.Symlink("../../out", a.in("sub/up")); err != nil {
					return err
				}
				if err := unix.Symlink("sub/up/f", a.in("chain")); err != nil {
					return err
				}
				return write(a.in("chain"), 0)
			}},
		{name: "symlink/trunc-through", about: "O_CREAT and O_TRUNC through a link to the outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return opens(a.in("link_out"), unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC) }},
		{name: "symlink/make", about: "make a link inside that points out: a trap for programs outside that follow it", kind: limit, want: allowed,
			try: func(a *attempt) error { return unix.Symlink(a.out("f"), a.in("trap")) }},

		{name: "permit-dir/rename", about: "rename the permit path itself", kind: held, want: eacces,
			effect: func(fx *fixture) (bool, error) { return gone(fx.dir + "/in") },
			try:    func(a *attempt) error { return unix.Rename(a.dir+"/in", a.dir+"/in.moved") }},
		{name: "permit-dir/rmdir-sibling", about: "rmdir of a sibling", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rmdir(a.in("../in_empty")) }},
		{name: "permit-dir/rename-sibling", about: "rename a sibling", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rename(a.dir+"/in_empty", a.dir+"/in_full") }},
		{name: "permit-dir/rename-parent", about: "rename the directory above", kind: held, want: eacces,
			blocked: [2]blocked{asUser: {"EACCES", "the directory above it belongs to root"}},
			try: func(a *attempt) error {
				if err := unix.Rename(a.dir, a.dir+".moved"); err != nil {
					return err
				}
				return unix.Rename(a.dir+".moved", a.dir)
			}},

		{name: "inside/dev-null", about: "write to /dev/null", kind: works, want: allowed,
			try: func(*attempt) error { return write("/dev/null", 0) }},
		{name: "inside/make", about: "directory, fifo and symlink inside", kind: works, want: allowed,
			try: func(a *attempt) error {
				if err := unix.Mkdir(a.in("made"), 0o755); err != nil {
					return err
				}
				if err := unix.Mkfifo(a.in("made/fifo"), 0o644); err != nil {
					return err
				}
				return unix.Symlink("f", a.in("made/link"))
			}},
		{name: "inside/socket", about: "bind a Unix socket inside and connect to it", kind: works, want: allowed,
			try: func(a *attempt) error {
				s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				address := &unix.SockaddrUnix{Name: a.in("sock")}
				if err := unix.Bind(s, address); err != nil {
					return err
				}
				if err := unix.Listen(s, 1); err != nil {
					return err
				}
				c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
				if err != nil {
					return err
				}
				return unix.Connect(c, address)
			}},
		{name: "inside/read-path", about: "read in a read path", kind: works, want: allowed,
			try: func(a *attempt) error { return read(a.ro("f")) }},
	}
}

func sameBlock(errnos, why string) [2]blocked {
	return [2]blocked{{errnos, why}, {errnos, why}}
}

// temporary makes a file in a shared directory and removes it.
func temporary(dir string) error {
	f, err := os.CreateTemp(dir, "escapes.")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func gone(path string) (bool, error) {
	_, err := os.Lstat(path)
	return os.IsNotExist(err), nil
}

var noTmpfile = sameBlock("ENOTSUP EISDIR", "no O_TMPFILE on this file system")

// linkRows move and link names across the boundary.
func linkRows() []*row {
	return []*row{
		{name: "link/in", about: "hard link of an outside file into the permit path, then write", kind: held, want: exdev, changes: content,
			try: func(a *attempt) error {
				if err := unix.Link(a.out("f"), a.in("linked")); err != nil {
					return err
				}
				return write(a.in("linked"), 0)
			}},
		{name: "link/in-follow", about: "the same through a symlink inside (AT_SYMLINK_FOLLOW)", kind: held, want: exdev, changes: content,
			try: func(a *attempt) error {
				if err := unix.Linkat(unix.AT_FDCWD, a.in("link_out"), unix.AT_FDCWD, a.in("linked"), unix.AT_SYMLINK_FOLLOW); err != nil {
					return err
				}
				return write(a.in("linked"), 0)
			}},
		{name: "link/in-read-path", about: "the same for a file of a read path", kind: held, want: exdev, changes: content,
			try: func(a *attempt) error {
				if err := unix.Link(a.ro("f"), a.in("linked")); err != nil {
					return err
				}
				return write(a.in("linked"), 0)
			}},
		{name: "link/in-descriptor", about: "the same for an O_PATH descriptor (/proc/self/fd)", kind: held, want: exdev, changes: content,
			try: func(a *attempt) error {
				fd, err := unix.Open(a.out("f"), unix.O_PATH, 0)
				if err != nil {
					return err
				}
				if err := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, a.in("linked"), unix.AT_SYMLINK_FOLLOW); err != nil {
					return err
				}
				return write(a.in("linked"), 0)
			}},
		{name: "link/out", about: "hard link of an inside file to the outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Link(a.in("f"), a.out("linked")) }},
		{name: "link/before-launch", id: "E11", about: "write through a hard link to an outside file that was inside before", kind: limit, want: allowed, changes: content,
			try: func(a *attempt) error { return write(a.in("hl"), 0) }},
		{name: "link/before-launch-outside-name", about: "the outside name of that file", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return write(a.out("hl_target"), 0) }},
		{name: "rename/out", about: "rename an inside file to the outside", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rename(a.in("r1"), a.out("r1")) }},
		{name: "rename/over", about: "rename an inside file over an outside one", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := write(a.in("r2"), 0); err != nil {
					return err
				}
				return unix.Rename(a.in("r2"), a.out("victim2"))
			}},
		{name: "rename/in", about: "rename an outside file into the permit path", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rename(a.out("victim3"), a.in("r3")) }},
		{name: "rename/directory-in", about: "rename an outside directory into the permit path", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error { return unix.Rename(a.out("sub"), a.in("sub2")) }},
		{name: "rename/exchange", about: "RENAME_EXCHANGE of an inside and an outside file", kind: held, want: eacces, changes: content,
			try: func(a *attempt) error {
				if err := write(a.in("f"), 0); err != nil {
					return err
				}
				return unix.Renameat2(unix.AT_FDCWD, a.in("f"), unix.AT_FDCWD, a.out("f"), unix.RENAME_EXCHANGE)
			}},
		{name: "rename/whiteout", about: "RENAME_WHITEOUT outside", kind: held, want: eacces, changes: content,
			blocked: sameBlock("EPERM EINVAL", "this file system or kernel has no whiteouts for the caller"),
			try: func(a *attempt) error {
				return unix.Renameat2(unix.AT_FDCWD, a.out("f"), unix.AT_FDCWD, a.out("white"), unix.RENAME_WHITEOUT)
			}},
		{name: "tmpfile/outside", about: "O_TMPFILE outside, linked there", kind: held, want: eacces, changes: content, blocked: noTmpfile,
			try: func(a *attempt) error { return tmpfile(a.out(""), a.out("made")) }},
		{name: "tmpfile/link-out", about: "O_TMPFILE inside, linked to the outside", kind: held, want: eacces, changes: content, blocked: noTmpfile,
			try: func(a *attempt) error { return tmpfile(a.in(""), a.out("made")) }},
		{name: "tmpfile/inside", about: "O_TMPFILE inside, linked inside", kind: works, want: allowed, blocked: noTmpfile,
			try: func(a *attempt) error { return tmpfile(a.in(""), a.in("made")) }},
		{name: "rename/inside", about: "rename a file and a directory across directories inside", kind: works, want: both(expect{"allowed", 2, "denied EXDEV"}),
			try: func(a *attempt) error {
				if err := unix.Rename(a.in("d1/a"), a.in("d2/b")); err != nil {
					return err
				}
				return unix.Rename(a.in("d1/dd"), a.in("d2/dd"))
			}},
		{name: "link/inside", about: "hard link across directories inside", kind: works, want: both(expect{"allowed", 2, "denied EXDEV"}),
			try: func(a *attempt) error { return unix.Link(a.in("d1/a"), a.in("d2/b")) }},
	}
}

// tmpfile makes an unnamed file in one directory and gives it a name.
func tmpfile(dir, name string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
}

var noHandles = [2]blocked{
	asRoot: {"EPERM ENOTSUP", "no handles on this file system, or not in the initial user namespace"},
	asUser: {"EPERM ENOTSUP", "open_by_handle_at needs CAP_DAC_READ_SEARCH"},
}

// handleRows open an outside file by its handle: no path, no walk.
func handleRows() []*row {
	open := func(a *attempt, flags int) (int, error) {
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, a.out("f"), 0)
		if err != nil {
			return -1, err
		}
		mount, err := unix.Open(a.in(""), unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		return unix.OpenByHandleAt(mount, handle, flags)
	}
	return []*row{
		{name: "handle/write", about: "open_by_handle_at for writing", kind: held, want: eperm, changes: content, blocked: noHandles,
			try: func(a *attempt) error {
				fd, err := open(a, unix.O_RDWR|unix.O_TRUNC)
				if err != nil {
					return err
				}
				return unix.Close(fd)
			}},
		{name: "handle/read", about: "open_by_handle_at for reading", kind: held, want: eperm, blocked: noHandles,
			try: func(a *attempt) error {
				fd, err := open(a, unix.O_RDONLY)
				if err != nil {
					return err
				}
				return unix.Close(fd)
			}},
		{name: "handle/o-path", about: "open_by_handle_at with O_PATH, opened again for writing", kind: held, want: eperm, changes: content, blocked: noHandles,
			try: func(a *attempt) error {
				fd, err := open(a, unix.O_PATH)
				if err != nil {
					return err
				}
				return write(fmt.Sprintf("/proc/self/fd/%d", fd), 0)
			}},
	}
}
