package enforce

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// Nothing in this file has run on a Mac yet. What it takes for granted is in
// docs/seatbelt.md, and test/seatbelt measures it there.

// Probe asks this machine what it can enforce: it runs /usr/bin/true in a profile that
// allows everything, and changes nothing.
func Probe() Host {
	h := Host{Arm: "seatbelt"}
	if h.Missing = missingSandboxExec(sandboxExec); h.Missing == nil {
		h.Missing = judgeAnswer(try(sandboxExec, []string{"-p", "(version 1)(allow default)", "--", "/usr/bin/true"}), true)
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Release = unix.ByteSliceToString(u.Release[:])
	}
	return h
}

// compileHere renders the boundary and has sandbox-exec take it, with /usr/bin/true as
// the command: a text that this macOS refuses and a process that is confined already
// would otherwise end in a status that could be the command's own.
func compileHere(b *resolve.Boundary) (*Plan, error) {
	s, err := Seatbelt(b)
	if err != nil {
		return nil, err
	}
	if r := trySeatbelt(sandboxExec, s); r != nil {
		return nil, r
	}
	return &Plan{b: b, host: Host{Arm: "seatbelt"}, sbpl: s}, nil
}

// Exec becomes sandbox-exec, which confines the process and becomes the
// command: same pid. It returns only when it failed, and then nothing of the command ran.
//
// In order: every path is looked at again, without following a symlink;
// directories to be made are made and judged; the working directory is entered by
// descriptor; every descriptor above 2 is marked close-on-exec, except keep; execve.
//
// What holds: what may not be executed, for all that can be seen from
// here, is an [ExecError] as on Linux. What does not: sandbox-exec ends with 71
// where execve(2) refuses for another reason, and that status is indistinguishable from the
// command's own. argv[0] is the path that the command was found by. The system removes
// DYLD_* from the environment, because sandbox-exec is one of its protected programs.
//
// Between the look and the kernel's own decisions a path can change its
// meaning; the rules are text, so the new file by that name is what is granted.
//
// Refusals: path-moved, path-missing, path-unreadable, scratch-unfit, apply-failed.
func (p *Plan) Exec(keep []int) error {
	c, err := p.command()
	if err != nil {
		return err
	}
	if err := checkKeep(keep); err != nil {
		return err
	}
	if err := runnable(p, c); err != nil {
		return err
	}
	dir, err := p.prepare(true)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Fchdir(dir); err != nil {
		return applyFailed("fchdir", err)
	}
	if err := closeOnExec(keep, dir); err != nil {
		return err
	}
	argv := append([]string{sandboxExec}, p.sbpl.args(append([]string{c.Path}, c.Argv[1:]...)...)...)
	return notEntered(c, syscall.Exec(sandboxExec, argv, p.b.Environ()))
}

// notEntered is the answer when sandbox-exec itself was not executed. It was a
// moment ago, so what is too large is what the command was given.
func notEntered(c *resolve.Command, err error) error {
	if err == unix.E2BIG {
		return notExecuted(c, err)
	}
	return applyFailed("execve "+sandboxExec, err)
}

// Rehearse does everything that Exec does short of changing anything.
// Directories that Exec would make are judged where they exist. The refusals are those of
// Exec, but for those of the steps that it leaves out.
func (p *Plan) Rehearse() error {
	if err := p.ok(); err != nil {
		return err
	}
	dir, err := p.prepare(false)
	if err == nil && dir >= 0 {
		unix.Close(dir)
	}
	return err
}

// runnable reports what the system would object to. On Linux the system speaks first; here
// sandbox-exec would swallow its words, and execvp(3) hands a file without a format to a shell.
func runnable(p *Plan, c *resolve.Command) error {
	if c.Missing == "" && c.Doubt == "" {
		return nil
	}
	if err := p.Rehearse(); err != nil {
		return err
	}
	if c.Missing != "" {
		return notFound(c)
	}
	return notExecuted(c, nil)
}

