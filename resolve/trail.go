package resolve

import (
	"io/fs"
	"slices"
	"strings"
	"syscall"
)

// Stat is what the walk learned of one file, without following a symlink.
type Stat struct {
	ID   FileID
	Mode fs.FileMode // type, permission, sticky bit
	UID  int
	GID  int
	Size int64

	target string // of a symlink that was followed
}

// Kind tells what a rule for this file is made for; 0 for a kind no rule can name
// (a FIFO, a symlink).
func (s Stat) Kind() Kind {
	switch s.Mode.Type() {
	case fs.ModeDir:
		return Directory
	case 0:
		return RegularFile
	case fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice:
		return Device
	case fs.ModeSocket:
		return Socket
	}
	return 0
}

// Hop is one step of a walk: a directory that was gone through, a symlink
// that was followed, or the end.
type Hop struct {
	Path string // the real path of the hop itself; for a symlink, of the link
	Stat *Stat  // never nil, and shared by all walks of a walker
}

// Trail is the way from "/" to a file, as the kernel goes it.
type Trail struct {
	Path string // as given
	Real string // the real path, or of the deepest directory that exists when Rest is not empty
	Rest string // what does not exist below Real; empty when the walk reached its end
	Stat Stat   // of Real
	Hops []Hop  // every step, "/" first, the end last

	dangling bool // the part that does not exist was named by a symlink
}

// Target is the real path that the walk was about, whether or not its end exists.
func (t *Trail) Target() string {
	if t.Rest == "" {
		return t.Real
	}
	return below(t.Real, t.Rest)
}

// targetWithin reports whether the target is dir or lies beneath it.
func (t *Trail) targetWithin(dir string) bool {
	if within(t.Real, dir) {
		return true
	}
	return t.Rest != "" && within(dir, t.Real) && within(t.Rest, strings.TrimPrefix(dir[len(t.Real):], "/"))
}

// Passes reports whether the way looks a name up in the directory id, or ends
// at the file id. A directory that is entered only to be left by ".." does not
// count: whoever may write in it cannot change what its ".." is.
func (t *Trail) Passes(id FileID) bool {
	for i, h := range t.Hops {
		if h.Stat.ID == id && !(i+1 < len(t.Hops) && h.Path != "/" && t.Hops[i+1].Path == parent(h.Path)) {
			return true
		}
	}
	return false
}

// Walker walks paths one component at a time and remembers what it saw of each, so
// that a boundary of a hundred paths looks at "/usr" once. It is made for one look at the
// host, by a loader, a resolution, or both: what it remembers grows stale. It is not
// safe for concurrent use.
type Walker struct {
	seen  map[string]*Stat // nil: does not exist
	stats []Stat           // the slab of seen, and those of what Walk gives
	hops  []Hop
	trail []Trail
	paper *Stat // what everything is taken for where no path can be looked at; nil: look

	// The first slabs. Most starts need no more, and one allocation for all costs a
	// start less than one for each.
	firstStats [64]Stat
	firstHops  [128]Hop
	firstTrail [32]Trail
}

// NewWalker returns a walker that has seen nothing.
func NewWalker() *Walker {
	w := &Walker{seen: make(map[string]*Stat, 100)}
	w.stats, w.hops, w.trail = w.firstStats[:0], w.firstHops[:0], w.firstTrail[:0]
	return w
}

// Limits of the kernel, path_resolution(7).
const (
	maxSymlinks = 40
	maxPath     = 4096
)

