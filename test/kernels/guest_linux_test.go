package kernels

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/test/testenv"
)

// documented is what Documentation/userspace-api/landlock.rst and linux/landlock.h
// say of each ABI: the release it came with, and how many access rights, scopes and flags of
// landlock_restrict_self(2) it knows. Rights are numbered from 0 without a
// gap, so a count is a set.
var documented = []struct {
	abi                    int
	linux                  string
	fs, net, scopes, flags int
}{
	{1, "5.13", 13, 0, 0, 0},
	{2, "5.19", 14, 0, 0, 0}, // FS_REFER
	{3, "6.2", 15, 0, 0, 0},  // FS_TRUNCATE
	{4, "6.7", 15, 2, 0, 0},  // NET_BIND_TCP, NET_CONNECT_TCP
	{5, "6.10", 16, 2, 0, 0}, // FS_IOCTL_DEV
	{6, "6.12", 16, 2, 2, 0}, // SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL
	{7, "6.15", 16, 2, 2, 3}, // three flags for audit records
	{8, "7.0", 16, 2, 2, 4},  // TSYNC
	{9, "7.1", 17, 2, 2, 4},  // FS_RESOLVE_UNIX
	{10, "7.2", 17, 4, 2, 4}, // NET_BIND_UDP, NET_CONNECT_SEND_UDP
	{11, "7.3", 17, 4, 2, 5}, // NO_NEW_PRIVS
}

// newest is the newest ABI of the table. A kernel that has more is used at this one.
const newest = 11

// row is one attempt by a confined program, and what must come of it: before
// below ABI since, verdict from it on. Unconfined each must be "ok".
type row struct {
	name, about string
	since       int
	before      string
	verdict     string
	alias       bool // only where the file system has a second name: see aliasOf
	effect      bool // "ok" changes out/NAME, and anything else does not
	try         func(a *attempt) error
}

const (
	ok     = "ok"
	always = 0
)

