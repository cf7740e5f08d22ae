package probe

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
	"github.com/confinectl/confinectl/test/fakeabi"
	"github.com/confinectl/confinectl/test/testenv"
)

// The test binary plays every part: the probe inside, confinectl inside it, the
// kernel with another Landlock, and, below that, a process that measures.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "inside":
			if err := Inside(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(2)
			}
			os.Exit(0)
		case "confine-exec":
			os.Exit(confineAgain(os.Args[2:]))
		case "fakeabi":
			os.Args = os.Args[1:]
			fakeabi.Main()
		case "measure":
			os.Exit(measureHere(os.Args[2]))
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // under -race every process would take a second to end
	os.Exit(m.Run())
}

// confineAgain is what cmd/confinectl does for confine-exec: POLICY -- CMD….
func confineAgain(args []string) int {
	p, err := resolve.DecodePolicy([]byte(args[0]))
	if err == nil {
		var b *resolve.Boundary
		if b, err = resolve.Resolve(p, facts(), resolve.Request{Command: args[2:]}); err == nil {
			var plan *enforce.Plan
			if plan, err = enforce.Compile(b); err == nil {
				err = plan.Exec([]int{fdJob, fdAnswers})
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return enforce.StatusRefused
}

func facts(env ...string) *resolve.Facts {
	cwd, _ := os.Getwd()
	return &resolve.Facts{OS: runtime.GOOS, UID: os.Getuid(), Home: "/nonexistent", TmpRoot: "/tmp", Cwd: cwd, Env: append(os.Environ(), env...)}
}

// task is one measurement, for a process of its own.
type task struct {
	Policy string
	Places []string
}

func (k task) prober() (*Prober, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return New(Options{Self: self, Entry: []string{"inside"}, Wider: []string{"confine-exec"}, Places: k.Places})
}

func (k task) plan(p *Prober) (*enforce.Plan, error) {
	policy, err := resolve.DecodePolicy([]byte(k.Policy))
	if err != nil {
		return nil, err
	}
	b, err := resolve.Resolve(policy, facts(p.Variable()), resolve.Request{Command: p.Command()})
	if err != nil {
		return nil, err
	}
	return enforce.Compile(b)
}

// measure measures in this process.
func (k task) measure() (Report, error) {
	p, err := k.prober()
	if err != nil {
		return Report{}, err
	}
	defer p.Close()
	plan, err := k.plan(p)
	if err != nil {
		return Report{}, err
	}
	return p.Measure(testContext, plan), nil
}

func measureHere(text string) int {
	var k task
	if err := json.Unmarshal([]byte(text), &k); err != nil {
		panic(err)
	}
	r, err := k.measure()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	data, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(data))
	return 0
}

// measure below another Landlock.
func (k task) below(t *testing.T, flags ...string) Report {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{"fakeabi"}, flags...), "--", self, "measure", string(text))
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", flags, err, out)
	}
	var r Report
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// fixture is a root, and a place outside it.
type fixture struct {
	dir, in, out string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	if m := enforce.Probe().Missing; m != nil {
		testenv.Need(t, false, "an arm: "+m.Error())
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f := fixture{dir, filepath.Join(dir, "in"), filepath.Join(dir, "out")}
	for _, d := range []string{f.in, f.out} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { f.clean(t) })
	return f
}

// clean holds that nothing of the probe is left.
func (f fixture) clean(t *testing.T) {
	t.Helper()
	left, err := exec.Command("find", f.dir, "-name", Prefix+"*").CombinedOutput()
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %s %v", left, err)
	}
}

func (f fixture) task(more string) task {
	return task{fmt.Sprintf(`{"name":"p","permit_path":%q%s}`, f.in, more), []string{f.out}}
}

func (r *Report) row(t *testing.T, key string) Result {
	t.Helper()
	i := slices.IndexFunc(r.Rows, func(x Result) bool { return x.Name == caseOf(key).Name })
	if i < 0 {
		t.Fatalf("no row %s: %+v", key, r)
	}
	return r.Rows[i]
}

func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "unmeasured: %q skipped: %q\n", r.Unmeasured, r.Skipped)
	for _, x := range r.Rows {
		fmt.Fprintf(&b, "%-9s %-75s %-10s %s\n", x.Verdict, x.Name, x.Control, x.Detail)
	}
	return b.String()
}