// Walk resolves an absolute path as the kernel would: symlinks are followed, also
// the last one; ".." is the parent of the real directory, not of the written one;
// a trailing slash demands a directory. On macOS the real path has the
// spelling that is on disk, whatever letter case it was written in.
//
// Where a component does not exist the error is nil and Trail.Rest says what
// is missing. Every other failure is the system's own errno (ENOTDIR, ELOOP,
// EACCES, ENAMETOOLONG), together with the trail up to there. A fuzz test holds the
// walk against the kernel's.
//
// The links of /proc that lead to an open file rather than to a path
// (/proc/self/fd/N) cannot be walked by their text; where the kernel
// arrives elsewhere than the walk, the error is ESTALE.
func (w *Walker) Walk(path string) (*Trail, error) {
	t := piece(&w.trail, Trail{Path: path, Real: "/"})
	if cap(w.hops)-len(w.hops) < 16 {
		w.hops = make([]Hop, 0, 128)
	}
	t.Hops = w.hops[len(w.hops):]
	t, err := w.walk(t)
	t.Hops = slices.Clip(t.Hops)
	w.hops = w.hops[:min(len(w.hops)+len(t.Hops), cap(w.hops))]
	return t, err
}

func (w *Walker) walk(t *Trail) (*Trail, error) {
	path := t.Path
	if path == "" || path[0] != '/' {
		return t, syscall.ENOENT
	}
	if strings.Contains(path, "\x00") {
		return t, syscall.EINVAL // no path can say it
	}
	if len(path) >= maxPath {
		return t, syscall.ENAMETOOLONG
	}
	if w.paper != nil {
		return t, w.onPaper(t)
	}
	root, err := w.lstat("/")
	if err != nil {
		return t, err
	}
	t.enter("/", root)
	links, todo := 0, path
	beyond := len(todo) // what is left of todo where no symlink has named it
	for {
		todo = strings.TrimLeft(todo, "/")
		if todo == "" {
			break
		}
		end := strings.IndexByte(todo, '/')
		if end < 0 {
			end = len(todo)
		}
		name, rest := todo[:end], todo[end:]
		next := t.next(name)
		st, err := w.lstat(next)
		if err == syscall.ENOENT && t.Stat.Mode.IsDir() {
			if t.Rest, t.dangling = todo, len(todo) > beyond; strings.Contains(todo, "//") || todo[len(todo)-1] == '/' {
				t.Rest = strings.Join(components(todo), "/")
			}
			return t, nil
		}
		if err != nil {
			return t, err
		}
		todo = rest
		switch {
		case name == ".":
		case name == "..":
			t.enter(parent(t.Real), st)
		case st.Mode.Type() == fs.ModeSymlink:
			if links++; links > maxSymlinks {
				return t, syscall.ELOOP
			}
			target, err := readlink(next, st)
			if err != nil {
				return t, err
			}
			if target == "" {
				return t, syscall.ENOENT
			}
			t.Hops = append(t.Hops, Hop{next, st})
			todo, beyond = target+rest, min(beyond, len(rest))
			if target[0] == '/' {
				t.enter("/", root)
			}
		default:
			t.enter(next, st)
			if rest != "" && strings.Trim(rest, "/") == "" && !st.Mode.IsDir() { // a trailing slash
				return t, syscall.ENOTDIR
			}
		}
	}
	if links > 0 {
		var st syscall.Stat_t
		if err := ignoringEINTR(func() error { return syscall.Stat(path, &st) }); err != nil {
			return t, err
		}
		if (FileID{uint64(st.Dev), uint64(st.Ino)}) != t.Stat.ID {
			return t, syscall.ESTALE
		}
	}
	real, err := w.spelling(t.Real, t.Stat)
	t.Real = real
	return t, err
}

// plain looks at a clean path below directories that were looked at one by one, and so are
// no symlinks: nil where nothing is there. Where it is not sure only a Walk can tell.
func (w *Walker) plain(path string) (st *Stat, sure bool) {
	for dir := parent(path); ; dir = parent(dir) {
		if above := w.seen[dir]; above == nil || !above.Mode.IsDir() {
			return nil, false
		}
		if dir == "/" {
			break
		}
	}
	st, err := w.lstat(path)
	if err != nil {
		return nil, err == syscall.ENOENT
	}
	return st, st.Mode.Type() != fs.ModeSymlink
}

// maxDarwinPath is PATH_MAX of macOS, with the NUL.
const maxDarwinPath = 1024