// prepare looks at every path again and opens the working directory. With mkdir
// it makes the directories that are to be made. dir is -1 where the working directory
// is still to be made, and only rehearsed.
func (p *Plan) prepare(mkdir bool) (dir int, err error) {
	made := map[string]resolve.Rule{}
	for _, r := range p.b.Rules() {
		switch {
		case r.Make:
			made[r.Path] = r
		case r.Unprovisioned: // may or may not exist
		default:
			st, err := lstat(r.Path)
			if err != nil {
				return -1, pathRefusal(r, err)
			}
			if refusal := moved(r, st); refusal != nil {
				return -1, refusal
			}
		}
	}
	missing := map[string]bool{} // directories that a rehearsal does not make
	for _, path := range p.b.ToMake() {
		r := resolve.Rule{Path: path}
		if rule, ok := made[path]; ok {
			r = rule
		}
		if above, _ := cut(path); missing[above] {
			missing[path] = true
			continue
		}
		exists, refusal := makeDirectory(r, p.b.UID(), mkdir)
		if refusal != nil {
			return -1, refusal
		}
		missing[path] = !exists
	}
	path, id := p.b.Dir()
	if missing[path] {
		return -1, nil
	}
	r := resolve.Rule{Path: path, Kind: resolve.Directory, ID: id}
	dir, err = openPath(path, unix.O_DIRECTORY)
	if err != nil {
		return -1, pathRefusal(r, err)
	}
	st, err := fstat(dir)
	if err != nil {
		unix.Close(dir)
		return -1, applyFailed("fstat", err)
	}
	if _, ours := made[path]; ours && id == (resolve.FileID{}) {
		r.ID = idOf(st)
	}
	if refusal := moved(r, st); refusal != nil {
		unix.Close(dir)
		return -1, refusal
	}
	return dir, nil
}

// makeDirectory makes a directory of the user's own where it is missing, and
// judges it without opening it. It never repairs one. Without mkdir a missing
// directory does not exist, which is no refusal.
func makeDirectory(r resolve.Rule, uid int, mkdir bool) (exists bool, refusal *resolve.Refusal) {
	above, name := cut(r.Path)
	parent, err := openPath(above, unix.O_DIRECTORY)
	if err != nil {
		return false, pathRefusal(resolve.Rule{Path: above, Reasons: r.Reasons}, err)
	}
	defer unix.Close(parent)
	st, err := fstat(parent)
	if err != nil {
		return false, applyFailed("fstat", err)
	}
	if refusal := unfitAbove(r, st, uid); refusal != nil {
		return false, refusal
	}
	if mkdir {
		if refusal := makeIn(parent, name, r); refusal != nil {
			return false, refusal
		}
	}
	var found unix.Stat_t
	err = ignoringEINTR(func() error { return unix.Fstatat(parent, name, &found, unix.AT_SYMLINK_NOFOLLOW) })
	if err == unix.ENOENT && !mkdir {
		return false, nil
	}
	if err != nil {
		return false, pathRefusal(r, err)
	}
	return true, unfitMade(r, &found, uid)
}

// openPath opens a path with no symlink anywhere in it.
func openPath(path string, flags int) (fd int, err error) {
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW_ANY|flags, 0)
		return err
	})
	return fd, err
}

func lstat(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := ignoringEINTR(func() error { return unix.Lstat(path, &st) })
	return &st, err
}

// closeOnExec marks every descriptor above 2, except keep: a descriptor keeps
// the rights that it was opened with. macOS has no close_range(2), so the open ones are
// read from /dev/fd; witness is one that is known to be open, without which the list is not
// believed.
func closeOnExec(keep []int, witness int) error {
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return applyFailed("read /dev/fd", err)
	}
	seen := false
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= 2 {
			continue
		}
		seen = seen || fd == witness
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		if err != nil && err != unix.EBADF { // the listing's own descriptor is closed by now
			return applyFailed("F_SETFD", err)
		}
	}
	if !seen {
		return &resolve.Refusal{Code: resolve.ApplyFailed, Subject: "read /dev/fd", Detail: fmt.Sprintf("descriptor %d is open and not listed", witness)}
	}
	return keepOpen(keep)
}