// rows is the table by ABI. What has no ABI is confined, or open, at each of them.
var rows = []row{
	{name: "write", about: "append to a file outside", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return write(a.out("write"), 0) }},
	{name: "dotdot", about: "the same by way of ..", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return write(a.in("../out/dotdot"), 0) }},
	{name: "symlink", about: "the same through a symlink inside", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return write(a.in("link"), 0) }},
	{name: "procroot", about: "the same through /proc/self/root", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return write("/proc/self/root"+a.out("procroot"), 0) }},
	{name: "open-truncate", about: "empty a file outside with O_TRUNC", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return write(a.out("open-truncate"), unix.O_TRUNC) }},
	{name: "create", about: "make a file outside", verdict: "EACCES",
		try: func(a *attempt) error { return write(a.out("new-file"), unix.O_CREAT|unix.O_EXCL) }},
	{name: "mkdir", about: "make a directory outside", verdict: "EACCES",
		try: func(a *attempt) error { return unix.Mkdir(a.out("new-directory"), 0o755) }},
	{name: "unlink", about: "remove a file outside", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return unix.Unlink(a.out("unlink")) }},
	{name: "read", about: "read a file outside", verdict: "EACCES",
		try: func(a *attempt) error { return read(a.out("read"), 0) }},
	{name: "list", about: "list a directory outside", verdict: "EACCES",
		try: func(a *attempt) error { return read(a.out(""), unix.O_DIRECTORY) }},
	{name: "rename-out", about: "rename a file from inside over one outside", since: 2, before: "EACCES|EXDEV", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return unix.Rename(a.in("a/rename-out"), a.out("rename-out")) }},
	{name: "rename-in", about: "rename a file from outside into the permit path", since: 2, before: "EACCES|EXDEV", verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return unix.Rename(a.out("rename-in"), a.in("b/rename-in")) }},
	{name: "link-in", about: "hard link inside to a file outside", since: 2, before: "EXDEV", verdict: "EXDEV",
		try: func(a *attempt) error { return unix.Link(a.out("link-in"), a.in("b/link-in")) }},
	{name: "rename-inside", about: "rename a file between two directories inside", since: 2, before: "EXDEV", verdict: ok,
		try: func(a *attempt) error { return unix.Rename(a.in("a/rename-inside"), a.in("b/rename-inside")) }},
	{name: "link-inside", about: "hard link between two directories inside", since: 2, before: "EXDEV", verdict: ok,
		try: func(a *attempt) error { return unix.Link(a.in("a/link-inside"), a.in("b/link-inside")) }},
	{name: "truncate", about: "truncate(2) of a file outside", since: 3, before: ok, verdict: "EACCES", effect: true,
		try: func(a *attempt) error { return unix.Truncate(a.out("truncate"), 0) }},
	{name: "ioctl", about: "ioctl(2) on a device opened inside (RNDGETENTCNT on /dev/urandom)", since: 5, before: ok, verdict: "EACCES",
		try: func(*attempt) error { return entropy() }},
	{name: "abstract", about: "abstract socket of a server outside", since: 6, before: ok, verdict: "EPERM",
		try: func(a *attempt) error { return ask(unix.AF_UNIX, &unix.SockaddrUnix{Name: "@" + a.dir}) }},
	{name: "signal", about: "signal to a process outside", since: 6, before: ok, verdict: "EPERM",
		try: func(*attempt) error {
			pid, err := strconv.Atoi(os.Getenv(envPID))
			if err != nil {
				return err
			}
			return unix.Kill(pid, unix.SIGUSR1)
		}},
	{name: "socket", about: "pathname socket of a server outside", since: 9, before: ok, verdict: "EACCES",
		try: func(a *attempt) error { return ask(unix.AF_UNIX, &unix.SockaddrUnix{Name: a.out("outside.sock")}) }},
	{name: "socket-listed", about: "one that unix_sockets names", verdict: ok,
		try: func(a *attempt) error { return ask(unix.AF_UNIX, &unix.SockaddrUnix{Name: a.out("listed.sock")}) }},
	{name: "socket-permit", about: "pathname socket in the permit path, of a server outside", verdict: ok,
		try: func(a *attempt) error { return ask(unix.AF_UNIX, &unix.SockaddrUnix{Name: a.in("inside.sock")}) }},
	{name: "socket-own", about: "a server of one's own, inside", verdict: ok,
		try: func(a *attempt) error { return serveInside(a.in("own.sock")) }},
	{name: "signal-own", about: "signal to a child of one's own", verdict: ok,
		try: func(*attempt) error { return signalChild() }},
	{name: "tcp", about: "a server on the loopback: the network is not confined", verdict: ok,
		try: func(*attempt) error {
			port, err := strconv.Atoi(os.Getenv(envPort))
			if err != nil {
				return err
			}
			return ask(unix.AF_INET, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		}},
	{name: "metadata", about: "chmod of a file outside: never confined", verdict: ok,
		try: func(a *attempt) error { return unix.Chmod(a.out("metadata"), 0o600) }},
	{name: "stat", about: "stat of a file outside: never confined", verdict: ok,
		try: func(a *attempt) error { return unix.Stat(a.out("stat"), new(unix.Stat_t)) }},
	{name: "inside", about: "make, read back and remove a file inside", verdict: ok,
		try: func(a *attempt) error {
			return errors.Join(write(a.in("inside"), unix.O_CREAT), read(a.in("inside"), 0), unix.Unlink(a.in("inside")))
		}},
	{name: "alias-out", about: "a file outside by the other name of its file system", verdict: "EACCES", alias: true,
		try: func(*attempt) error { return write(os.Getenv(envAlias)+"/out/alias-out", 0) }},
	{name: "alias-in", about: "a file inside by the other name of its file system", verdict: ok, alias: true,
		try: func(*attempt) error { return write(os.Getenv(envAlias)+"/in/alias-in", unix.O_CREAT) }},
}

