package enforce

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/confinectl/confinectl/resolve"
	"github.com/landlock-lsm/go-landlock/landlock"
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

// command is what Exec and Start run.
func (p *Plan) command() (*resolve.Command, error) {
	if err := p.ok(); err != nil {
		return nil, err
	}
	c := p.b.Command()
	if c == nil || len(c.Argv) == 0 || c.Path == "" && c.Missing == "" {
		return nil, errNoCommand
	}
	return c, nil
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

// prepare opens and judges every path and builds the ruleset. With mkdir it
// makes the directories that are to be made.
func (p *Plan) prepare(mkdir bool) (*stage, error) {
	fds := make([]int, len(p.ruleset.Rules))
	for i := range fds {
		fds[i] = -1
	}
	defer func() {
		for _, fd := range fds {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
	}()
	for i, r := range p.ruleset.Rules {
		if r.rule.Make {
			continue
		}
		fd, refusal := openRule(r.rule)
		if refusal != nil {
			return nil, refusal
		}
		fds[i] = fd
	}
	missing := map[string]bool{} // directories that a rehearsal does not make
	for _, path := range p.b.ToMake() {
		rule := resolve.Rule{Path: path}
		i := slices.IndexFunc(p.ruleset.Rules, func(r PathRule) bool { return r.Path == path && r.rule.Make })
		if i >= 0 {
			rule = p.ruleset.Rules[i].rule
		}
		parent, _ := cut(path)
		if missing[parent] {
			missing[path] = true
			continue
		}
		fd, refusal := makeDirectory(rule, p.b.UID(), mkdir)
		switch {
		case refusal != nil:
			return nil, refusal
		case fd < 0:
			missing[path] = true
		case i >= 0:
			fds[i] = fd
		default:
			unix.Close(fd) // only on the way to one that is granted
		}
	}
	s := &stage{dir: -1}
	dir, id := p.b.Dir()
	if !missing[dir] {
		rule := resolve.Rule{Path: dir, Kind: resolve.Directory, ID: id}
		if i := slices.IndexFunc(p.ruleset.Rules, func(r PathRule) bool { return r.Path == dir && r.rule.Make }); i >= 0 && id == (resolve.FileID{}) {
			st, err := fstat(fds[i])
			if err != nil {
				return nil, applyFailed("fstat", err)
			}
			rule.ID = idOf(st)
		}
		fd, refusal := openRule(rule)
		if refusal != nil {
			return nil, refusal
		}
		s.dir = fd
		if err := unix.Faccessat2(fd, ".", unix.X_OK, unix.AT_EACCESS); err != nil {
			unix.Close(fd)
			return nil, &resolve.Refusal{Code: resolve.PathUnreadable, Subject: dir, Detail: "the working directory may not be entered: " + errno(err), Cause: err}
		}
	}
	var err error
	if s.ruleset, s.flags, err = p.ruleset.create(fds); err != nil {
		if s.dir >= 0 {
			unix.Close(s.dir)
		}
		return nil, err
	}
	return s, nil
}

// create builds the ruleset in the kernel. fds belong to the rules one by one; a
// negative one leaves its rule out.
func (s *Ruleset) create(fds []int) (fd int, flags uint32, err error) {
	c := landlock.Config{HandledAccessFS: landlock.AccessFSSet(s.Handled), Scoped: landlock.ScopedSet(s.Scoped)}
	if s.Audit {
		c = c.EnableLoggingForSubprocesses()
	}
	rules := make([]landlock.Rule, 0, len(fds))
	for i, fd := range fds {
		if fd >= 0 {
			// The library opens a path. This one leads to what was judged,
			// whatever has happened to its name since.
			rules = append(rules, landlock.PathAccess(landlock.AccessFSSet(s.Rules[i].Rights), "/proc/self/fd/"+strconv.Itoa(fd)))
		}
	}
	fd, flags, err = c.NewRulesetFD(rules...)
	if err == nil && fd < 0 {
		return -1, 0, errors.New("BUG: go-landlock was asked for a ruleset and saw nothing to restrict")
	}
	if err == nil {
		return fd, flags, nil
	}
	// The library does not say which step failed; the kernel does, when asked again.
	if err := accepts(s.ABI); err != nil {
		return -1, 0, limit(applyFailed("landlock_create_ruleset", err))
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return -1, 0, fmt.Errorf("BUG: go-landlock refused a ruleset that this kernel accepts: %w", err)
	}
	r := limit(applyFailed("landlock_add_rule", e))
	if e == unix.ENOENT {
		r.Hints = []string{"/proc must be mounted"}
	}
	return -1, 0, r
}

// limit says which limit was reached when a descriptor could not be had.
func limit(r *resolve.Refusal) *resolve.Refusal {
	if errors.Is(r.Cause, unix.EMFILE) {
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
			r.Detail += fmt.Sprintf(": RLIMIT_NOFILE is %d", l.Cur)
		}
		r.Hints = []string{"`ulimit -n` raises the limit; every rule needs a descriptor for a moment"}
	}
	return r
}

// openRule opens the path of a rule without following any symlink, and
// judges what it opened: it must be of the kind and have the device and inode that
// Resolve saw. A file that was removed and made again can be given the same
// inode number; then it passes, as the same real path.
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
	detail := ""
	if is := kindOf(st); is != r.Kind {
		detail = fmt.Sprintf("%s was a %s and is now %s", r.Path, r.Kind, kindText(is))
	} else if idOf(st) != r.ID {
		detail = fmt.Sprintf("%s is another %s than the one that was looked at", r.Path, r.Kind)
	}
	if detail != "" {
		unix.Close(fd)
		return -1, ruleRefusal(resolve.PathMoved, r, detail, nil)
	}
	return fd, nil
}

