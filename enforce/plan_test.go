package enforce

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// hostWith is a host that offers an ABI and means it.
func hostWith(abi int) Host { return Host{Arm: "landlock", Offered: abi, Used: abi} }

func TestHostOf(t *testing.T) {
	upTo := func(newest int, e error) func(int) error {
		return func(abi int) error {
			if abi > newest {
				return e
			}
			return nil
		}
	}
	const fixed = 1<<0 | 1<<1 | 1<<2
	for _, c := range []struct {
		name    string
		offered int
		errata  int
		accepts func(int) error
		used    int
		lowered string
	}{
		{"as claimed", 7, fixed, upTo(7, syscall.EINVAL), 7, ""},
		{"old", 2, 0, upTo(2, syscall.EINVAL), 2, ""},
		{"newer than this program", 15, fixed, upTo(99, nil), 11, "newest"},
		{"claims 99, is 8", 99, fixed, upTo(8, syscall.EINVAL), 8, "refuses the rights of ABI 9"},
		{"claims 6 without the erratum", 6, 1 << 0, upTo(6, syscall.EINVAL), 5, "erratum 2"},
		{"claims 6 with it and refuses the scope", 6, fixed, upTo(5, syscall.EINVAL), 5, "refuses the rights of ABI 6"},
		{"knows a smaller struct", 6, fixed, upTo(5, syscall.E2BIG), 5, "refuses the rights of ABI 6"},
	} {
		h := hostOf(c.offered, nil, c.errata, c.accepts)
		if h.Missing != nil || h.Arm != "landlock" || h.Offered != c.offered || h.Used != c.used || h.Errata != c.errata ||
			(h.Lowered == "") != (c.lowered == "") || !strings.Contains(h.Lowered, c.lowered) {
			t.Errorf("%s: %+v", c.name, h)
		}
	}
	for _, c := range []struct {
		name    string
		offered int
		err     error
		accepts func(int) error
		code    resolve.Code
		detail  string
	}{
		{"not built", -1, syscall.ENOSYS, nil, resolve.ArmMissing, "built without"},
		{"off", -1, syscall.EOPNOTSUPP, nil, resolve.ArmMissing, "lsm="},
		{"blocked", -1, syscall.EPERM, nil, resolve.ArmMissing, "container"},
		{"odd", -1, syscall.EIO, nil, resolve.ArmMissing, syscall.EIO.Error()},
		{"ABI 0", 0, nil, nil, resolve.ArmMissing, "no ABI"},
		{"refuses everything", 3, nil, upTo(0, syscall.EINVAL), resolve.ArmMissing, "even the rights of ABI 1"},
		{"fails", 3, nil, upTo(0, syscall.EMFILE), resolve.ApplyFailed, syscall.EMFILE.Error()},
	} {
		h := hostOf(c.offered, c.err, 0, c.accepts)
		if h.Missing == nil || h.Missing.Code != c.code || !strings.Contains(h.Missing.Detail, c.detail) || h.Used != 0 {
			t.Errorf("%s: %+v", c.name, h)
			continue
		}
		if c.err != nil && c.err != syscall.EIO && len(h.Missing.Hints) != 1 {
			t.Errorf("%s: hints %q", c.name, h.Missing.Hints)
		}
	}
}

