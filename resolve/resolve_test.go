package resolve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// host is a fixture: a directory tree and the facts of a user in it.
//
//	in/ in/a/ in/f      the permit path
//	out/ out/f          what lies beside it
//	home/ tmp/ bin/     facts
//	cfg/p.toml          a profile directory
type host struct {
	*testing.T
	R string
	f *Facts
}

func newHost(t *testing.T) *host {
	t.Helper()
	r, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{t, r, &Facts{OS: "linux", UID: os.Getuid(), Home: r + "/home", TmpRoot: r + "/tmp", Cwd: r + "/in",
		ConfigHome: r + "/home/.config", Env: []string{"PATH=" + r + "/bin:/usr/bin:/bin", "HOME=" + r + "/home", "EMPTY=", "A=1", "A=2"}}}
	for _, d := range []string{"in/a", "out", "home", "bin", "cfg"} {
		h.mkdir(d, 0o755)
	}
	h.mkdir("tmp", 0o700)
	for _, f := range []string{"in/f", "out/f", "cfg/p.toml"} {
		h.file(f, "x", 0o644)
	}
	return h
}

func (h *host) mkdir(name string, mode os.FileMode) {
	h.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Join(h.R, name), 0o755), os.Chmod(filepath.Join(h.R, name), mode)); err != nil {
		h.Fatal(err)
	}
}

func (h *host) file(name, content string, mode os.FileMode) string {
	h.Helper()
	path := filepath.Join(h.R, name)
	if err := errors.Join(os.WriteFile(path, []byte(content), 0o600), os.Chmod(path, mode)); err != nil {
		h.Fatal(err)
	}
	return path
}

func (h *host) symlink(target, name string) {
	h.Helper()
	if err := os.Symlink(target, filepath.Join(h.R, name)); err != nil {
		h.Fatal(err)
	}
}

// resolve resolves a policy that is written in JSON with R for the fixture.
func (h *host) resolve(policy string, r Request) (*Boundary, error) {
	h.Helper()
	p, err := DecodePolicy([]byte(strings.ReplaceAll(policy, "$R", h.R)))
	if err != nil {
		return nil, err
	}
	return Resolve(p, h.f, r)
}

func (h *host) mustResolve(policy string, r Request) *Boundary {
	h.Helper()
	b, err := h.resolve(policy, r)
	if err != nil {
		h.Fatal(err)
	}
	return b
}

// access is what the boundary's own rule at a path grants.
func (h *host) access(b *Boundary, path string) Access {
	for _, r := range b.Rules() {
		if r.Path == strings.ReplaceAll(path, "$R", h.R) {
			return r.Access
		}
	}
	return 0
}

func TestResolveRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		request      Request
		setup        func(*host)
		want         Code
		detail       string // part of the message
	}{
		{"no permit path", `{}`, Request{}, nil, PermitMissing, "--permit-path"},
		{"permit path missing", `{"permit_path":"$R/nope"}`, Request{}, nil, PathMissing, "/nope does not exist"},
		{"dotdot through a missing directory", `{"permit_path":"$R/nope/../out"}`, Request{}, nil, PathMissing, "/nope"},
		{"glob", `{"permit_path":"$R/in/**"}`, Request{}, nil, PathMissing, "globs"},
		{"permit path is a file", `{"permit_path":"$R/in/f"}`, Request{}, nil, PathNotDirectory, "regular file"},
		{"permit path is a device", `{"permit_path":"/dev/null"}`, Request{}, nil, PathNotDirectory, "device"},
		{"permit path is a FIFO", `{"permit_path":"$R/fifo"}`, Request{}, func(h *host) { mkfifo(h, "fifo") }, PathNotDirectory, "FIFO"},
		{"below a file", `{"permit_path":"$R/in/f/x"}`, Request{}, nil, PathNotDirectory, "/in/f is not a directory"},
		{"dangling symlink", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.symlink("nowhere", "l") }, PathMissing, "nowhere"},
		{"symlink loop", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.symlink("l", "l") }, PathLoop, "40 symlinks"},
		{"root", `{"permit_path":"/"}`, Request{}, nil, PermitRoot, "root directory"},
		{"root by another spelling", `{"permit_path":"$R/../../../../../../../../.."}`, Request{}, nil, PermitRoot, ""},
		{"root as extra", `{"permit_path":"$R/in","permit_extra_subpaths":["/"]}`, Request{}, nil, PermitRoot, ""},
		{"root by symlink", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.symlink("/", "l") }, PermitRoot, ""},
		{"name that is not UTF-8", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.mkdir("in\xff", 0o755); h.symlink("in\xff", "l") }, PathEncoding, "UTF-8"},
		{"name with a newline", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.mkdir("in\nx", 0o755); h.symlink("in\nx", "l") }, PathEncoding, "control"},
		{"name with a fact in it", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.mkdir("${home}", 0o755); h.symlink("${home}", "l") }, PathEncoding, "fact"},
		{"--permit-path is taken as it stands", `{}`, Request{PermitPath: "/${home}"}, nil, PathEncoding, "fact"},
		{"--permit-path has no marker", `{}`, Request{PermitPath: "-/tmp"}, nil, PathRelative, ""},
		{"two permit paths", `{"permit_path":"$R/in"}`, Request{PermitPath: "/tmp"}, nil, PermitFixed, "leave --permit-path out"},
		{"one of two extras missing", `{"permit_path":"$R/in","permit_extra_subpaths":["$R/out","$R/nope"]}`, Request{}, nil, PathMissing, "nope"},
		{"fact unset", `{"permit_path":"${runtime_dir}"}`, Request{}, nil, FactUnset, "runtime_dir"},
		{"variable unset", `{"permit_path":"${env:NOPE}"}`, Request{}, nil, FactUnset, "set NOPE"},
		{"variable empty", `{"permit_path":"${env:EMPTY}"}`, Request{}, nil, FactUnset, "EMPTY"},
		{"variable relative", `{"permit_path":"${env:A}/x"}`, Request{}, nil, PathRelative, `"1/x"`},
		{"home unset", `{"permit_path":"~/x"}`, Request{}, func(h *host) { h.f.Home = "" }, FactUnset, "home"},
		{"file as directory", `{"permit_path":"$R/in","permit_extra_subpaths":["$R/out/f"]}`, Request{}, nil, PathNotDirectory, "permit_files"},
		{"directory as file", `{"permit_path":"$R/in","permit_files":["$R/out"]}`, Request{}, nil, PathNotFile, "permit_extra_subpaths"},
		{"file as socket", `{"permit_path":"$R/in","unix_sockets":["$R/out/f"]}`, Request{}, nil, PathNotSocket, ""},
		{"FIFO as read path", `{"permit_path":"$R/in","read_paths":["$R/fifo"]}`, Request{}, func(h *host) { mkfifo(h, "fifo") }, PathNotFile, "FIFO"},
		{"plus, two levels", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/x/y"]}`, Request{}, nil, PathMissing, "one level"},
		{"plus through a link, the rest of whose way goes through another", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/l"]}`, Request{}, func(h *host) {
			h.symlink("out", "m")
			h.symlink("m/new", "l")
		}, PathMissing, "symlink"},
		{"plus through a dangling link", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/l"]}`, Request{}, func(h *host) { h.symlink("out/new", "l") }, PathMissing, "symlink"},
		{"plus on a file", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/out/f"]}`, Request{}, nil, PathNotDirectory, ""},
		{"plus on a directory for all", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/out"]}`, Request{}, func(h *host) { h.mkdir("out", 0o777) }, ScratchUnfit, "written by others"},
		{"self-widening: contains the profile directory", `{"permit_path":"$R"}`, Request{}, nil, SelfWidening, "a searched profile directory"},
		{"self-widening: is the profile directory", `{"permit_path":"$R/cfg"}`, Request{}, nil, SelfWidening, "is"},
		{"self-widening: lies in the profile directory", `{"permit_path":"$R/cfg/p.d"}`, Request{}, func(h *host) { h.mkdir("cfg/p.d", 0o755) }, SelfWidening, "lies in"},
		{"self-widening: by symlink", `{"permit_path":"$R/l"}`, Request{}, func(h *host) { h.symlink("cfg", "l") }, SelfWidening, ""},
		{"self-widening: a link on the way to the profile", `{"permit_path":"$R/out"}`, Request{Protected: []Protected{{"$R/q.toml", "a profile"}}},
			func(h *host) { h.symlink("../cfg/p.toml", "out/hop"); h.symlink("out/hop", "q.toml") }, SelfWidening, "on the way"},
		{"self-widening: a directory that does not exist yet", `{"permit_path":"$R/home"}`, Request{Protected: []Protected{{"$R/home/.config/confinectl/profiles", "the profile directory"}}}, nil, SelfWidening, ""},
		{"self-widening: a directory to be made", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/home/.config"]}`, Request{Protected: []Protected{{"$R/home/.config/confinectl", "the profile directory"}}}, nil, SelfWidening, "would contain"},
		{"self-widening: the file itself", `{"permit_path":"$R/in","permit_files":["$R/cfg/p.toml"]}`, Request{}, nil, SelfWidening, ""},
		{"self-widening: a root that became a symlink inside another", `{"permit_path":"$R/in","permit_extra_subpaths":["$R/in/a/x"]}`, Request{}, func(h *host) { h.symlink("../../out", "in/a/x") }, SelfWidening, "in/a/x: the confined program can replace it"},
		{"self-widening: a read path through a symlink in a root", `{"permit_path":"$R/in","read_paths":["$R/in/l/f"]}`, Request{}, func(h *host) { h.symlink("../out", "in/l") }, SelfWidening, "write the path that is meant"},
		{"self-widening: the permit path through one in an extra root", `{"permit_path":"$R/out/l","permit_extra_subpaths":["$R/out"]}`, Request{}, func(h *host) { h.symlink("../in", "out/l") }, SelfWidening, "out/l"},
		{"self-widening: the temp root through one", `{"permit_path":"$R/in","name":"p","private_tmp":true}`, Request{}, func(h *host) { h.symlink("../tmp", "in/t"); h.f.TmpRoot = h.R + "/in/t" }, SelfWidening, "in/t"},
		{"plus through a missing directory and back", `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/nope/.."]}`, Request{}, nil, PathMissing, "cannot be judged"},
		{"plus in a base directory, and back", `{"permit_path":"$R/in","permit_extra_subpaths":["+${data_home}/.."]}`, Request{}, func(h *host) { h.f.DataHome = h.R + "/home/nope" }, PathMissing, "cannot be judged"},
		{"self-widening: what does not exist yet, by a detour", `{"permit_path":"$R/home"}`, Request{Protected: []Protected{{"$R/nope/../home/profiles", "the profile directory"}}}, nil, SelfWidening, ""},
		{"cd outside", `{"permit_path":"$R/in"}`, Request{Dir: "$R/out"}, nil, CdOutside, "grants"},
		{"cd to a part of the runtime set", `{"permit_path":"$R/in"}`, Request{Dir: "/usr"}, nil, CdOutside, ""},
		{"cd to a file", `{"permit_path":"$R/in"}`, Request{Dir: "$R/in/f"}, nil, PathNotDirectory, ""},
		{"cd missing", `{"permit_path":"$R/in"}`, Request{Dir: "$R/in/nope"}, nil, PathMissing, ""},
		{"temp root missing", `{"permit_path":"$R/in","name":"p","private_tmp":true}`, Request{}, func(h *host) { h.f.TmpRoot = h.R + "/nope" }, ScratchUnresolved, "TMPDIR"},
		{"temp root relative", `{"permit_path":"$R/in","name":"p","private_tmp":true}`, Request{}, func(h *host) { h.f.TmpRoot = "tmp" }, ScratchUnresolved, "absolute"},
		{"temp root a file", `{"permit_path":"$R/in","agent_scratch":{"agent":"x","provision":true}}`, Request{}, func(h *host) { h.f.TmpRoot = h.R + "/in/f" }, ScratchUnresolved, "not a directory"},
		{"temp root for all and not sticky", `{"permit_path":"$R/in","agent_scratch":{"agent":"x","provision":true}}`, Request{}, func(h *host) { h.mkdir("tmp", 0o777) }, ScratchUnfit, "sticky"},
		{"private_tmp without a name", `{"permit_path":"$R/in","private_tmp":true}`, Request{}, nil, PolicyValue, "no name"},
		{"scratch is a symlink", `{"permit_path":"$R/in","agent_scratch":{"agent":"x","provision":true}}`, Request{}, func(h *host) { h.symlink("../out", "tmp/x-"+h.uid()) }, ScratchUnfit, "symlink"},
		{"scratch is a file", `{"permit_path":"$R/in","agent_scratch":{"agent":"x","provision":true}}`, Request{}, func(h *host) { h.file("tmp/x-"+h.uid(), "", 0o600) }, ScratchUnfit, "regular file"},
		{"scratch is loose", `{"permit_path":"$R/in","agent_scratch":{"agent":"x","provision":true}}`, Request{}, func(h *host) { h.mkdir("tmp/x-"+h.uid(), 0o720) }, ScratchUnfit, "0720"},
		{"private tmp is loose", `{"permit_path":"$R/in","name":"p","private_tmp":true}`, Request{}, func(h *host) { h.mkdir("tmp/confinectl-"+h.uid(), 0o777) }, ScratchUnfit, "written by others"},
		{"private tmp is a symlink", `{"permit_path":"$R/in","name":"p","private_tmp":true}`, Request{}, func(h *host) {
			h.mkdir("tmp/confinectl-"+h.uid(), 0o700)
			h.symlink("../../out", "tmp/confinectl-"+h.uid()+"/p")
		}, ScratchUnfit, "symlink"},
		{"set_env with a fact of its own that is not there", `{"permit_path":"$R/in","set_env":{"X":"${private_tmp}"}}`, Request{}, nil, FactUnset, "does not have private_tmp"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			if tt.setup != nil {
				tt.setup(h)
			}
			r := tt.request
			r.Dir = strings.ReplaceAll(r.Dir, "$R", h.R)
			r.Protected = append(slices.Clone(r.Protected), Protected{"$R/cfg", "a searched profile directory"}, Protected{"$R/cfg/p.toml", "a profile"})
			for i := range r.Protected {
				r.Protected[i].Path = strings.ReplaceAll(r.Protected[i].Path, "$R", h.R)
			}
			before := h.tree()
			b, err := h.resolve(tt.policy, r)
			var list Refusals
			if b != nil || !errors.As(err, &list) || len(list) != 1 || list[0].Code != tt.want {
				t.Fatalf("got %v, %v; want only %s", b, err, tt.want)
			}
			all := err.Error() + " " + strings.Join(list[0].Hints, " ")
			if !strings.Contains(all, tt.detail) || strings.Contains(err.Error(), "BUG") || strings.Contains(err.Error(), "\n") {
				t.Errorf("message %q does not say %q in one line", all, tt.detail)
			}
			if diff := cmp.Diff(before, h.tree()); diff != "" {
				t.Errorf("a refusal left something behind:\n%s", diff)
			}
		})
	}
}

func (h *host) uid() string { return strconv.Itoa(h.f.UID) }

func mkfifo(h *host, name string) {
	if err := syscall.Mkfifo(filepath.Join(h.R, name), 0o644); err != nil {
		h.Fatal(err)
	}
}

func (h *host) tree() (names []string) {
	filepath.WalkDir(h.R, func(path string, _ os.DirEntry, _ error) error { names = append(names, path); return nil })
	return names
}

// All problems of a policy come at once, each with its own subject.
func TestResolveReportsEveryProblem(t *testing.T) {
	h := newHost(t)
	_, err := h.resolve(`{"permit_path":"$R/nope","permit_extra_subpaths":["$R/out/f"],"read_paths":["${env:NOPE}"],"permit_files":["$R/out"]}`, Request{Dir: "/nope"})
	for _, code := range []Code{PathMissing, PathNotDirectory, FactUnset, PathNotFile} {
		if !errors.Is(err, code) {
			t.Errorf("%s is missing in\n%v", code, err)
		}
	}
	if list := err.(Refusals); len(list) != 5 {
		t.Errorf("got %d refusals, want 5:\n%v", len(list), err)
	}
}

func TestResolveGrants(t *testing.T) {
	h := newHost(t)
	h.symlink("in", "l")
	h.symlink("out/f", "lf")
	h.f.Env = append(h.f.Env, "OUT="+h.R+"/out")
	b := h.mustResolve(`{"name":"p","permit_path":"$R/l","read_paths":["${env:OUT}","-$R/nope","-${env:NOPE}/x","-$R/in/f/x","$R/in/a"],"permit_files":["$R/lf"],"private_tmp":true,
		"permit_extra_subpaths":["+~/made","$R/in/../home/../in/a"],"set_env":{"A":"${private_tmp}/x","Z":""}}`, Request{Command: []string{"sh"}})
	for path, want := range map[string]Access{
		"$R/in": ReadWrite, "$R/out": Read | Execute, "$R/out/f": Read | Write, "$R/home/made": ReadWrite, "$R/tmp/confinectl-" + h.uid() + "/p": ReadWrite,
		"$R/in/a":   0, // covered by the permit path
		"/dev/null": Read | Write,
	} {
		if got := h.access(b, path); got != want {
			t.Errorf("%s: access %q, want %q", path, got, want)
		}
	}
	if b.PermitPath() != h.R+"/in" {
		t.Errorf("permit path %s", b.PermitPath())
	}
	if dir, _ := b.Dir(); dir != h.R+"/in" {
		t.Errorf("working directory %s", dir)
	}
	if n := len(b.Skipped()); n != 3 {
		t.Errorf("%d entries skipped, want 3: %v", n, b.Skipped())
	}
	if diff := cmp.Diff([]string{h.R + "/tmp/confinectl-" + h.uid(), h.R + "/home/made", h.R + "/tmp/confinectl-" + h.uid() + "/p"}, b.ToMake()); diff != "" {
		t.Error(diff)
	}
	tmp := h.R + "/tmp/confinectl-" + h.uid() + "/p"
	wantEnv := []string{h.f.Env[0], h.f.Env[1], "EMPTY=", "A=" + tmp + "/x", "A=" + tmp + "/x", "OUT=" + h.R + "/out", "TMPDIR=" + tmp, "Z="}
	if diff := cmp.Diff(wantEnv, b.Environ()); diff != "" {
		t.Error(diff)
	}
	for _, r := range b.Rules() {
		if r.ID == (FileID{}) && !r.Make {
			t.Errorf("%s has no identity", r.Path)
		}
		if len(r.Reasons) == 0 {
			t.Errorf("%s has no reason", r.Path)
		}
	}
}

// Rules come in one order, one a path, and resolving twice gives the same.
func TestResolveIsDeterministic(t *testing.T) {
	h := newHost(t)
	const policy = `{"permit_path":"$R/in","read_paths":["$R/out","$R/out/f","$R/out/../out"],"permit_extra_subpaths":["$R/home"]}`
	first := h.mustResolve(policy, Request{})
	for range 20 {
		if diff := cmp.Diff(first.Rules(), h.mustResolve(policy, Request{}).Rules()); diff != "" {
			t.Fatal(diff)
		}
	}
	paths := []string{}
	for _, r := range first.Rules() {
		paths = append(paths, r.Path)
	}
	if !slices.IsSorted(paths) || len(slices.Compact(slices.Clone(paths))) != len(paths) {
		t.Errorf("not sorted, or a path twice: %v", paths)
	}
}

// The zero Boundary, and a Policy that says nothing, permit nothing.
func TestZeroPermitsNothing(t *testing.T) {
	var b Boundary
	if len(b.Rules()) != 0 || b.Command() != nil || b.OS() != "" {
		t.Error("the zero Boundary is not empty")
	}
	if _, err := Resolve(&Policy{}, &Facts{OS: "linux"}, Request{}); !errors.Is(err, PermitMissing) {
		t.Errorf("the zero Policy: %v", err)
	}
}

// A link inside a root that leads to what is granted anyway takes nothing.
func TestLinksInsideRoots(t *testing.T) {
	h := newHost(t)
	h.symlink("a", "in/l")
	h.symlink("in", "up")
	h.symlink("../out", "in/o")
	h.mustResolve(`{"permit_path":"$R/up","permit_extra_subpaths":["$R/in/l","$R/out","$R/in/o"],"read_paths":["$R/in/o/f"]}`, Request{})
}

func TestEnvCommand(t *testing.T) {
	for argument, want := range map[string]string{
		"node": "node", "-S node --x": "node", "-S A=1 B=2 node": "node", "-Snode": "node", "-i node": "node", "-S -u X node": "node", "-S -C /x --unset Y node": "node",
		"--split-string=node x": "node", "-S --unset=X node": "node", "-S -a name node": "", "-S --argv0 name node": "", "-S -uX node": "", "": "", "A=1": "",
	} {
		if got := envCommand(argument); got != want {
			t.Errorf("env %s: %q, want %q", argument, got, want)
		}
	}
}

// A symlink of another user on the way to anything that a profile names. Root gives
// one away; whoever else runs this owns it, and a third user resolves.
func TestForeignLinks(t *testing.T) {
	h := newHost(t)
	h.symlink("in", "mine")
	h.symlink("in", "theirs")
	h.symlink("/tmp", "theirtmp")
	me := os.Getuid()
	owner, reader := me, me+1
	if me == 0 {
		owner, reader = 12345, me
		for _, l := range []string{"theirs", "theirtmp"} {
			if err := os.Lchown(h.R+"/"+l, owner, owner); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, policy := range []string{`{"permit_path":"$R/theirs"}`, `{"permit_path":"$R/in","read_paths":["$R/theirs/f"]}`, `{"permit_path":"$R/in","permit_extra_subpaths":["+$R/theirs/new"]}`} {
		h.f.UID = me
		h.mustResolve(strings.ReplaceAll(policy, "theirs", "mine"), Request{}) // the control
		h.f.UID = reader
		if _, err := h.resolve(policy, Request{}); !errors.Is(err, PathUntrusted) || !strings.Contains(err.Error(), fmt.Sprint("uid ", owner)) {
			t.Errorf("%s: %v", policy, err)
		}
	}
	h.f.TmpRoot = h.R + "/theirtmp"
	if _, err := h.resolve(`{"name":"p","permit_path":"$R/in","private_tmp":true}`, Request{}); !errors.Is(err, PathUntrusted) {
		t.Errorf("temp root: %v", err)
	}
	h.f.UID = owner
	h.mustResolve(`{"permit_path":"$R/theirs"}`, Request{})
}

// A document with very many faults costs what one with a hundred does.
func TestManyProblems(t *testing.T) {
	var doc strings.Builder
	doc.WriteString(`{"permit_path":"/a","read_paths":[`)
	for range 50000 {
		doc.WriteString(`"x",`)
	}
	doc.WriteString(`"x"]}`)
	_, err := DecodePolicy([]byte(doc.String()))
	list, ok := err.(Refusals)
	if !ok || len(list) != 101 || list[100].Detail != "has 49901 problems more" {
		t.Errorf("%d refusals", len(list))
	}
}

func TestRuntimeNone(t *testing.T) {
	h := newHost(t)
	b := h.mustResolve(`{"permit_path":"$R/in","runtime":"none"}`, Request{})
	if n := len(b.Rules()); n != 1 {
		t.Errorf("%d rules, want the permit path alone: %v", n, b.Rules())
	}
}

func TestRuntimeForRootAndUsers(t *testing.T) {
	h := newHost(t)
	const policy = `{"permit_path":"$R/in"}`
	h.f.UID = 0
	if a := h.access(h.mustResolve(policy, Request{}), "/etc"); a != 0 {
		t.Errorf("root gets %q on /etc", a)
	}
	h.f.UID = 1000
	if a := h.access(h.mustResolve(policy, Request{}), "/etc"); a != Read {
		t.Errorf("an ordinary user gets %q on /etc, want read", a)
	}
	if h.access(h.mustResolve(policy, Request{}), "/dev/ptmx") != 0 {
		t.Error("ptmx without pty")
	}
	if a := h.access(h.mustResolve(`{"permit_path":"$R/in","pty":true}`, Request{}), "/dev/ptmx"); a != Read|Write|Ioctl {
		t.Errorf("pty = true gives %q on /dev/ptmx", a)
	}
}

// Where confinectl exported the private directory as TMPDIR already, a second
// start of the same profile uses it as it is, and another profile makes its own inside.
func TestPrivateTmpTwice(t *testing.T) {
	h := newHost(t)
	const policy = `{"name":"p","permit_path":"$R/in","private_tmp":true}`
	first := h.mustResolve(policy, Request{}).ToMake()
	for _, d := range first {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	h.f.TmpRoot = first[1]
	if diff := cmp.Diff(first, h.mustResolve(policy, Request{}).ToMake()); diff != "" {
		t.Error(diff)
	}
	if got := h.mustResolve(strings.Replace(policy, `"p"`, `"q"`, 1), Request{}).ToMake(); got[1] != first[1]+"/confinectl-"+h.uid()+"/q" {
		t.Errorf("another profile inside: %v", got)
	}
}

// A new home has no XDG base directories; "+" makes them too, each level once.
func TestPlusMakesBaseDirectories(t *testing.T) {
	h := newHost(t)
	h.f.DataHome, h.f.StateHome = h.R+"/home/.local/share", h.R+"/home/.local/state"
	b := h.mustResolve(`{"permit_path":"$R/in","permit_extra_subpaths":["+${data_home}/x","+${state_home}/x/"]}`, Request{})
	home := h.R + "/home/.local"
	if diff := cmp.Diff([]string{home, home + "/share", home + "/state", home + "/share/x", home + "/state/x"}, b.ToMake()); diff != "" {
		t.Error(diff)
	}
	if _, err := h.resolve(`{"permit_path":"$R/in","permit_extra_subpaths":["+${data_home}/x/y"]}`, Request{}); !errors.Is(err, PathMissing) {
		t.Errorf("a level below: %v", err)
	}
}

func TestScratchWithoutProvision(t *testing.T) {
	h := newHost(t)
	b := h.mustResolve(`{"permit_path":"$R/in","agent_scratch":{"agent":"claude"}}`, Request{})
	for _, r := range b.Rules() {
		if strings.HasSuffix(r.Path, "/tmp/claude-"+h.uid()) {
			if !r.Unprovisioned || r.Make {
				t.Errorf("the rule is %+v", r)
			}
			return
		}
	}
	t.Error("no rule for the scratch directory")
}

func TestCommand(t *testing.T) {
	h := newHost(t)
	elf := "/bin/sh"
	if real, err := filepath.EvalSymlinks(elf); err != nil {
		t.Fatal(err)
	} else {
		elf = real
	}
	data, err := os.ReadFile(elf)
	if err != nil {
		t.Fatal(err)
	}
	h.file("bin/prog", string(data), 0o755)
	h.symlink("prog", "bin/alias")
	h.file("bin/script", "#!"+h.R+"/bin/prog -e\n", 0o755)
	h.symlink("script", "bin/other-name")
	h.file("bin/envscript", "#!/usr/bin/env -S A=1 prog --x\n", 0o755)
	h.file("bin/broken", "#!/nope/interpreter\n", 0o755)
	h.file("bin/noexec", "x", 0o644)
	h.file("in/noexec", "x", 0o644)
	h.file("bin/rec", "#!"+h.R+"/bin/rec\n", 0o755)
	for _, tt := range []struct {
		typed, path, missing, doubt string
		grants                      []string
	}{
		{"prog", "$R/bin/prog", "", "", []string{"$R/bin/prog"}},
		{"alias", "$R/bin/prog", "", "", []string{"$R/bin/prog"}},
		{"./../bin/prog", "$R/bin/prog", "", "", []string{"$R/bin/prog"}},
		{"script", "$R/bin/script", "", "", []string{"$R/bin/script", "$R/bin/prog"}},
		{"other-name", "$R/bin/other-name", "", "", []string{"$R/bin/script", "$R/bin/prog"}},
		{"envscript", "$R/bin/envscript", "", "", []string{"$R/bin/envscript", "$R/bin/prog"}},
		{"broken", "$R/bin/broken", "", "its interpreter /nope/interpreter does not exist", []string{"$R/bin/broken"}},
		{"noexec", "$R/bin/noexec", "", "is not executable", nil},
		{"rec", "$R/bin/rec", "", "deep", nil},
		{"nosuch-command-xyz", "", "not found in PATH", "", nil},
		{"", "", "empty string", "", nil},
		{"/nope/x", "", "no such file", "", nil},
		{"$R/in/f/x", "", "no such file", "", nil},
		{"$R/in", "$R/in", "", "is a directory", nil},
	} {
		t.Run(tt.typed, func(t *testing.T) {
			typed := strings.ReplaceAll(tt.typed, "$R", h.R)
			b := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{typed, "arg"}})
			c := b.Command()
			if c.Path != strings.ReplaceAll(tt.path, "$R", h.R) {
				t.Errorf("path %q", c.Path)
			}
			if !strings.Contains(c.Missing, tt.missing) || (c.Missing == "") != (tt.missing == "") {
				t.Errorf("missing %q, want %q", c.Missing, tt.missing)
			}
			if !strings.Contains(c.Doubt, tt.doubt) || (c.Doubt == "") != (tt.doubt == "") {
				t.Errorf("doubt %q, want %q", c.Doubt, tt.doubt)
			}
			for _, g := range tt.grants {
				if a := h.access(b, g); a != Read|Execute {
					t.Errorf("%s: access %q", g, a)
				}
			}
			if diff := cmp.Diff([]string{typed, "arg"}, c.Argv); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("the ELF interpreter is granted where the runtime set is not", func(t *testing.T) {
		b := h.mustResolve(`{"permit_path":"$R/in","runtime":"none"}`, Request{Command: []string{"prog"}})
		if len(b.Rules()) != 3 {
			t.Errorf("want the permit path, the program and its loader: %v", b.Rules())
		}
	})
	t.Run("what cannot be executed is not granted", func(t *testing.T) {
		secret := h.file("out/secret", "s", 0o600)
		h.file("in/planted", "#!"+secret+"\n", 0o755)
		h.file("in/env-planted", "#!/usr/bin/env -S -u "+h.R+"/bin/prog sh\n", 0o755)
		for _, name := range []string{"noexec", h.R + "/in/planted"} {
			b := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{name}})
			if a := h.access(b, secret) | h.access(b, "$R/bin/noexec"); a != 0 || b.Command().Doubt == "" {
				t.Errorf("%s: access %q, doubt %q", name, a, b.Command().Doubt)
			}
		}
		if b := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{h.R + "/in/env-planted"}}); h.access(b, "$R/bin/prog") != 0 {
			t.Error("the value of an option of env was granted")
		}
	})
	t.Run("what the program may have named is not granted", func(t *testing.T) {
		h.file("in/script", "#!"+h.R+"/bin/prog\n", 0o755)
		h.symlink("../bin/prog", "in/linked")
		for _, name := range []string{"in/script", "in/linked"} {
			b := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{h.R + "/" + name}})
			if a := h.access(b, "$R/bin/prog"); a != 0 || !strings.Contains(b.Command().Doubt, "not granted") {
				t.Errorf("%s: access %q, doubt %q", name, a, b.Command().Doubt)
			}
			b = h.mustResolve(`{"permit_path":"$R/in","read_paths":["$R/bin"]}`, Request{Command: []string{h.R + "/" + name}})
			if b.Command().Doubt != "" {
				t.Errorf("%s, granted by the profile: doubt %q", name, b.Command().Doubt)
			}
		}
	})
	t.Run("PATH unset means what execvp takes", func(t *testing.T) {
		h.f.Env = nil
		if c := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{"sh"}}).Command(); c.Path != elf {
			t.Errorf("sh is %q", c.Path)
		}
		h.f.Env = []string{"PATH="}
		if c := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{"noexec"}}).Command(); c.Path != h.R+"/in/noexec" {
			t.Errorf("an empty PATH means the working directory: %q", c.Path)
		}
	})
}

type byteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// program is an ELF program with a table of n program headers, the last of which names its
// interpreter; elf(5).
func program(bits int, order byteOrder, interpreter string, n int) string {
	class, endian := byte(bits/32), byte(order.Uint16([]byte{1, 2})&3) // 1 and 2: little and big
	word := func(b []byte, v int) []byte {
		if bits == 64 {
			return order.AppendUint64(b, uint64(v))
		}
		return order.AppendUint32(b, uint32(v))
	}
	head, entry := 52, 32
	if bits == 64 {
		head, entry = 64, 56
	}
	b := append([]byte("\x7fELF"), class, endian, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = order.AppendUint16(order.AppendUint16(b, 2), 62) // e_type, e_machine
	b = word(word(order.AppendUint32(b, 1), 0), head)    // e_version, e_entry, e_phoff
	b = order.AppendUint32(word(b, 0), 0)                // e_shoff, e_flags
	for _, v := range []int{head, entry, n, 0, 0, 0} {
		b = order.AppendUint16(b, uint16(v))
	}
	b = append(b, make([]byte, (n-1)*entry)...)
	b = order.AppendUint32(b, 3) // PT_INTERP
	if bits == 64 {
		b = order.AppendUint32(b, 4) // p_flags
	}
	b = word(b, head+n*entry)                           // p_offset
	b = word(word(b, 0), 0)                             // p_vaddr, p_paddr
	b = word(word(b, len(interpreter)+1), 0)            // p_filesz, p_memsz
	b = append(b, make([]byte, head+n*entry-len(b))...) // the rest
	return string(b) + interpreter + "\x00"
}

func TestELFInterpreter(t *testing.T) {
	h := newHost(t)
	h.file("bin/loader", program(64, binary.LittleEndian, h.R+"/bin/second", 1), 0o755)
	h.file("bin/second", "x", 0o755)
	granted := func(text string) bool {
		t.Helper()
		h.file("bin/dynamic", text, 0o755)
		b := h.mustResolve(`{"permit_path":"$R/in","runtime":"none"}`, Request{Command: []string{h.R + "/bin/dynamic"}})
		if a := h.access(b, "$R/bin/second"); a != 0 {
			t.Errorf("the interpreter of the interpreter, which the kernel does not look at: access %q", a)
		}
		return h.access(b, "$R/bin/loader") == Read|Execute
	}
	for _, bits := range []int{32, 64} {
		for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
			if !granted(program(bits, order, h.R+"/bin/loader", 3)) {
				t.Errorf("%d bits, %v: not granted", bits, order)
			}
		}
	}
	// The kernel reads a table of 64 KiB, 1170 entries of 56 bytes, and none that is larger.
	if !granted(program(64, binary.LittleEndian, h.R+"/bin/loader", 1170)) {
		t.Error("1170 program headers: not granted")
	}
	if granted(program(64, binary.LittleEndian, h.R+"/bin/loader", 1171)) {
		t.Error("1171 program headers: granted")
	}
	// A dynamic program can end a row of five scripts, as in the kernel.
	h.file("bin/dynamic", program(64, binary.LittleEndian, h.R+"/bin/loader", 1), 0o755)
	h.file("bin/s0", "#!"+h.R+"/bin/dynamic\n", 0o755)
	for i := range 5 {
		h.file(fmt.Sprintf("bin/s%d", i+1), fmt.Sprintf("#!%s/bin/s%d\n", h.R, i), 0o755)
	}
	for name, deep := range map[string]bool{"s4": false, "s5": true} {
		c := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{h.R + "/bin/" + name}}).Command()
		if strings.Contains(c.Doubt, "deep") != deep {
			t.Errorf("%s: doubt %q", name, c.Doubt)
		}
	}
}