// aliasOf are the file systems with a second name. A bind mount shows the same
// directories, so a rule on one name holds for the other; the layer below an overlay is
// another file system, so a file of the permit path is outside by that name.
var aliasOf = map[string]string{"bind": ok, "overlay": "EACCES"}

// wants is what must come of a row on a file system, at the ABI that confinectl uses.
func (r *row) wants(file string, abi int) string {
	switch {
	case r.name == "alias-in":
		return aliasOf[file]
	case abi < r.since:
		return r.before
	}
	return r.verdict
}

// place is a file system to measure on.
type place struct{ name, dir, alias string }

// places are those of the guest, or the temporary directory of this host.
func places(t *testing.T) []place {
	t.Helper()
	given := os.Getenv(envPlaces)
	if given == "" {
		return []place{{name: "here", dir: t.TempDir()}}
	}
	var all []place
	for _, p := range strings.Split(given, ",") {
		f := strings.Split(p+"=", "=")
		all = append(all, place{f[0], f[1], f[2]})
	}
	return all
}

// used is the ABI that confinectl has to use here, 0 where there is none: what the
// kernel offers, at most the newest known, and 5 where erratum 2 is not fixed.
func used() int {
	abi, err := landlockABI()
	if err != 0 {
		return 0
	}
	if errata, err := landlockErrata(); abi >= 6 && (err != 0 || errata&2 == 0) {
		return 5
	}
	return min(abi, newest)
}

// needABI ends a test of what came to Landlock with this ABI, where the kernel has it not. Only
// a lane that is for an older kernel skips it; in any other, and on any other host, it is missing.
func needABI(t *testing.T, abi int, what string) {
	t.Helper()
	offered, _ := landlockABI() // -1 where there is none
	lane := os.Getenv(envABI)
	meant, _ := strconv.Atoi(strings.TrimSuffix(lane, "+")) // 0 for none and off
	if offered < abi && lane != "" && meant < abi {
		t.Skip("this lane's kernel is meant to be without " + what)
	}
	testenv.Need(t, offered >= abi, what+" in its kernel")
}

func needLandlock(t *testing.T) {
	t.Helper()
	needABI(t, 1, "Landlock")
}

// built is confinectl, built once; [TestMain] removes it.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kernels")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "confinectl")
	build := exec.Command("go", "build", "-o", name, "github.com/confinectl/confinectl/cmd/confinectl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return name, fmt.Errorf("build confinectl: %w\n%s", err, out)
	}
	return name, nil
})