func TestJudge(t *testing.T) {
	floor := func(n int) resolve.Floor {
		return resolve.Floor{N: n, Origin: resolve.Origin{File: "p.toml", Key: "linux.min_abi", Line: 3}}
	}
	audit := resolve.Flag{Set: true, On: true, Origin: resolve.Origin{File: "p.toml", Key: "linux.audit", Line: 4}}
	scratch := []resolve.Rule{{Path: "/tmp/x-0", Kind: resolve.Directory, Access: resolve.ReadWrite, Unprovisioned: true,
		Reasons: []resolve.Value{{Text: "agent_scratch x", Origin: resolve.Origin{File: "p.toml", Key: "agent_scratch", Line: 5}}}}}
	lowered := Host{Arm: "landlock", Offered: 6, Used: 5, Lowered: "erratum 2 is not fixed"}
	for _, c := range []struct {
		name  string
		terms terms
		host  Host
		want  []string
	}{
		{"default floor holds", terms{}, hostWith(3), nil},
		{"default floor", terms{}, hostWith(2), []string{"abi-below-floor: min_abi: this kernel offers Landlock ABI 2, and the policy writes no floor: 3 holds"}},
		{"1 written out", terms{floor: floor(1)}, hostWith(1), nil},
		{"2 written out", terms{floor: floor(2)}, hostWith(1), []string{"abi-below-floor: min_abi = 2: this kernel offers Landlock ABI 1, and the policy asks for at least 2 (p.toml:3: linux.min_abi)"}},
		{"claim does not count", terms{floor: floor(6)}, lowered, []string{"abi-below-floor: min_abi = 6: this kernel offers Landlock ABI 6, used as 5 because erratum 2 is not fixed, and the policy asks for at least 6"}},
		{"floor from the future", terms{floor: floor(12)}, Host{Offered: 12, Used: 11, Lowered: "x"}, []string{"abi-below-floor: min_abi = 12"}},
		{"audit", terms{audit: audit}, hostWith(7), nil},
		{"audit too early", terms{audit: audit}, hostWith(6), []string{"abi-below-floor: audit = true: this kernel offers Landlock ABI 6, and records"}},
		{"scratch", terms{rules: scratch}, hostWith(7), []string{"inexpressible: agent_scratch x: Landlock can only grant a directory that exists, and nobody provisions /tmp/x-0 (p.toml:5: agent_scratch)"}},
		{"all", terms{floor(9), audit, scratch}, hostWith(4), []string{"abi-below-floor: min_abi = 9", "abi-below-floor: audit = true", "inexpressible: "}},
	} {
		got := c.terms.judge(c.host)
		same := len(got) == len(c.want)
		for i := 0; same && i < len(got); i++ {
			same = strings.HasPrefix(got[i].Error(), c.want[i])
		}
		if !same {
			t.Errorf("%s:\n got %v\nwant %v", c.name, got, c.want)
		}
		for _, r := range got {
			if len(r.Hints) == 0 && r.Subject != "min_abi = 12" || len(r.Hints) > 2 {
				t.Errorf("%s: hints %q", c.name, r.Hints)
			}
		}
	}
}

func TestCompileWantsABoundary(t *testing.T) {
	for _, b := range []*resolve.Boundary{nil, {}} {
		if p, err := Compile(b); p != nil || err == nil || !strings.HasPrefix(err.Error(), "BUG") {
			t.Errorf("%v, %v", p, err)
		}
	}
	for _, p := range []*Plan{nil, {}} {
		if _, err := p.LaunchSpec("/bin/confinectl"); !errors.Is(err, errNoPlan) {
			t.Error(err)
		}
		if p.Text() != "" {
			t.Error(p.Text())
		}
	}
}

