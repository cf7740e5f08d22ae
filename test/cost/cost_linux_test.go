package cost

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/confinectl/confinectl/test/testenv"
)

// cost is what a start did. Bytes are those beyond the profiles, each of which
// is read once.
type cost struct{ calls, opened, bytes, rules int }

// The numbers that are held. When a start comes to do less, lower them:
// `go test -v` says where there is room.
var (
	// base is a profile with the permit path and runtime = "none", and a static
	// command. The bytes are the beginning of the command, with its ELF headers.
	base = cost{calls: 44, opened: 4, bytes: 1024, rules: 2}

	// capabilities are the calls that give up capabilities: one for each, get and set.
	capabilities = 12

	// each is what one more of a thing adds.
	each = map[string]cost{
		"path to read":     {calls: 5, opened: 1, rules: 1},
		"extra subpath":    {calls: 5, opened: 1, rules: 1},
		"level of extends": {calls: 7, opened: 1},
		"drop-in":          {calls: 6, opened: 1},
		"other profile":    {}, // in the same directory: nothing looks at it
	}

	// The built-in profile workspace has a boundary that differs from host to host, because
	// the runtime read set does. What does not: the calls that are no steps of a walk, without those
	// of the rules, and the steps that were made before in the same start.
	workspaceCalls, workspaceRule, workspaceAgain = 29, 4, 0
)

// steps are the calls that walk a path.
var steps = []string{"newfstatat", "fstatat64", "statx", "lstat", "stat", "readlink", "readlinkat"}

// ofTheRuntime are the calls of the Go runtime and of package os at their own
// start: threads and their scheduling, memory, signals, the poller, the limit of open files.
// How many there are is a matter of the scheduler and of the version of Go.
var ofTheRuntime = regexp.MustCompile(`^(futex|sched_\w+|nanosleep|clock_\w+|clone3?|gettid|getpid|tgkill|restart_syscall|epoll_\w+|eventfd2|pipe2|` +
	`mmap|munmap|madvise|mprotect|mincore|brk|arch_prctl|set_tid_address|set_robust_list|rseq|getrandom|` +
	`rt_\w+|sigaltstack|prlimit64|setrlimit|prctl\(PR_SET_VMA|fcntl\([012]<|\w+\(\d+<anon_inode:\[event)`)

// readByTheRuntime are the files that the Go runtime reads at its start, for
// the size of huge pages and the number of processors.
var readByTheRuntime = regexp.MustCompile(`/sys/kernel/mm/transparent_hugepage/hpage_pmd_size|/proc/(self|\d+)/(cgroup|mountinfo)|/sys/fs/cgroup/[^"<>]*cpu`)

var ofCapabilities = regexp.MustCompile(`^(capget|capset|prctl\(PR_CAP)`)

// stepArgs is what the kernel fills in.
var stepArgs = regexp.MustCompile(`\{.*\}|0x[0-9a-f]+`)

var callLine = regexp.MustCompile(`^(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+|\?)`)

