package findings

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// Limits of a look at one root.
const (
	defaultTime = 500 * time.Millisecond
	perCode     = 8        // findings of one code in one root, after which they are only counted
	maxContent  = 64 << 10 // bytes that are read of a settings file
	maxSockets  = 24
)

// A Scanner looks at roots and at the host. It remembers what it found of each
// root, because many profiles share one. It is safe for concurrent use.
type Scanner struct {
	Facts *resolve.Facts
	Time  time.Duration // for one root; zero means half a second

	// Own is how names of the caller's own begin, which are not looked at.
	Own string

	mu      sync.Mutex
	roots   map[string]*looked
	sockets func() []string
	mounts  func() []string
	path    func() []string
}

// looked is one root, once it was looked at.
type looked struct {
	once sync.Once
	list []Finding
}

// NewScanner looks at nothing yet.
func NewScanner(f *resolve.Facts) *Scanner {
	s := &Scanner{Facts: f, roots: map[string]*looked{}}
	s.sockets = sync.OnceValue(s.findSockets)
	s.mounts = sync.OnceValue(mountPoints)
	s.path = sync.OnceValue(s.searchPath)
	return s
}

// Scan gives the findings of a boundary: those of [Static], of its read-write
// roots, and the sockets that a program can reach at a Landlock ABI.
func (s *Scanner) Scan(b *resolve.Boundary, abi int) []Finding {
	list := Static(b)
	for _, r := range b.Rules() {
		if r.Kind != resolve.Directory || !r.Access.Has(resolve.Write|resolve.Names) || r.ID == (resolve.FileID{}) {
			continue
		}
		list = append(list, s.root(r)...)
	}
	return Sort(append(list, s.reach(b, abi)...))
}

func (s *Scanner) root(r resolve.Rule) []Finding {
	s.mu.Lock()
	l := s.roots[r.Path]
	if l == nil {
		l = &looked{}
		s.roots[r.Path] = l
	}
	s.mu.Unlock()
	l.once.Do(func() {
		t := &tree{root: r.Path, own: s.Own, until: time.Now().Add(s.limit()), by: lastly(), count: map[Code]int{}}
		t.walk(r.ID)
		for _, place := range system {
			if within(place.path, r.Path) || within(r.Path, place.path) {
				t.add(place.code, place.path, "")
			}
		}
		for _, dir := range s.path() {
			if within(dir, r.Path) {
				t.add(PathDirectory, dir, "it is in your PATH")
			}
		}
		for _, m := range s.mounts() {
			if m != r.Path && within(m, r.Path) {
				t.add(MountPoint, m, "")
			}
		}
		if path := s.globalHooks(); path != "" && within(path, r.Path) {
			t.add(GitHooks, path, "core.hooksPath of your git configuration leads there")
		}
		for _, c := range Codes() {
			if more := t.count[c] - perCode; more > 0 {
				t.list = append(t.list, of(c, r.Path, fmt.Sprintf("and %d more", more)))
			}
		}
		l.list = t.list
	})
	return l.list
}

func (s *Scanner) limit() time.Duration {
	if s.Time > 0 {
		return s.Time
	}
	return defaultTime
}

// tree is one root being looked at.
type tree struct {
	root  string
	own   string
	dev   uint64
	until time.Time
	by    map[string][]int
	list  []Finding
	count map[Code]int
}

func (t *tree) add(c Code, path, special string) {
	if t.count[c]++; t.count[c] <= perCode {
		t.list = append(t.list, of(c, path, special))
	}
}

