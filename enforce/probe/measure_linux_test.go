package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
)

var testContext = context.Background()

// noControl are rows that a host or an ordinary user may be without: what it takes is
// denied unconfined as well.
var noControl = []string{"mknod", "mount", "ptrace", "device", "tmpfile", "tmpfile-link", "execute", "rename-root"}

// Everything that the ABI of this host confines is held, and every row that is open
// is a documented limit.
func TestMeasure(t *testing.T) {
	f := newFixture(t)
	r, err := f.task("").measure()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", r.String())
	if r.Unmeasured != "" || !r.Proven() || len(r.Rows) != len(cases) {
		t.Fatal(r.Unmeasured, len(r.Rows))
	}
	expect(t, r, enforce.Probe().Used)
}

func expect(t *testing.T, r Report, abi int) {
	t.Helper()
	for _, c := range cases {
		want := Held
		if c.Documented(abi) {
			want = Limit
		}
		got := r.row(t, c.Key)
		if got.Verdict != want && (got.Verdict != Unproven || got.Control == "ok" || !slices.Contains(noControl, c.Key)) {
			t.Errorf("%s: %+v, want %s", c.Key, got, want)
		}
	}
}

// A kernel that says yes and enforces nothing: every row that writes is a breach. What
// confinectl does beside Landlock still holds.
func TestLiar(t *testing.T) {
	f := newFixture(t)
	r := f.task("").below(t, "-l")
	t.Logf("%s", r.String())
	for _, c := range cases {
		got := r.row(t, c.Key)
		if slices.Contains(noControl, c.Key) && got.Control != "ok" {
			continue
		}
		switch {
		case c.kind == write || c.kind == read && !c.Documented(enforce.Probe().Used):
			if got.Verdict != Breached {
				t.Errorf("%s: %+v, want BREACHED", c.Key, got)
			}
		case c.Key == "leaked" || c.Key == "environment":
			if got.Verdict != Held {
				t.Errorf("%s: %+v, want held", c.Key, got)
			}
		}
	}
	f.clean(t)
	entries, err := os.ReadDir(f.in)
	if err != nil || len(entries) > 0 {
		t.Errorf("the root is not what it was: %v %v", entries, err)
	}
}

// An older ABI: what it does not confine is a limit, and nothing else is open.
func TestOlderABI(t *testing.T) {
	for _, abi := range []int{1, 2, 3, 5, 6} {
		t.Run(fmt.Sprint(abi), func(t *testing.T) {
			f := newFixture(t)
			r := f.task(`,"linux":{"min_abi":1}`).below(t, "-v", fmt.Sprint(abi))
			if abi == 1 {
				// Without the refer right nothing can be renamed or linked between directories.
				for _, key := range []string{"link-in", "rename-in"} {
					if got := r.row(t, key); got.Verdict != Held {
						t.Errorf("%s: %+v", key, got)
					}
				}
			}
			expect(t, r, abi)
		})
	}
}

// A profile that grants too little kills its program, and then every denial is worthless.
func TestKilled(t *testing.T) {
	f := newFixture(t)
	r, err := f.task(`,"runtime":"none"`).measure()
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) > 0 || !strings.HasPrefix(r.Unmeasured, "the profile kills the program: running ") ||
		!strings.Contains(r.Unmeasured, "EACCES") && !strings.Contains(r.Unmeasured, "exit status 127") { // 127: this test binary is linked dynamically
		t.Errorf("%s", r.String())
	}
}

// Where every place for the outside target is granted, nothing is proven.
func TestOutsideIsInside(t *testing.T) {
	f := newFixture(t)
	r, err := f.task(fmt.Sprintf(`,"permit_extra_subpaths":[%q]`, f.dir)).measure()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range r.Rows {
		if row.Verdict != Unproven || !strings.Contains(row.Control, "which is granted") {
			t.Errorf("%+v", row)
		}
	}
	if r.Proven() || len(r.Rows) != len(cases) {
		t.Errorf("%s", r.String())
	}
}

// The next place is taken where the first lies in a root, cannot be written, or is not there.
func TestPlaces(t *testing.T) {
	f := newFixture(t)
	k := f.task("")
	k.Places = []string{"/nonexistent", f.in, "/proc", f.out}
	r, err := k.measure()
	if err != nil || !r.Proven() {
		t.Errorf("%v %s", err, r.String())
	}
}