func TestStart(t *testing.T) {
	h := newHost(t)
	for _, uid := range h.users {
		t.Run(fmt.Sprintf("uid %d", uid), func(t *testing.T) {
			s := h.seat(t, uid)
			t.Run("one line", func(t *testing.T) {
				s.profile("p.toml", s.root())
				got := s.start("p")
				got.hold(t, base)
				if got.capabilities > capabilities {
					t.Errorf("%d calls for capabilities, at most %d", got.capabilities, capabilities)
				}
			})
			few, many := 10, 40
			for _, g := range []struct {
				name string
				make func(dir string, n int)
			}{
				{"path to read", func(dir string, n int) { s.profile(dir+"/p.toml", s.root()+s.list("read_paths", n)) }},
				{"extra subpath", func(dir string, n int) { s.profile(dir+"/p.toml", s.root()+s.list("permit_extra_subpaths", n)) }},
				{"level of extends", func(dir string, n int) {
					s.profile(dir+"/l01.toml", s.root())
					for i := 2; i <= n; i++ {
						s.profile(fmt.Sprintf("%s/l%02d.toml", dir, i), fmt.Sprintf("extends = [\"l%02d\"]\n", i-1))
					}
					s.profile(dir+"/p.toml", fmt.Sprintf("extends = [\"l%02d\"]\n", n))
				}},
				{"drop-in", func(dir string, n int) {
					s.profile(dir+"/p.toml", s.root())
					for i := range n {
						s.profile(fmt.Sprintf("%s/p.d/%02d.toml", dir, i), "private_tmp = false\n")
					}
				}},
				{"other profile", func(dir string, n int) {
					s.profile(dir+"/p.toml", s.root())
					for i := range n {
						s.profile(fmt.Sprintf("%s/n%02d.toml", dir, i), s.root())
					}
				}},
			} {
				t.Run(g.name, func(t *testing.T) {
					name := strings.ReplaceAll(g.name, " ", "-")
					g.make(name+"-few", few)
					g.make(name+"-many", many)
					a, b := s.start(name+"-few/p"), s.start(name+"-many/p")
					b.per(t, many-few, a).hold(t, each[g.name])
				})
			}
			t.Run("workspace", func(t *testing.T) {
				rules, got := s.rules("workspace"), s.start("")
				if got.rules != len(rules) {
					t.Errorf("%d rules added, %d shown", got.rules, len(rules))
				}
				for _, r := range rules {
					if i := slices.IndexFunc(rules, r.within); i >= 0 {
						t.Errorf("%s is granted as much by the rule of %s", r.path, rules[i].path)
					}
				}
				if n, most := got.calls-got.steps, workspaceCalls+workspaceRule*got.rules; n > most {
					t.Errorf("%d calls besides walking, at most %d for %d rules; all calls: %s", n, most, got.rules, got.list())
				}
				if got.again > workspaceAgain {
					t.Errorf("%d steps of walks were made before, at most %d", got.again, workspaceAgain)
				}
			})
		})
	}
}

// host is what all starts share.
type host struct {
	strace, dir string
	users       []int
}

// newHost builds confinectl and a static command in a directory of a fixed
// depth, because every component of a path costs a call. It is always a normal build: the
// race detector makes calls of its own.
func newHost(t *testing.T) *host {
	t.Helper()
	testenv.LookAtSources(t)
	h := &host{users: []int{os.Getuid()}}
	if h.users[0] == 0 {
		h.users = append(h.users, 1000)
	}
	var err error
	h.strace, err = exec.LookPath("strace")
	testenv.Need(t, err == nil, "strace, which counts")
	h.dir, err = os.MkdirTemp("/tmp", "cost")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(h.dir) })
	source := filepath.Join(h.dir, "command.go")
	h.check(t, os.Chmod(h.dir, 0o755))
	h.check(t, os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644))
	for _, b := range [][2]string{{"confinectl", "github.com/confinectl/confinectl/cmd/confinectl"}, {"command", source}} {
		cmd := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(h.dir, b[0]), b[1])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build %s: %v\n%s", b[1], err, out)
		}
	}
	return h
}

func (h *host) check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seat is one user with a directory of his own:
//
//	work/          the permit path
//	paths/00 …     what else is granted
//	cfg/           profiles
//	home/ tmp/     $HOME, $TMPDIR
type seat struct {
	*host
	t   *testing.T
	uid int
	dir string
}