// resolved makes a boundary on the file system of this host, for Linux.
func resolved(t *testing.T, policy, dir string, command ...string) *resolve.Boundary {
	t.Helper()
	p, err := resolve.DecodePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	f := &resolve.Facts{OS: "linux", UID: os.Getuid(), TmpRoot: dir, Cwd: dir, Env: []string{"PATH=" + dir, "HOME=/x"}}
	b, err := resolve.Resolve(p, f, resolve.Request{PermitPath: dir, Command: command})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCompileHost(t *testing.T) {
	b := resolved(t, `{}`, t.TempDir())
	gone := missing(syscall.ENOSYS)
	if p, err := compile(b, Host{Missing: gone}); p != nil || !errors.Is(err, resolve.ArmMissing) {
		t.Error(p, err)
	}
	if p, err := compile(b, hostWith(2)); p != nil || !errors.Is(err, resolve.ABIBelowFloor) {
		t.Error(p, err)
	}
	p, err := compile(b, hostWith(9))
	if err != nil || p.Host().Used != 9 || p.Boundary() != b || p.Ruleset().ABI != 9 || p.Text() != Landlock(b, 9).Text() {
		t.Error(p, err)
	}
}

func TestLaunchSpec(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tool := filepath.Join(dir, "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, typed := range []string{"tool", "./tool", tool, "./nothing"} {
		b := resolved(t, `{"set_env": {"B": "2", "A": "1"}}`, dir, typed, "--flag", "a b")
		p, err := compile(b, hostWith(7))
		if err != nil {
			t.Fatal(err)
		}
		spec, err := p.LaunchSpec("/usr/bin/confinectl")
		if err != nil {
			t.Fatal(err)
		}
		argv0 := typed
		if typed == "./tool" { // it meant this directory, whatever the spawned command starts in
			argv0 = b.Command().Path
			if !filepath.IsAbs(argv0) || filepath.Clean(argv0) != tool {
				t.Errorf("%s is %q", typed, argv0)
			}
		}
		want := LaunchSpec{
			Cmd:  "/usr/bin/confinectl",
			Args: []string{"confine-exec", "--policy", strings.TrimSpace(string(resolve.EncodePolicy(b.Policy()))), "--cd", dir, "--", argv0, "--flag", "a b"},
			Env:  map[string]string{"A": "1", "B": "2"},
			Cd:   dir,
		}
		if !reflect.DeepEqual(spec, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", typed, spec, want)
		}
		if _, err := resolve.DecodePolicy([]byte(spec.Args[2])); err != nil {
			t.Error(err)
		}
		if len(b.Command().Argv) != 3 || b.Command().Argv[0] != typed {
			t.Errorf("the command was changed: %q", b.Command().Argv)
		}
	}

	p, err := compile(resolved(t, `{}`, dir, "tool"), hostWith(7))
	if err != nil {
		t.Fatal(err)
	}
	spec, err := p.LaunchSpec("/c")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(spec); err != nil || !strings.HasPrefix(string(b), `{"cmd":"/c","args":["confine-exec",`) || !strings.HasSuffix(string(b), `,"env":{},"cd":"`+dir+`"}`) {
		t.Errorf("%s, %v", b, err)
	}
	if _, err := p.LaunchSpec("confinectl"); err == nil || !strings.HasPrefix(err.Error(), "BUG") {
		t.Error(err)
	}
	if p, err = compile(resolved(t, `{}`, dir), hostWith(7)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.LaunchSpec("/c"); !errors.Is(err, errNoCommand) {
		t.Error(err)
	}

	var many []string
	for i := range 1300 {
		many = append(many, fmt.Sprintf(`"-/%s/%d"`, strings.Repeat("x", 90), i))
	}
	if p, err = compile(resolved(t, `{"read_paths": [`+strings.Join(many, ",")+`]}`, dir, "tool"), hostWith(7)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.LaunchSpec("/c"); !errors.Is(err, resolve.ProfileTooLarge) {
		t.Error(err)
	}
}

func TestNotExecuted(t *testing.T) {
	c := &resolve.Command{Argv: []string{"tool"}, Path: "/bin/tool"}
	for _, x := range []struct {
		err      error
		doubt    string
		contains string
	}{
		{syscall.ENOENT, "", "its interpreter or loader does not"},
		{syscall.ENOENT, "its interpreter /opt/x does not exist", "tool: /bin/tool: its interpreter /opt/x does not exist"},
		{syscall.EACCES, "/bin/tool is not executable", "tool: /bin/tool is not executable"},
		{syscall.EACCES, "", "permission denied"},
		{syscall.ENOEXEC, "", "#! line"},
		{syscall.EISDIR, "", "is a directory"},
		{syscall.E2BIG, "its interpreter is odd", "too large"},
		{syscall.ETXTBSY, "", "open for writing"},
		{&os.PathError{Op: "fork/exec", Path: "/proc/self/fd/7", Err: syscall.ENOMEM}, "", "tool: /bin/tool: " + syscall.ENOMEM.Error()},
	} {
		c.Doubt = x.doubt
		e := notExecuted(c, x.err)
		if e.Status != 126 || e.Argv0 != "tool" || e.Path != "/bin/tool" || !errors.Is(e, x.err) || !strings.Contains(e.Error(), x.contains) || strings.Contains(e.Error(), "\n") {
			t.Errorf("%v: %q", x.err, e.Error())
		}
	}
	e := notFound(&resolve.Command{Argv: []string{"a\x1b[2Jb"}, Missing: "not found in PATH"})
	if e.Status != 127 || e.Error() != `a\x1b[2Jb: not found in PATH` || e.Unwrap() != nil {
		t.Errorf("%q", e.Error())
	}
	keep := &KeepError{FD: 7, Err: syscall.EBADF}
	if !errors.Is(keep, syscall.EBADF) || !strings.Contains(keep.Error(), "descriptor 7") {
		t.Error(keep)
	}
}

func TestRuleRefusalSubject(t *testing.T) {
	written := resolve.Value{Text: "~/.x", Origin: resolve.Origin{File: "p.toml", Key: "read_paths[0]", Line: 2}}
	runtime := resolve.Value{Text: "/etc: configuration", Origin: resolve.Origin{File: "runtime"}}
	r := resolve.Rule{Path: "/home/u/.x", Reasons: []resolve.Value{runtime, written}}
	if got := ruleRefusal(resolve.PathMoved, r, "d", nil); got.Subject != "~/.x" || got.Origin != written.Origin {
		t.Errorf("%+v", got)
	}
	r.Reasons = slices.Clone(r.Reasons[:1])
	if got := ruleRefusal(resolve.PathMoved, r, "d", nil); got.Subject != "/home/u/.x" || got.Origin != (resolve.Origin{}) {
		t.Errorf("%+v", got)
	}
}