func TestExplain(t *testing.T) {
	h := newHost(t)
	h.symlink("../out/f", "in/l")
	b := h.mustResolve(`{"permit_path":"$R/in","read_paths":["$R/out"]}`, Request{})
	for path, want := range map[string][3]bool{ // read, write, execute
		"$R/in/f": {true, true, true}, "$R/in/new/er": {true, true, true}, "$R/in/l": {true, false, true}, "$R/out/f": {true, false, true},
		"$R/home": {}, "$R/in-evil": {}, "$R": {}, "/": {},
	} {
		e, err := b.Explain(strings.ReplaceAll(path, "$R", h.R))
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{e.By(Read) != nil, e.By(Write) != nil, e.By(Execute) != nil}; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if _, err := b.Explain("in"); !errors.Is(err, PathRelative) {
		t.Errorf("a relative path: %v", err)
	}
}

// Without a working directory a relative path of the command line means
// nothing; it must not come to mean the root directory.
func TestAbsoluteWithoutCwd(t *testing.T) {
	f := &Facts{OS: "linux"}
	if got := f.Absolute("tmp"); got != "tmp" {
		t.Errorf("it means %q", got)
	}
	if _, err := Resolve(&Policy{}, f, Request{PermitPath: f.Absolute("tmp")}); !errors.Is(err, PathRelative) {
		t.Error(err)
	}
}

// A policy for another process on this host has no ${cwd} left.
func TestPortablePolicy(t *testing.T) {
	h := newHost(t)
	b := h.mustResolve(`{"permit_path":"${cwd}","read_paths":["-${cwd}/x"],"set_env":{"A":"${cwd}"}}`, Request{})
	if v, uses := b.Policy().UsesCwd(); uses {
		t.Errorf("%v still uses it", v)
	}
	if got := string(EncodePolicy(b.Policy())); got != strings.ReplaceAll(`{"permit_path":"$R/in","read_paths":["-$R/in/x"],"set_env":{"A":"$R/in"}}`+"\n", "$R", h.R) {
		t.Error(got)
	}
}

func TestMinABI(t *testing.T) {
	h := newHost(t)
	const policy = `{"permit_path":"$R/in","min_abi":4,"linux":{"min_abi":6}}`
	if b := h.mustResolve(policy, Request{}); b.MinABI().N != 6 {
		t.Errorf("floor %d, want the higher", b.MinABI().N)
	}
	if b := h.mustResolve(`{"permit_path":"$R/in","min_abi":6,"linux":{"min_abi":4}}`, Request{}); b.MinABI().N != 6 {
		t.Errorf("floor %d: it sank", b.MinABI().N)
	}
	h.f.OS = "darwin"
	if _, err := h.resolve(policy, Request{}); !errors.Is(err, MinABINotApplicable) {
		t.Errorf("min_abi on macOS: %v", err)
	}
	h.mustResolve(`{"permit_path":"$R/in","linux":{"min_abi":6}}`, Request{})
}