func (h *host) seat(t *testing.T, uid int) *seat {
	s := &seat{host: h, t: t, uid: uid, dir: filepath.Join(h.dir, strconv.Itoa(uid))}
	for _, d := range []string{"", "work", "paths", "cfg", "home", "tmp", "trace"} {
		s.mkdir(d)
	}
	for i := range 100 {
		s.mkdir(fmt.Sprintf("paths/%02d", i))
	}
	s.profile("p.toml", s.root())
	out, err := s.command(filepath.Join(h.dir, "confinectl"), "exec", "--profile-dir", s.path("cfg"), "p", "--", filepath.Join(h.dir, "command")).CombinedOutput()
	testenv.Need(t, !bytes.Contains(out, []byte("arm-missing")) && !bytes.Contains(out, []byte("abi-below-floor")), "Landlock that is new enough: "+string(out))
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

func (s *seat) path(name string) string { return filepath.Join(s.dir, name) }

func (s *seat) mkdir(name string) {
	s.check(s.t, os.MkdirAll(s.path(name), 0o755))
	s.check(s.t, os.Chown(s.path(name), s.uid, s.uid))
}

// root is the one line that every boundary here has.
func (s *seat) root() string {
	return fmt.Sprintf("permit_path = %q\nruntime = \"none\"\n", s.path("work"))
}

func (s *seat) list(key string, n int) string {
	text := key + " = [\n"
	for i := range n {
		text += fmt.Sprintf("%q,\n", s.path(fmt.Sprintf("paths/%02d", i)))
	}
	return text + "]\n"
}

func (s *seat) profile(name, text string) {
	file := s.path("cfg/" + name)
	s.check(s.t, os.MkdirAll(filepath.Dir(file), 0o755))
	s.check(s.t, os.WriteFile(file, []byte(text), 0o644))
}

func (s *seat) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = s.path("work")
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.path("home"), "TMPDIR=" + s.path("tmp")}
	if s.uid != os.Getuid() {
		id := uint32(s.uid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id, Groups: []uint32{}}}
	}
	return cmd
}

// measured is a cost with what it is made of.
type measured struct {
	cost
	capabilities int
	steps, again int            // of walks; those that were made before
	names        map[string]int // system calls by name
	made         map[string]bool
}

// start runs the command in a profile, PROFILE or DIR/PROFILE below cfg/, or in workspace
// when none is named, under strace, and counts. It takes the least of three: what the Go runtime does
// at its own times is not known in full.
func (s *seat) start(profile string) measured {
	s.t.Helper()
	least := s.startOnce(profile)
	for range 2 {
		if m := s.startOnce(profile); m.calls < least.calls {
			least = m
		}
	}
	return least
}

func (s *seat) startOnce(profile string) measured {
	s.t.Helper()
	confinectl, command := filepath.Join(s.host.dir, "confinectl"), filepath.Join(s.host.dir, "command")
	argv := []string{confinectl, "exec", "workspace", "--", command}
	if profile != "" {
		argv = []string{confinectl, "exec", "--profile-dir", filepath.Dir(s.path("cfg/" + profile)), filepath.Base(profile), "--", command}
	}
	s.check(s.t, os.RemoveAll(s.path("trace")))
	s.mkdir("trace")
	// A file for each thread: no line is broken up by another thread's.
	out, err := s.command(append([]string{s.strace, "-ff", "-y", "-s", "0", "-o", s.path("trace/t")}, argv...)...).CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("ptrace")) {
		testenv.Need(s.t, false, "strace that may trace: "+string(out))
	}
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	files, err := filepath.Glob(s.path("trace/t.*"))
	s.check(s.t, err)
	m, reached := measured{names: map[string]int{}, made: map[string]bool{}}, false
	read := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		s.check(s.t, err)
		for line := range strings.Lines(string(text)) {
			// What follows is the command's, also where another thread than the first one executed it.
			if strings.HasPrefix(line, "+++ superseded") {
				break
			}
			if strings.HasPrefix(line, `execve("`+command+`"`) {
				reached = true
				break
			}
			if !strings.HasPrefix(line, `execve("`+confinectl+`"`) {
				m.count(strings.TrimSpace(line), read)
			}
		}
	}
	if !reached {
		s.t.Fatalf("the trace does not reach the command:\n%s", out)
	}
	for path, n := range read {
		if !strings.HasPrefix(path, s.path("cfg")) {
			m.bytes += n
			continue
		}
		if st, err := os.Stat(path); err != nil || int64(n) > st.Size() {
			s.t.Errorf("%s is read more than once: %d bytes", path, n)
		}
	}
	return m
}