// pathRefusal names why the path of a rule could not be opened.
func pathRefusal(r resolve.Rule, err error) *resolve.Refusal {
	switch {
	case errors.Is(err, unix.ENOENT):
		return ruleRefusal(resolve.PathMissing, r, r.Path+" does not exist any more", err)
	case errors.Is(err, unix.EACCES):
		return ruleRefusal(resolve.PathUnreadable, r, "a directory above "+r.Path+" may not be searched", err)
	case errors.Is(err, unix.ELOOP):
		return ruleRefusal(resolve.PathMoved, r, r.Path+" goes through a symlink by now", err)
	case errors.Is(err, unix.ENOTDIR):
		return ruleRefusal(resolve.PathMoved, r, "a directory above "+r.Path+" is none any more", err)
	}
	refusal := applyFailed("openat2", err)
	refusal.Detail = r.Path + ": " + refusal.Detail
	return limit(refusal)
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
	unfit := func(detail string, cause error, hint string) (int, *resolve.Refusal) {
		refusal := ruleRefusal(resolve.ScratchUnfit, r, detail, cause)
		refusal.Hints = []string{hint}
		return -1, refusal
	}
	st, err := fstat(parent)
	if err != nil {
		return -1, applyFailed("fstat", err)
	}
	if owner := int(st.Uid); owner != 0 && owner != uid || st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		return unfit(fmt.Sprintf("%s, owned by uid %d with mode %04o, lets others replace what lies in it", parentPath, owner, st.Mode&0o7777), nil,
			"choose a place below a directory of your own")
	}
	if mkdir {
		err := ignoringEINTR(func() error { return unix.Mkdirat(parent, name, 0o700) })
		if err != nil && err != unix.EEXIST {
			return unfit(r.Path+" cannot be made: "+errno(err), err, "make it yourself, with mode 0700")
		}
	}
	var fd int
	err = ignoringEINTR(func() (err error) {
		fd, err = unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})
	if err == unix.ENOENT && !mkdir {
		return -1, nil
	}
	if err != nil {
		return -1, pathRefusal(r, err)
	}
	st, err = fstat(fd)
	if err != nil {
		unix.Close(fd)
		return -1, applyFailed("fstat", err)
	}
	detail := ""
	switch kind := kindOf(st); {
	case kind != resolve.Directory:
		detail = "is " + kindText(kind) + ", not a directory"
	case int(st.Uid) != uid:
		detail = fmt.Sprintf("is owned by uid %d, not by uid %d", st.Uid, uid)
	case st.Mode&0o022 != 0:
		detail = fmt.Sprintf("can be written by others (%04o)", st.Mode&0o7777)
	case r.ID != (resolve.FileID{}) && idOf(st) != r.ID:
		unix.Close(fd)
		return -1, ruleRefusal(resolve.PathMoved, r, r.Path+" is another directory than the one that was looked at", nil)
	default:
		return fd, nil
	}
	unix.Close(fd)
	return unfit(r.Path+" "+detail, nil, "remove it: it is made again, with mode 0700")
}

// checkKeep finds what cannot be kept before anything was opened here.
func checkKeep(keep []int) error {
	for _, fd := range keep {
		if fd >= 0 && fd <= 2 {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return &KeepError{FD: fd, Err: unix.EBADF}
		}
	}
	return nil
}

// closeOnExec marks every descriptor above 2, except keep: a descriptor keeps
// the rights that it was opened with, and an io_uring ring keeps those of whoever made it.
func closeOnExec(keep []int) error {
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return applyFailed("close_range", err)
	}
	for _, fd := range keep {
		if fd <= 2 {
			continue
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return &KeepError{FD: fd, Err: err}
		}
	}
	return nil
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

// openPath opens a path as a mere reference, and no symlink anywhere in it.
func openPath(path string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_NO_SYMLINKS}
	err = ignoringEINTR(func() error {
		fd, err = unix.Openat2(unix.AT_FDCWD, path, &how)
		return err
	})
	return fd, err
}

func fstat(fd int) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := ignoringEINTR(func() error { return unix.Fstat(fd, &st) })
	return &st, err
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func idOf(st *unix.Stat_t) resolve.FileID {
	return resolve.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

// kindOf is the zero Kind for what no rule can be for: a FIFO, or a symlink.
func kindOf(st *unix.Stat_t) resolve.Kind {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return resolve.Directory
	case unix.S_IFREG:
		return resolve.RegularFile
	case unix.S_IFCHR, unix.S_IFBLK:
		return resolve.Device
	case unix.S_IFSOCK:
		return resolve.Socket
	}
	return 0
}

func kindText(k resolve.Kind) string {
	if k == 0 {
		return "a symlink or a FIFO"
	}
	return "a " + k.String()
}

// cut takes the last component off a real path.
func cut(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 1)], path[i+1:]
}

// openNull is the null device, for a stream that the caller did not give.
func openNull() (*os.File, error) { return os.OpenFile(os.DevNull, os.O_RDWR, 0) }