// onPaper takes a path of macOS as it stands: it exists, no part of it is a symlink,
// and ".." is what it looks like.
func (w *Walker) onPaper(t *Trail) error {
	if len(t.Path) >= maxDarwinPath {
		return syscall.ENAMETOOLONG
	}
	t.enter("/", w.paper)
	for _, name := range components(t.Path) {
		switch name {
		case ".":
		case "..":
			t.enter(parent(t.Real), w.paper)
		default:
			t.enter(below(t.Real, name), w.paper)
		}
	}
	return nil
}

// unfirm gives a path of the data volume of macOS the name that the kernel
// compares rules with: a firmlink lets /Users and /System/Volumes/Data/Users be
// one directory, and only the short name is known to match (facts of others;
// not measured). same reports whether two names are one file; a path that has
// no short name keeps its own, and the arm refuses it.
func unfirm(path string, same func(a, b string) bool) string {
	short, found := strings.CutPrefix(path, "/System/Volumes/Data/")
	if found && same(path, "/"+short) {
		return "/" + short
	}
	return path
}

func (t *Trail) enter(real string, st *Stat) {
	t.Real, t.Stat = real, *st
	t.Hops = append(t.Hops, Hop{real, st})
}

// next is the path of name in the directory that the walk is in: where the path is
// written as it really is, a part of it, which costs nothing.
func (t *Trail) next(name string) string {
	start := len(t.Real) + 1
	if t.Real == "/" {
		start = 1
	}
	if end := start + len(name); end <= len(t.Path) && t.Path[:len(t.Real)] == t.Real && t.Path[start-1] == '/' && t.Path[start:end] == name {
		return t.Path[:end]
	}
	return below(t.Real, name)
}

// components splits a path into its names.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// below joins a real directory and a name.
func below(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// parent of a real path.
func parent(real string) string {
	if i := strings.LastIndexByte(real, '/'); i > 0 {
		return real[:i]
	}
	return "/"
}

// within reports whether a real path is dir or lies beneath it, by whole components.
func within(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

func (w *Walker) lstat(path string) (*Stat, error) {
	if w.paper != nil {
		return nil, syscall.ENOENT // nothing is there that could be unfit
	}
	if st, ok := w.seen[path]; ok {
		if st == nil {
			return nil, syscall.ENOENT
		}
		return st, nil
	}
	var s syscall.Stat_t
	if err := ignoringEINTR(func() error { return syscall.Lstat(path, &s) }); err != nil {
		if err == syscall.ENOENT {
			w.seen[path] = nil
		}
		return nil, err
	}
	st := piece(&w.stats, Stat{
		ID:   FileID{uint64(s.Dev), uint64(s.Ino)},
		Mode: fs.FileMode(s.Mode & 0o777),
		UID:  int(s.Uid), GID: int(s.Gid), Size: s.Size,
	})
	switch s.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		st.Mode |= fs.ModeDir
	case syscall.S_IFLNK:
		st.Mode |= fs.ModeSymlink
	case syscall.S_IFCHR:
		st.Mode |= fs.ModeDevice | fs.ModeCharDevice
	case syscall.S_IFBLK:
		st.Mode |= fs.ModeDevice
	case syscall.S_IFIFO:
		st.Mode |= fs.ModeNamedPipe
	case syscall.S_IFSOCK:
		st.Mode |= fs.ModeSocket
	}
	if s.Mode&syscall.S_ISVTX != 0 {
		st.Mode |= fs.ModeSticky
	}
	w.seen[path] = st
	return st, nil
}

// readlink reads a symlink that was looked at. It is remembered like the look.
func readlink(path string, st *Stat) (string, error) {
	if st.target != "" {
		return st.target, nil
	}
	var buf [maxPath]byte // the kernel has no longer one
	var n int
	err := ignoringEINTR(func() (err error) { n, err = syscall.Readlink(path, buf[:]); return })
	if err != nil {
		return "", err
	}
	st.target = string(buf[:n])
	return st.target, nil
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != syscall.EINTR {
			return err
		}
	}
}
