package enforce

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"syscall"

	"github.com/confinectl/confinectl/resolve"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Exec confines the calling thread and executes the command in the place of
// the calling process: same pid, and every other thread ends. It returns only when it
// failed, and then nothing of the command ran.
//
// In order: every path is opened once and what was opened is judged;
// directories to be made are made and judged; the ruleset is built from those
// descriptors; the working directory is entered; every descriptor above 2 is marked
// close-on-exec, except keep; capabilities that write without opening a file are given up;
// no_new_privs, landlock_restrict_self, execve, with nothing of ours in between.
//
// keep names descriptors that the command shall inherit. It can only name
// one that this process inherited itself: one with the close-on-exec flag was opened here, and is
// refused like one that is not open ([KeepError]).
//
// After a failure the process must not go on to do other work: the working
// directory may have changed, and the calling goroutine stays locked to a
// thread that may be confined.
//
// Refusals: path-moved, path-missing, path-unreadable, scratch-unfit,
// layer-limit, apply-failed. A command that is not there or cannot be executed is an [ExecError]; all
// refusals come before it.
func (p *Plan) Exec(keep []int) error {
	c, err := p.command()
	if err != nil {
		return err
	}
	if err := checkKeep(keep); err != nil {
		return err
	}
	if c.Missing != "" {
		if err := p.Rehearse(); err != nil {
			return err
		}
		return notFound(c)
	}
	s, err := p.prepare(true)
	if err != nil {
		return err
	}
	defer s.close()
	if err := unix.Fchdir(s.dir); err != nil {
		return applyFailed("fchdir", err)
	}
	if err := closeOnExec(keep); err != nil {
		return err
	}
	environ := p.b.Environ()
	runtime.LockOSThread() // never unlocked: see above
	if err := s.restrictThread(); err != nil {
		return err
	}
	return notExecuted(c, syscall.Exec(c.Path, c.Argv, environ))
}