// confinectl is the binary to test.
func confinectl(t *testing.T) string {
	t.Helper()
	if given := os.Getenv(envBinary); given != "" {
		return given
	}
	testenv.LookAtSources(t)
	name, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// result is what a command came to.
type result struct {
	status         int
	stdout, stderr string
}

// run runs a command, below another Landlock where fake is not empty.
func run(t *testing.T, environ []string, fake string, argv ...string) result {
	t.Helper()
	if fake != "" {
		argv = slices.Concat([]string{"/proc/self/exe"}, strings.Fields(fake), []string{"--"}, argv)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = environ
	if fake != "" {
		cmd.Env = append(cmd.Env, envRole+"=fakeabi")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// refusal is the code and the text of the one refusal that a command printed.
func (r result) refusal() (code, text string) {
	for line := range strings.Lines(r.stderr) {
		if rest, found := strings.CutPrefix(line, "confinectl: refused: "); found {
			code, text, _ = strings.Cut(strings.TrimSpace(rest), ": ")
			return code, text
		}
	}
	return "", ""
}

// report decodes the JSON document that a command printed.
func (r result) report(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		t.Fatalf("status %d: %v\n%s%s", r.status, err, r.stdout, r.stderr)
	}
}

// profile writes one; floor 0 writes none.
func (fx *fixture) profile(t *testing.T, name string, floor int) {
	t.Helper()
	text := fmt.Sprintf("permit_path = %q\nunix_sockets = [%q]\n", fx.path("in"), fx.path("out/listed.sock"))
	if floor > 0 {
		text += fmt.Sprintf("[linux]\nmin_abi = %d\n", floor)
	}
	if err := os.WriteFile(fx.path("prof", name+".toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fresh(t *testing.T, p place) *fixture {
	t.Helper()
	fx, err := build(p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fx.end)
	return fx
}

// verdicts runs every row in one launch, and compares what the attempts
// report with what happened to the files outside.
func (fx *fixture) verdicts(t *testing.T, argv ...string) map[string]string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, fx.environ(), "", append(argv, self)...)
	if r.status != 0 {
		t.Fatalf("%v: status %d\n%s%s", argv, r.status, r.stdout, r.stderr)
	}
	got := map[string]string{}
	for line := range strings.Lines(r.stdout) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VERDICT" {
			got[f[1]] = f[2]
		}
	}
	for _, row := range rows {
		if !row.effect {
			continue
		}
		content, err := os.ReadFile(fx.path("out", row.name))
		changed := err != nil || string(content) != "original\n" && row.name != "rename-out" || row.name == "rename-out" && !exists(fx.path("in/a/rename-out"))
		if changed != (got[row.name] == ok) {
			t.Errorf("%s reports %s, and the file outside: changed %v", row.name, got[row.name], changed)
		}
	}
	// Package os/signal hands a signal on a moment after it came.
	signalled, patience := false, 50*time.Millisecond
	if got["signal"] == ok {
		patience = 10 * time.Second
	}
	select {
	case <-fx.signals:
		signalled = true
	case <-time.After(patience):
	}
	if signalled != (got["signal"] == ok) {
		t.Errorf("signal reports %s, and one came: %v", got["signal"], signalled)
	}
	return got
}

func exists(path string) bool { return unix.Lstat(path, new(unix.Stat_t)) == nil }

// TestKernel compares what the kernel says with what this lane is for, and with
// what confinectl makes of it.
func TestKernel(t *testing.T) {
	abi, errata := kernelSays()
	t.Logf("%s: Landlock %s, errata %s", release(), abi, errata)
	switch want := os.Getenv(envABI); {
	case want == "":
	case strings.HasSuffix(want, "+"):
		least, err := strconv.Atoi(strings.TrimSuffix(want, "+"))
		if n, _ := strconv.Atoi(abi); err != nil || n < least {
			t.Errorf("the kernel says %s, this lane is for %s", abi, want)
		}
	case want != abi:
		t.Errorf("the kernel says %s, this lane is for %s", abi, want)
	}
	var facts struct {
		Host struct {
			Kernel, Arm, Lowered string
			ABI                  int
			Offered              int `json:"offered_abi"`
			Errata               int
			Missing              *struct{ Code string }
		}
	}
	run(t, os.Environ(), "", confinectl(t), "facts", "--json").report(t, &facts)
	h := facts.Host
	offered, _ := landlockABI()
	fixed, err := landlockErrata()
	if err != 0 {
		fixed = 0
	}
	if used() == 0 {
		if h.Arm != "" || h.ABI != 0 || h.Missing == nil || h.Missing.Code != "arm-missing" {
			t.Errorf("facts: %+v", h)
		}
		return
	}
	if h.Kernel != release() || h.Arm != "landlock" || h.Offered != offered || h.ABI != used() || h.Errata != fixed || (h.Lowered != "") != (offered != used()) {
		t.Errorf("facts: %+v, the kernel offers %d, to be used as %d, errata %#x", h, offered, used(), fixed)
	}
}

// TestSurface holds the table of the documentation against the kernel: it takes every
// right, scope and flag that its ABI has, and none more.
func TestSurface(t *testing.T) {
	needLandlock(t)
	abi, _ := landlockABI()
	if abi > newest {
		t.Logf("ABI %d is newer than the table: only what ABI %d has is asked for", abi, newest)
	}
	d := documented[min(abi, newest)-1]
	if d.abi != min(abi, newest) {
		t.Fatal("BUG: the table has a gap")
	}
	create := func(attr ll.RulesetAttr) bool {
		fd, err := ll.LandlockCreateRuleset(&attr, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err == nil
	}
	count := func(what string, want int, accepts func(i int) bool) {
		for i := range 20 {
			switch got := accepts(i); {
			case !got && i < want:
				t.Errorf("%s %d is refused, ABI %d has %d of them", what, i, d.abi, want)
			case got && i >= want && abi <= newest:
				t.Errorf("%s %d is accepted, ABI %d has %d of them", what, i, d.abi, want)
			}
		}
	}
	count("filesystem right", d.fs, func(i int) bool { return create(ll.RulesetAttr{HandledAccessFS: 1 << i}) })
	count("network right", d.net, func(i int) bool { return create(ll.RulesetAttr{HandledAccessFS: 1, HandledAccessNet: 1 << i}) })
	count("scope", d.scopes, func(i int) bool { return create(ll.RulesetAttr{HandledAccessFS: 1, Scoped: 1 << i}) })
	// With a bad descriptor: EBADF comes after the flags were judged. Alone LOG_SUBDOMAINS_OFF
	// may come without one, as -1.
	count("flag of restrict_self", d.flags, func(i int) bool {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil && i == 0 {
			t.Error(err)
		}
		return errors.Is(ll.LandlockRestrictSelf(1<<20, 1<<i), unix.EBADF)
	})
}

// TestErratum compares the errata that the kernel calls fixed with what it does.
func TestErratum(t *testing.T) {
	needABI(t, 6, "the signal scope")
	errata, err := landlockErrata()
	want := "VERDICT thread ok\n"
	if err != 0 || errata&2 == 0 {
		want = "VERDICT thread EPERM\n"
	}
	r := run(t, append(os.Environ(), envRole+"=erratum"), "", "/proc/self/exe")
	if r.stdout != want {
		t.Errorf("errata %#x: %s%s, want %s", errata, r.stdout, r.stderr, want)
	}
}

// TestBoundary runs the table on every file system.
func TestBoundary(t *testing.T) {
	needLandlock(t)
	binary, abi := confinectl(t), used()
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			control := fresh(t, p).verdicts(t)
			fx := fresh(t, p)
			fx.profile(t, "p", abi)
			got := fx.verdicts(t, binary, "exec", "--profile-dir", fx.path("prof"), "p", "--")
			for _, r := range rows {
				t.Run(r.name, func(t *testing.T) {
					if r.alias && fx.alias == "" {
						return // one name only
					}
					if control[r.name] != ok {
						t.Fatalf("%s: unconfined it is %s", r.about, control[r.name])
					}
					if want := r.wants(p.name, abi); !slices.Contains(strings.Split(want, "|"), got[r.name]) {
						t.Errorf("%s: %s, want %s at ABI %d", r.about, got[r.name], want, abi)
					}
				})
			}
		})
	}
}