// A root that nobody can write is named, and what needs none is measured.
func TestReadOnlyRoot(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root writes everywhere; TestAsUser runs this")
	}
	f := newFixture(t)
	if err := os.Chmod(f.in, 0o555); err != nil {
		t.Fatal(err)
	}
	r, err := f.task("").measure()
	if err != nil {
		t.Fatal(err)
	}
	if !r.Proven() || len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0], "cannot be written unconfined either: EACCES") {
		t.Errorf("%s", r.String())
	}
	if got := r.row(t, "rename-out"); got.Verdict != Unproven {
		t.Errorf("%+v", got)
	}
}

// Directories that the launcher makes are not made by measuring, and are named.
func TestMakesNothing(t *testing.T) {
	f := newFixture(t)
	extra := filepath.Join(f.dir, "extra")
	r, err := f.task(fmt.Sprintf(`,"private_tmp":true,"permit_extra_subpaths":[%q]`, "+"+extra)).measure()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(extra); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", extra, err)
	}
	if !r.Proven() || !strings.Contains(strings.Join(r.Skipped, "\n"), extra+": is not there yet") {
		t.Errorf("%s", r.String())
	}
}

// Many at a time, again and again: no layer adds up, nothing is left, each is proven.
// This process is never confined.
func TestManyInOneProcess(t *testing.T) {
	f := newFixture(t)
	k := f.task("")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{Self: self, Entry: []string{"inside"}, Wider: []string{"confine-exec"}, Places: k.Places, Parallel: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	fds := descriptors(t)
	for round := range 2 {
		var wg sync.WaitGroup
		for i := range 20 {
			in := filepath.Join(f.dir, fmt.Sprintf("root%d", i))
			if round == 0 {
				if err := os.Mkdir(in, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			plan, err := task{Policy: fmt.Sprintf(`{"permit_path":%q}`, in)}.plan(p)
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				r := p.Measure(testContext, plan)
				if !r.Proven() || r.Count(Breached) > 0 || len(r.Skipped) > 0 {
					t.Errorf("%s", r.String())
				}
			})
		}
		wg.Wait()
	}
	if err := os.WriteFile(filepath.Join(f.out, "after"), nil, 0o600); err != nil {
		t.Errorf("this process was confined: %v", err)
	}
	if now := descriptors(t); now > fds {
		t.Errorf("%d descriptors before, %d after", fds, now)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// An interrupted measurement removes what it made.
func TestInterrupted(t *testing.T) {
	f := newFixture(t)
	k := f.task("")
	p, err := k.prober()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	plan, err := k.plan(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 40 * time.Millisecond} {
		ctx, cancel := context.WithCancel(testContext)
		timer := time.AfterFunc(after, cancel)
		if r := p.Measure(ctx, plan); r.Unmeasured != "interrupted" && !r.Proven() {
			t.Errorf("after %v: %s", after, r.String())
		}
		timer.Stop()
		cancel()
		f.clean(t)
	}
}

// A program inside a root that replaces what the probe made there by a link to a file
// outside gets nothing written there, neither by a control nor by a removal.
func TestPlantedLinks(t *testing.T) {
	f := newFixture(t)
	victim := filepath.Join(f.dir, "victim")
	if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	planted := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			dirs, _ := filepath.Glob(f.in + "/" + Prefix + "*")
			more, _ := filepath.Glob(f.out + "/" + Prefix + "*/*")
			for _, d := range append(dirs, more...) {
				for _, c := range cases {
					for _, name := range []string{c.Key, c.Key + ".in", c.Key + ".in.control"} {
						if os.Symlink(victim, d+"/.planted") == nil && os.Rename(d+"/.planted", d+"/"+name) == nil {
							planted++
						}
						os.Remove(d + "/.planted")
					}
				}
			}
		}
	})
	for range 5 {
		if _, err := f.task("").measure(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	got, err := os.ReadFile(victim)
	st, statErr := os.Stat(victim)
	if err != nil || statErr != nil || string(got) != "mine" || st.Mode().Perm() != 0o600 {
		t.Errorf("%q %v %v %v", got, err, statErr, st.Mode())
	}
	if planted == 0 {
		t.Error("the test planted nothing")
	}
	t.Logf("%d links planted", planted)
	left, _ := filepath.Glob(f.dir + "/*/" + Prefix + "*")
	for _, d := range left { // what others put there stays, and is theirs to remove
		os.RemoveAll(d)
	}
}

// By hand, the entry point refuses.
func TestInsideByHand(t *testing.T) {
	var got syscall.Stat_t
	if syscall.Fstat(fdJob, &got) == nil && got.Mode&syscall.S_IFMT == syscall.S_IFIFO {
		t.Skip("descriptor 3 is a pipe here")
	}
	if err := Inside(); err == nil || !strings.Contains(err.Error(), "by itself it does nothing") {
		t.Error(err)
	}
}

// Inside another boundary nothing is reported as a breach of this one.
func TestInsideAnother(t *testing.T) {
	f := newFixture(t)
	if outer := Outer([]string{"/", f.dir}); outer != "" {
		t.Skip("this test is inside a boundary itself: " + outer)
	}
	policy, err := resolve.DecodePolicy([]byte(fmt.Sprintf(`{"permit_path":%q}`, f.in)))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`{"Policy":%q,"Places":[%q,"/tmp"]}`, `{"permit_path":"`+f.in+`"}`, f.out)
	b, err := resolve.Resolve(policy, facts(), resolve.Request{Command: []string{self, "measure", text}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := enforce.Compile(b)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	process, err := plan.Start(enforce.StartOptions{Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if _, err := fmt.Fprint(&out, readAll(r)); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "BREACHED") || !strings.Contains(out.String(), "unproven") {
		t.Error(out.String())
	}
}

func readAll(f *os.File) string {
	var b strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := f.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// The whole set again as an ordinary user, when root runs the tests.
func TestAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("this was the run of an ordinary user")
	}
	newFixture(t)
	dir, err := os.MkdirTemp("", "confinectl-probe-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	binary, tmp := filepath.Join(dir, "probe.test"), filepath.Join(dir, "tmp")
	if err = errors.Join(err, os.Chmod(dir, 0o755), os.WriteFile(binary, self, 0o755), os.Mkdir(tmp, 0o755), os.Chown(tmp, 1000, 1000)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.v", "-test.skip=TestDocumented|TestLimitsAreStated") // the documents are not there
	cmd.Dir = tmp
	cmd.Env = []string{"GORACE=" + os.Getenv("GORACE"), "PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "CI=" + os.Getenv("CI")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP: TestReadOnlyRoot") || !strings.Contains(string(out), "--- PASS: TestReadOnlyRoot") {
		t.Error("TestReadOnlyRoot did not run as a user")
	}
	for l := range strings.Lines(string(out)) {
		if strings.Contains(l, "unproven") {
			t.Log(strings.TrimSpace(l))
		}
	}
}

// A root in which the control fails inside, and works outside, is named with its rule: 9p
// and other file systems do that. It stands for a file system that this host does not have.
func TestSurvived(t *testing.T) {
	f := newFixture(t)
	p, err := f.task("").prober()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	plan, err := f.task("").plan(p)
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range map[string]string{
		rowProgram:       "the profile kills the program: running prog: EACCES",
		rowRoot + f.in:   "the profile kills the program: writing and reading back in " + f.in + ": EACCES",
		rowRead + "/usr": "the profile kills the program: reading /usr: EACCES",
		"":               "",
	} {
		m := &measurement{Prober: p, plan: plan, b: plan.Boundary(), job: job{Program: []string{"prog"}, Roots: []root{{f.in, "x"}}, Reads: []string{"/usr"}}}
		answers := map[string]answer{rowProgram: {OK: true}, rowRoot + f.in: {OK: true}, rowRead + "/usr": {OK: true}}
		answers[row] = answer{Errno: 13, Text: "EACCES"}
		if got := m.survived(answers); got != (want == "") || m.report.Unmeasured != want {
			t.Errorf("%q: %t %q, want %q", row, got, m.report.Unmeasured, want)
		}
		if (m.report.Killed != nil) != (strings.HasPrefix(row, rowRoot) || strings.HasPrefix(row, rowRead)) {
			t.Errorf("%q: %+v", row, m.report.Killed)
		}
	}
}