// Rehearse does everything that Exec does short of changing anything: it
// opens and judges every path and builds the real ruleset. Directories that Exec would
// make are judged where they exist and left out where they do not. The refusals are those of Exec, but
// for those of the steps that it leaves out.
func (p *Plan) Rehearse() error {
	if err := p.ok(); err != nil {
		return err
	}
	s, err := p.prepare(false)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// stage holds what is left of the paths once they were judged: descriptors.
type stage struct {
	ruleset int
	flags   uint32 // for landlock_restrict_self
	dir     int    // -1 where it is still to be made, and only rehearsed
}

func (s *stage) close() {
	unix.Close(s.ruleset)
	if s.dir >= 0 {
		unix.Close(s.dir)
	}
}

// prepare opens and judges every path, and builds the ruleset from what it
// opened. With mkdir it makes the directories that are to be made, after
// everything else was found fit.
func (p *Plan) prepare(mkdir bool) (*stage, error) {
	ruleset, flags, err := p.ruleset.create()
	if err != nil {
		return nil, err
	}
	s := &stage{ruleset: ruleset, flags: flags, dir: -1}
	if err := s.fill(p, mkdir); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) fill(p *Plan, mkdir bool) error {
	dir, id := p.b.Dir()
	for _, r := range p.ruleset.Rules {
		if r.rule.Make {
			continue
		}
		fd, refusal := openRule(*r.rule)
		if refusal != nil {
			return refusal
		}
		if err := s.add(r, fd, dir); err != nil {
			return err
		}
	}
	missing := map[string]bool{} // directories that a rehearsal does not make
	for _, path := range p.b.ToMake() {
		r := PathRule{rule: &resolve.Rule{Path: path}}
		if i := slices.IndexFunc(p.ruleset.Rules, func(r PathRule) bool { return r.Path == path && r.rule.Make }); i >= 0 {
			r = p.ruleset.Rules[i]
		}
		parent, _ := cut(path)
		if missing[parent] {
			missing[path] = true
			continue
		}
		fd, refusal := makeDirectory(*r.rule, p.b.UID(), mkdir)
		switch {
		case refusal != nil:
			return refusal
		case fd < 0:
			missing[path] = true
		case r.Rights == 0:
			unix.Close(fd) // only on the way to one that is granted
		default:
			if err := s.add(r, fd, dir); err != nil {
				return err
			}
		}
	}
	if missing[dir] {
		return nil
	}
	if s.dir < 0 {
		fd, refusal := openRule(resolve.Rule{Path: dir, Kind: resolve.Directory, ID: id})
		if refusal != nil {
			return refusal
		}
		s.dir = fd
	}
	if err := unix.Faccessat2(s.dir, ".", unix.X_OK, unix.AT_EACCESS); err != nil {
		return &resolve.Refusal{Code: resolve.PathUnreadable, Subject: dir, Detail: "the working directory may not be entered: " + errno(err), Cause: err}
	}
	return nil
}

// create makes the ruleset in the kernel, without rules: all that the ABI can
// confine is handled, so that it permits nothing yet.
func (s *Ruleset) create() (fd int, flags uint32, err error) {
	if fd, err = createRuleset(s.Handled, s.Scoped); err != nil {
		return -1, 0, limit(applyFailed("landlock_create_ruleset", err))
	}
	if s.Audit {
		flags = ll.FlagRestrictSelfLogNewExecOn
	}
	return fd, flags, nil
}

// add grants what was opened and judged, by its descriptor: no name is looked
// up again. The descriptor is kept when it is the working directory, and closed otherwise.
func (s *stage) add(r PathRule, fd int, dir string) error {
	err := ll.LandlockAddPathBeneathRule(s.ruleset, &ll.PathBeneathAttr{AllowedAccess: uint64(r.Rights), ParentFd: fd}, 0)
	if r.Path == dir && s.dir < 0 {
		s.dir = fd
	} else {
		unix.Close(fd)
	}
	if err != nil {
		refusal := applyFailed("landlock_add_rule", err)
		refusal.Detail = r.Path + ": " + refusal.Detail
		return refusal
	}
	return nil
}

// openRule opens the path of a rule without following any symlink, and
// judges what it opened.
func openRule(r resolve.Rule) (int, *resolve.Refusal) {
	fd, err := openPath(r.Path, 0)
	if err != nil {
		return -1, pathRefusal(r, err)
	}
	st, err := fstat(fd)
	if err != nil {
		unix.Close(fd)
		return -1, applyFailed("fstat", err)
	}
	if refusal := moved(r, st); refusal != nil {
		unix.Close(fd)
		return -1, refusal
	}
	return fd, nil
}

// makeDirectory makes a directory of the user's own where it is missing, and
// judges it: a real directory, owned by uid, that nobody else can write or
// put another one in the place of. It never repairs one. Without mkdir a
// missing directory is -1.
func makeDirectory(r resolve.Rule, uid int, mkdir bool) (int, *resolve.Refusal) {
	parentPath, name := cut(r.Path)
	parent, err := openPath(parentPath, unix.O_DIRECTORY)
	if err != nil {
		return -1, pathRefusal(resolve.Rule{Path: parentPath, Reasons: r.Reasons}, err)
	}
	defer unix.Close(parent)
	st, err := fstat(parent)
	if err != nil {
		return -1, applyFailed("fstat", err)
	}
	if refusal := unfitAbove(r, st, uid); refusal != nil {
		return -1, refusal
	}
	fd, err := openIn(parent, name)
	if err == unix.ENOENT && !mkdir {
		return -1, nil
	}
	if err == unix.ENOENT {
		if refusal := makeIn(parent, name, r); refusal != nil {
			return -1, refusal
		}
		fd, err = openIn(parent, name)
	}
	if err != nil {
		return -1, pathRefusal(r, err)
	}
	st, err = fstat(fd)
	if err != nil {
		unix.Close(fd)
		return -1, applyFailed("fstat", err)
	}
	if refusal := unfitMade(r, st, uid); refusal != nil {
		unix.Close(fd)
		return -1, refusal
	}
	return fd, nil
}

// closeOnExec marks every descriptor above 2, except keep: a descriptor keeps
// the rights that it was opened with, and an io_uring ring keeps those of whoever made it.
func closeOnExec(keep []int) error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return applyFailed("close_range", err)
	}
	return keepOpen(keep)
}

// restrictThread gives up capabilities and enters the domain, on the calling
// thread only, which must be locked. landlock_restrict_self is the last thing that it
// does: after it the thread cannot go back.
func (s *stage) restrictThread() error {
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return applyFailed("no_new_privs", err)
	}
	err := ll.LandlockRestrictSelf(s.ruleset, s.flags)
	if errors.Is(err, unix.E2BIG) {
		return &resolve.Refusal{Code: resolve.LayerLimit, Subject: "landlock_restrict_self",
			Detail: "this process is confined by 16 layers of Landlock already, which is the kernel's limit", Cause: err,
			Hints: []string{"start it from outside one of the programs that confined it"}}
	}
	if err != nil {
		return applyFailed("landlock_restrict_self", err)
	}
	return nil
}

// openIn opens what has this name in a directory as a mere reference; a symlink itself.
func openIn(dir int, name string) (fd int, err error) {
	err = ignoringEINTR(func() error {
		fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// openPath opens a path as a mere reference, and no symlink anywhere in it.
func openPath(path string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	err = ignoringEINTR(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
		return err
	})
	return fd, err
}