// measured are the verdicts on the first file system.
func measured(t *testing.T, binary string) map[string]string {
	t.Helper()
	fx := fresh(t, places(t)[0])
	fx.profile(t, "p", used())
	return fx.verdicts(t, binary, "exec", "--profile-dir", fx.path("prof"), "p", "--")
}

var belowABI = regexp.MustCompile(`^below ABI ([0-9]+), which this floor accepts, `)

var abiNumber = regexp.MustCompile(`ABI ([0-9]+)`)

// abisOf are the ABIs that lines of show speak of.
func abisOf(t *testing.T, lines []string) (abis []int) {
	t.Helper()
	for _, line := range lines {
		m := abiNumber.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("%q names no ABI", line)
			continue
		}
		n, _ := strconv.Atoi(m[1])
		abis = append(abis, n)
	}
	return abis
}

// TestShow compares what show calls guaranteed, added by this host and open
// with what was measured here.
func TestShow(t *testing.T) {
	needLandlock(t)
	binary := confinectl(t)
	got := measured(t, binary)
	confined, open := []int{1}, []int{} // by ABI: the row "write" and its like stand for 1
	for _, r := range rows {
		switch {
		case r.since == always || r.before != ok:
		case got[r.name] == ok:
			open = append(open, r.since)
		default:
			confined = append(confined, r.since)
		}
	}
	slices.Sort(confined)
	slices.Sort(open)
	confined, open = slices.Compact(confined), slices.Compact(open)
	fx := fresh(t, places(t)[0])
	for floor := 1; floor <= used(); floor++ {
		fx.profile(t, "p", floor)
		var show struct {
			Guaranteed []string
			Added      []string `json:"added_by_host"`
			Open       []string
		}
		run(t, os.Environ(), "", binary, "show", "--json", "--profile-dir", fx.path("prof"), "p").report(t, &show)
		// What the floor gives up is said beside what is open here.
		var lost, given []int
		show.Open = slices.DeleteFunc(show.Open, func(line string) bool {
			m := belowABI.FindStringSubmatch(line)
			if m != nil {
				n, _ := strconv.Atoi(m[1])
				given = append(given, n)
			}
			return m != nil
		})
		for _, r := range rows {
			if r.since > floor && (r.since == 3 || r.since == 2 && r.verdict == ok) {
				lost = append(lost, r.since)
			}
		}
		slices.Sort(lost)
		slices.Sort(given)
		if lost = slices.Compact(lost); !slices.Equal(given, lost) {
			t.Errorf("min_abi = %d gives up what ABI %v brought, and show names %v", floor, lost, given)
		}
		split := len(confined)
		for i, since := range confined {
			if since > floor {
				split = i
				break
			}
		}
		for _, c := range []struct {
			what  string
			lines []string
			want  []int
		}{{"guaranteed", show.Guaranteed, confined[:split]}, {"added by this host", show.Added, confined[split:]}, {"open", show.Open, open}} {
			if abis := abisOf(t, c.lines); !slices.Equal(abis, c.want) {
				t.Errorf("min_abi = %d: %s: %q, measured are the ABIs %v", floor, c.what, c.lines, c.want)
			}
		}
	}
}