// walk goes breadth first, so that what a limit cuts off lies deep.
func (t *tree) walk(id resolve.FileID) {
	fd, err := unix.Openat2(unix.AT_FDCWD, t.root, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || (resolve.FileID{Dev: st.Dev, Ino: st.Ino}) != id {
		return
	}
	t.dev = st.Dev
	buf := make([]byte, 64<<10)
	queue := []string{"."}
	for seen := 0; len(queue) > 0; seen++ {
		if time.Now().After(t.until) {
			t.add(ScanLimited, t.root, fmt.Sprintf("%d directories were looked at", seen))
			return
		}
		dir := queue[0]
		queue = queue[1:]
		if len(queue) < 1<<16 {
			queue = append(queue, t.directory(fd, dir, buf)...)
		} else if t.count[ScanLimited] == 0 {
			t.add(ScanLimited, t.root, "more than 65536 directories are waiting")
		}
	}
}

// directory looks at the names in one directory and gives the directories below it.
func (t *tree) directory(root int, dir string, buf []byte) (below []string) {
	how := &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(root, dir, how)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var names []string
	for {
		n, err := unix.ReadDirent(fd, buf)
		if n <= 0 || err != nil {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			var st unix.Stat_t
			if t.own != "" && strings.HasPrefix(name, t.own) || unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			rel := name
			if dir != "." {
				rel = dir + "/" + name
			}
			t.file(fd, name, rel, &st)
			if st.Mode&unix.S_IFMT == unix.S_IFDIR && st.Dev == t.dev && !ends(rel, ".git/objects") {
				below = append(below, rel)
			}
		}
		if time.Now().After(t.until) {
			break
		}
	}
	return below
}

// file looks at one name.
func (t *tree) file(dir int, name, rel string, st *unix.Stat_t) {
	path := t.root + "/" + rel
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		t.add(DeviceNode, path, fmt.Sprintf("device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev)))
	case unix.S_IFREG:
		if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && st.Mode&0o111 != 0 {
			t.add(SetUID, path, fmt.Sprintf("mode %04o, owner %d", st.Mode&0o7777, st.Uid))
		}
		if st.Nlink > 1 {
			t.add(HardLink, path, fmt.Sprintf("it has %d names", st.Nlink))
		}
	}
	for _, i := range t.by[name] {
		switch {
		case i < len(endings) && ends(path, endings[i].end):
			t.add(endings[i].code, path, "")
		case i >= len(endings) && ends(path, settings[i-len(endings)].end):
			if word := contains(read(dir, name), settings[i-len(endings)].words); word != "" {
				t.add(AgentHooks, path, "it has "+word)
			}
		}
	}
	if name == "config" && ends(path, ".git/config") {
		if hooks := hooksPath(string(read(dir, name))); hooks != "" {
			if !strings.HasPrefix(hooks, "/") {
				hooks = strings.TrimSuffix(path, ".git/config") + hooks
			}
			t.add(GitHooks, hooks, "core.hooksPath of "+path+" leads there")
		}
	}
}

func contains(data []byte, words []string) string {
	for _, w := range words {
		if bytes.Contains(data, []byte(w)) {
			return strings.Trim(w, `"`)
		}
	}
	return ""
}

// read reads the beginning of a regular file, and nothing else.
func read(dir int, name string) []byte {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	data := make([]byte, maxContent)
	n, err := unix.Pread(fd, data, 0)
	if err != nil || n < 0 {
		return nil
	}
	return data[:n]
}

// globalHooks is core.hooksPath of the user's own git configuration.
func (s *Scanner) globalHooks() string {
	for _, file := range []string{s.Facts.Home + "/.gitconfig", s.Facts.ConfigHome + "/git/config"} {
		if path := hooksPath(string(read(unix.AT_FDCWD, file))); path != "" {
			if rest, ok := strings.CutPrefix(path, "~/"); ok {
				path = s.Facts.Home + "/" + rest
			}
			return path
		}
	}
	return ""
}

// searchPath is the caller's PATH, as real directories.
func (s *Scanner) searchPath() (dirs []string) {
	path, _ := s.Facts.Getenv("PATH")
	w := resolve.NewWalker()
	for dir := range strings.SplitSeq(path, ":") {
		if t, err := w.Walk(dir); err == nil && t.Rest == "" && t.Stat.Mode.IsDir() && !slices.Contains(dirs, t.Real) {
			dirs = append(dirs, t.Real)
		}
	}
	return dirs
}

// mountPoints lists the mount points of this namespace, proc_pid_mountinfo(5).
func mountPoints() (points []string) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points = append(points, unescape(fields[4]))
		}
	}
	return points
}

// unescape undoes the \040 of the kernel's tables.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// findSockets lists the pathname sockets that this user may connect to: those that
// the kernel lists, and those that the environment names or that lie in the usual
// directories, which may belong to another network namespace. None is connected to.
func (s *Scanner) findSockets() (list []string) {
	var candidates []string
	if data, err := os.ReadFile("/proc/net/unix"); err == nil {
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) > 7 && fields[7][0] == '/' {
				candidates = append(candidates, strings.Join(fields[7:], " "))
			}
		}
	}
	for _, name := range []string{"SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "TMUX", "NOTIFY_SOCKET", "WAYLAND_DISPLAY"} {
		v, _ := s.Facts.Getenv(name)
		v = strings.TrimPrefix(strings.TrimPrefix(v, "unix:path="), "unix://")
		if i := strings.IndexByte(v, ','); i >= 0 {
			v = v[:i]
		}
		candidates = append(candidates, v)
	}
	for _, dir := range []string{"/run", "/run/podman", "/run/dbus", "/run/containerd", "/tmp", s.Facts.RuntimeDir, s.Facts.RuntimeDir + "/gnupg", s.Facts.RuntimeDir + "/podman",
		"/tmp/tmux-" + strconv.Itoa(s.Facts.UID), s.Facts.Home + "/.codex/app-server-control"} {
		if entries, err := os.ReadDir(dir); err == nil {
			for _, e := range entries[:min(len(entries), 1000)] {
				if e.Type()&os.ModeSocket != 0 || e.Type()&os.ModeSymlink != 0 {
					candidates = append(candidates, dir+"/"+e.Name())
				}
			}
		}
	}
	seen := map[resolve.FileID]bool{}
	for _, path := range candidates {
		var st unix.Stat_t
		// Below /proc a name leads elsewhere for every process.
		if path == "" || path[0] != '/' || within(path, "/proc") || s.Own != "" && strings.Contains(path, "/"+s.Own) || unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || unix.Faccessat2(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS) != nil {
			continue
		}
		id := resolve.FileID{Dev: st.Dev, Ino: st.Ino}
		if !seen[id] {
			seen[id] = true
			list = append(list, path)
		}
	}
	slices.SortFunc(list, func(a, b string) int {
		if (known(a) == "") != (known(b) == "") {
			return strings.Compare(known(b), known(a)) // those that are known first
		}
		return strings.Compare(a, b)
	})
	return list
}

// reach are the sockets within reach of a program: all of them below ABI 9, and from
// there on those that a rule grants.
func (s *Scanner) reach(b *resolve.Boundary, abi int) (list []Finding) {
	count := 0
	for _, path := range s.sockets() {
		if abi >= 9 {
			if e, err := b.Explain(path); err != nil || e.By(resolve.Connect) == nil {
				continue
			}
		}
		if count++; count <= maxSockets {
			list = append(list, of(SocketInReach, path, known(path)))
		}
	}
	if count > maxSockets {
		list = append(list, of(SocketInReach, "/", fmt.Sprintf("and %d more", count-maxSockets)))
	}
	return list
}

func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimRight(dir, "/")+"/")
}
