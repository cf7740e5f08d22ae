//go:build linux || darwin

package enforce

import (
	"errors"
	"fmt"
	"strings"

	"github.com/confinectl/confinectl/resolve"
	"golang.org/x/sys/unix"
)

// limit says which limit was reached when a descriptor could not be had.
func limit(r *resolve.Refusal) *resolve.Refusal {
	if errors.Is(r.Cause, unix.EMFILE) {
		var l unix.Rlimit
		if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) == nil {
			r.Detail += fmt.Sprintf(": RLIMIT_NOFILE is %d", l.Cur)
		}
		r.Hints = []string{"`ulimit -n` raises the limit"}
	}
	return r
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

// keepOpen takes the close-on-exec mark off what the command shall inherit.
func keepOpen(keep []int) error {
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

func scratchUnfit(r resolve.Rule, detail string, cause error, hint string) *resolve.Refusal {
	refusal := ruleRefusal(resolve.ScratchUnfit, r, detail, cause)
	refusal.Hints = []string{hint}
	return refusal
}

// unfitAbove judges the directory that the one of r is made in: nobody else
// may put another one in its place.
func unfitAbove(r resolve.Rule, st *unix.Stat_t, uid int) *resolve.Refusal {
	if owner := int(st.Uid); owner != 0 && owner != uid || st.Mode&0o002 != 0 && st.Mode&unix.S_ISVTX == 0 {
		above, _ := cut(r.Path)
		return scratchUnfit(r, fmt.Sprintf("%s, owned by uid %d with mode %04o, lets others replace what lies in it", above, owner, st.Mode&0o7777), nil,
			"choose a place below a directory of your own")
	}
	return nil
}

func makeIn(parent int, name string, r resolve.Rule) *resolve.Refusal {
	err := ignoringEINTR(func() error { return unix.Mkdirat(parent, name, 0o700) })
	if err != nil && err != unix.EEXIST {
		return scratchUnfit(r, r.Path+" cannot be made: "+errno(err), err, "make it yourself, with mode 0700")
	}
	if err == nil {
		// The umask took part. Nobody else can have replaced what was made just
		// now: the directory above was judged. If this fails, the judgement to come says so.
		_ = unix.Fchmodat(parent, name, 0o700, 0)
	}
	return nil
}

// unfitMade judges a directory of the user's own, made just now or found.
func unfitMade(r resolve.Rule, st *unix.Stat_t, uid int) *resolve.Refusal {
	detail := ""
	switch kind := kindOf(st); {
	case kind != resolve.Directory:
		detail = "is " + kindText(kind) + ", not a directory"
	case int(st.Uid) != uid:
		detail = fmt.Sprintf("is owned by uid %d, not by uid %d", st.Uid, uid)
	case st.Mode&0o022 != 0:
		detail = fmt.Sprintf("can be written by others (%04o)", st.Mode&0o7777)
	case r.ID != (resolve.FileID{}) && idOf(st) != r.ID:
		return ruleRefusal(resolve.PathMoved, r, r.Path+" is another directory than the one that was looked at", nil)
	default:
		return nil
	}
	return scratchUnfit(r, r.Path+" "+detail, nil, "remove it: it is made again, with mode 0700")
}

// moved judges a file that was found at the path of a rule: it must be of the
// kind and have the device and inode that Resolve saw. A file that was removed and made again can be
// given the same inode number; then it passes, as the same real path.
func moved(r resolve.Rule, st *unix.Stat_t) *resolve.Refusal {
	if is := kindOf(st); is != r.Kind {
		return ruleRefusal(resolve.PathMoved, r, fmt.Sprintf("%s was a %s and is now %s", r.Path, r.Kind, kindText(is)), nil)
	}
	if idOf(st) != r.ID {
		return ruleRefusal(resolve.PathMoved, r, fmt.Sprintf("%s is another %s than the one that was looked at", r.Path, r.Kind), nil)
	}
	return nil
}