// count takes in one line of strace. read holds the bytes by file.
func (m *measured) count(line string, read map[string]int) {
	call := callLine.FindStringSubmatch(line)
	if call == nil || ofTheRuntime.MatchString(line) || readByTheRuntime.MatchString(line) {
		return
	}
	name, result := call[1], call[3]
	n, err := strconv.Atoi(result)
	switch {
	case ofCapabilities.MatchString(line):
		m.capabilities++
		return
	case strings.Contains(line, "ERESTART"): // was interrupted and is made again
		return
	case err == nil && n >= 0 && slices.Contains([]string{"open", "openat", "openat2", "creat"}, name):
		m.opened++
	case err == nil && n > 0 && slices.Contains([]string{"read", "pread64", "readv", "preadv", "getdents64"}, name):
		_, path, _ := strings.Cut(call[2], "<")
		path, _, _ = strings.Cut(path, ">")
		read[path] += n
	case name == "landlock_add_rule":
		m.rules++
	case slices.Contains(steps, name):
		m.steps++
		step := name + stepArgs.ReplaceAllString(call[2], "")
		if m.made[step] {
			m.again++
		}
		m.made[step] = true
	}
	m.calls++
	m.names[name]++
}

// per is what one of n more things costs. The figures must be whole multiples,
// or the cost is not linear.
func (m measured) per(t *testing.T, n int, less measured) measured {
	t.Helper()
	d := measured{names: map[string]int{}}
	share := func(what string, a, b int) int {
		if (a-b)%n != 0 {
			t.Errorf("%s: %d and then %d for %d more: not the same for each", what, b, a, n)
		}
		return (a - b) / n
	}
	d.cost = cost{share("system calls", m.calls, less.calls), share("files opened", m.opened, less.opened), share("bytes read", m.bytes, less.bytes), share("rules", m.rules, less.rules)}
	for name := range m.names {
		d.names[name] = share(name, m.names[name], less.names[name])
	}
	return d
}

// hold fails for each figure that is more than it may be, and says which
// calls there are.
func (m measured) hold(t *testing.T, most cost) {
	t.Helper()
	for _, f := range []struct {
		what      string
		got, most int
	}{
		{"system calls", m.calls, most.calls}, {"files opened", m.opened, most.opened}, {"bytes read", m.bytes, most.bytes}, {"rules added", m.rules, most.rules},
	} {
		switch {
		case f.got > f.most:
			t.Errorf("%s: %d, at most %d; all calls: %s", f.what, f.got, f.most, m.list())
		case f.got < f.most:
			t.Logf("%s: %d; %d are held", f.what, f.got, f.most)
		}
	}
}

func (m measured) list() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(m.names)) {
		if m.names[name] != 0 {
			list = append(list, fmt.Sprintf("%s %d", name, m.names[name]))
		}
	}
	return strings.Join(list, ", ")
}

// rule is a line of `confinectl show --text`.
type rule struct {
	path   string
	rights []string
}

func (s *seat) rules(profile string) []rule {
	s.t.Helper()
	out, err := s.command(filepath.Join(s.host.dir, "confinectl"), "show", "--text", profile, "--", filepath.Join(s.host.dir, "command")).Output()
	s.check(s.t, err)
	var rules []rule
	for line := range strings.Lines(string(out)) {
		if text, is := strings.CutPrefix(line, "path_beneath "); is {
			path, rights, _ := strings.Cut(text, ": ")
			rules = append(rules, rule{path, strings.Fields(rights)})
		}
	}
	return rules
}

// within reports whether another rule grants all that this one does.
func (r rule) within(wider rule) bool {
	return strings.HasPrefix(r.path, wider.path+"/") && !slices.ContainsFunc(r.rights, func(right string) bool { return !slices.Contains(wider.rights, right) })
}