// missing are the three forms of arm-missing.
var missing = []struct{ errno, says string }{
	{"ENOSYS", "this kernel was built without Landlock"},
	{"EOPNOTSUPP", "disabled at boot: lsm= does not list it"},
	{"EPERM", "blocked, as by the seccomp filter of a container"},
}

// TestRefusals tries every floor, and every way in which there can be no arm: as
// the kernel of this lane is, and as fakeabi makes it look.
func TestRefusals(t *testing.T) {
	binary, abi := confinectl(t), used()
	offered, errno := landlockABI()
	fx := fresh(t, places(t)[0])
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exec := func(fake, profile string) result {
		r := run(t, fx.environ(), fake, binary, "exec", "--profile-dir", fx.path("prof"), profile, "--", self)
		if ran := strings.Contains(r.stdout, "VERDICT"); ran != (r.status == 0) {
			t.Errorf("%s %s: status %d, and the command ran: %v", fake, profile, r.status, ran)
		}
		return r
	}
	check := func(fake, profile string) result {
		return run(t, fx.environ(), fake, binary, "check", "--no-measure", "--json", "--profile-dir", fx.path("prof"), profile)
	}
	// same holds check to what exec did.
	same := func(t *testing.T, fake, profile, code string) {
		t.Helper()
		var report struct {
			Profiles []struct {
				Status  string
				Refusal *struct{ Code string }
			}
		}
		r := check(fake, profile)
		r.report(t, &report)
		if len(report.Profiles) != 1 {
			t.Fatalf("check: %s", r.stdout)
		}
		p := report.Profiles[0]
		says := ""
		if p.Refusal != nil {
			says = p.Refusal.Code
		}
		if says != code || (r.status == 0) != (code == "") {
			t.Errorf("check ends with %d and says %s %q, exec %q", r.status, p.Status, says, code)
		}
	}
	fx.profile(t, "default", 0)
	fx.profile(t, "at", max(abi, 1))
	fx.profile(t, "above", abi+1)
	for _, m := range missing {
		t.Run("arm-missing/"+m.errno, func(t *testing.T) {
			fake := "-e " + m.errno
			if errno != 0 && unix.ErrnoName(errno) == m.errno || errno == unix.EOPNOTSUPP && m.errno == "EOPNOTSUPP" {
				fake = "" // this very kernel is of that kind
			}
			t.Logf("by the kernel itself: %v", fake == "")
			for _, profile := range []string{"default", "at", "above"} {
				r := exec(fake, profile)
				if code, text := r.refusal(); code != "arm-missing" || !strings.Contains(text, m.says) || r.status != 125 {
					t.Errorf("%s: status %d: %s", profile, r.status, r.stderr)
				}
				same(t, fake, profile, "arm-missing")
			}
		})
	}
	if abi == 0 {
		return
	}
	for _, c := range []struct {
		profile string
		floor   int
	}{{"default", 3}, {"at", abi}, {"above", abi + 1}} {
		t.Run("floor/"+c.profile, func(t *testing.T) {
			r := exec("", c.profile)
			code, text := r.refusal()
			if abi >= c.floor {
				if r.status != 0 {
					t.Errorf("status %d: %s", r.status, r.stderr)
				}
				same(t, "", c.profile, "")
				return
			}
			says := fmt.Sprintf("this kernel offers Landlock ABI %d", offered)
			if code != "abi-below-floor" || r.status != 125 || !strings.Contains(text, says) || !strings.Contains(text, strconv.Itoa(c.floor)) {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			if abi != offered && !strings.Contains(text, fmt.Sprintf("used as %d because", abi)) {
				t.Errorf("says nothing of the ABI that is used: %s", r.stderr)
			}
			same(t, "", c.profile, "abi-below-floor")
		})
	}
}

// checkRows are the rows of check that are open at some ABI, and the first that
// closes them; 0 where none does. docs/check.md has the list for people.
var checkRows = map[string]int{
	"truncate(2) of a file outside":                                      3,
	"signal a process outside":                                           6,
	"connect to an abstract socket of a process outside":                 6,
	"connect to a pathname socket of a process outside":                  9,
	"inherited descriptor that the caller passes on (0 to 2, --keep-fd)": 0,
	"metadata: chmod of a file outside":                                  0,
	"existence: stat of a file outside":                                  0,
}

// TestCheck has check measure a boundary on every file system: nothing is breached,
// and what it calls a limit is what the table says of this ABI.
func TestCheck(t *testing.T) {
	needLandlock(t)
	binary, abi := confinectl(t), used()
	for _, p := range places(t) {
		t.Run(p.name, func(t *testing.T) {
			fx := fresh(t, p)
			fx.profile(t, "p", abi)
			var report struct {
				Host     struct{ ABI int }
				Profiles []struct {
					Status, Detail string
					Probes         []struct{ Name, Verdict, Control, Detail string }
				}
			}
			r := run(t, os.Environ(), "", binary, "check", "--json", "--profile-dir", fx.path("prof"), "p")
			r.report(t, &report)
			if r.status != 0 || report.Host.ABI != abi || len(report.Profiles) != 1 || report.Profiles[0].Status != "ok" {
				t.Fatalf("status %d: %s%s", r.status, r.stdout, r.stderr)
			}
			seen := 0
			for _, row := range report.Profiles[0].Probes {
				since, open := checkRows[row.Name]
				want := "held"
				if open {
					seen++
					if since == 0 || abi < since {
						want = "limit"
					}
				}
				switch {
				case row.Verdict == want:
				case row.Verdict == "unproven" && !open:
					t.Logf("unproven: %s: control %s: %s", row.Name, row.Control, row.Detail)
				default:
					t.Errorf("%s: %s (control %s, %s), want %s at ABI %d", row.Name, row.Verdict, row.Control, row.Detail, want, abi)
				}
			}
			if seen != len(checkRows) {
				t.Errorf("%d rows of check are in the table, %d expected", seen, len(checkRows))
			}
		})
	}
}
