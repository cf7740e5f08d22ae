package seatbelt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/sbpleval"
	"github.com/confinectl/confinectl/resolve"
	"github.com/confinectl/confinectl/test/testenv"
)

// The test binary is the confined program as well.
func TestMain(m *testing.M) {
	if os.Getenv("SEATBELT_ROLE") == "attempt" {
		var list []attempt
		if err := json.NewDecoder(os.Stdin).Decode(&list); err != nil {
			panic(err)
		}
		answers := make([]string, len(list))
		for i, a := range list {
			answers[i] = a.try()
		}
		if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// attempt is one thing to try: read, write, execute, create, remove.
type attempt struct {
	Op, Path string
}

// try answers "yes", "no", or what else happened.
func (a attempt) try() string {
	var err error
	switch a.Op {
	case "read":
		var f *os.File
		if f, err = os.Open(a.Path); err == nil {
			if _, err = f.Read(make([]byte, 1)); errors.Is(err, io.EOF) || errors.Is(err, syscall.EISDIR) {
				err = nil
			}
			f.Close()
		}
	case "write":
		var f *os.File
		if f, err = os.OpenFile(a.Path, os.O_WRONLY, 0); err == nil {
			f.Close()
		}
	case "execute":
		var p *os.Process
		if p, err = os.StartProcess(a.Path, []string{a.Path}, &os.ProcAttr{}); err == nil {
			_, err = p.Wait()
		}
	case "create":
		var f *os.File
		if f, err = os.OpenFile(a.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
			err = os.Remove(a.Path)
		}
	case "remove":
		var st os.FileInfo
		if st, err = os.Lstat(a.Path); err == nil && st.IsDir() {
			err = syscall.Rmdir(a.Path)
		} else if err == nil {
			err = syscall.Unlink(a.Path)
		}
		if errors.Is(err, syscall.ENOTEMPTY) {
			err = nil // it would have been allowed
		}
	}
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "no"
	}
	return err.Error()
}

// operations is what an attempt is on macOS.
var operations = map[string]string{"read": "file-read-data", "write": "file-write-data", "execute": "process-exec*", "create": "file-write-create", "remove": "file-write-unlink"}

// grant is one line of a policy, as a person reads it.
type grant struct {
	path             string
	dir, write, exec bool
}

// may is the whole model of a boundary.
func may(grants []grant, op, path string) bool {
	for _, g := range grants {
		beneath := g.dir && strings.HasPrefix(path, g.path+"/")
		at := beneath || path == g.path
		switch {
		case op == "read" && at, op == "execute" && at && g.exec, op == "write" && at && g.write, (op == "create" || op == "remove") && beneath && g.write:
			return true
		}
	}
	return false
}

// world is a random tree and a random policy for it.
type world struct {
	policy   *resolve.Policy
	grants   []grant
	attempts []attempt
	real     []string // where the path of an attempt leads
}

func newWorld(t *testing.T, r *rand.Rand, root string) world {
	pool := []string{"a", "ab", "a b", `q"uote`, `b\s`, "(p)", "x;y", "#h", "café", "|v|", "a=b", "ABC", "abc"}
	dirs, files, links := []string{root}, []string{}, map[string]string{}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 14 + r.IntN(10) {
		path := filepath.Join(dirs[r.IntN(len(dirs))], pool[r.IntN(len(pool))])
		if _, err := os.Lstat(path); err == nil || strings.Count(path[len(root):], "/") > 4 {
			continue
		}
		switch n := r.IntN(10); {
		case n < 5:
			must(os.Mkdir(path, 0o755))
			dirs = append(dirs, path)
		case n < 9 || len(files) == 0:
			must(os.WriteFile(path, []byte("#!/bin/true\n"), 0o755))
			files = append(files, path)
		default:
			links[path] = files[r.IntN(len(files))]
			must(os.Symlink(links[path], path))
		}
	}
	w := world{policy: &resolve.Policy{Name: "random"}}
	k := &w.policy.Common
	pick := func(list []string) (string, bool) {
		if len(list) == 0 {
			return "", false
		}
		return list[r.IntN(len(list))], true
	}
	dir := func() string { d, _ := pick(dirs[min(1, len(dirs)-1):]); return d }
	k.PermitPath = value(dir())
	w.grants = append(w.grants, grant{k.PermitPath.Text, true, true, true})
	for range r.IntN(3) {
		v := value(dir())
		k.PermitExtraSubpaths = append(k.PermitExtraSubpaths, v)
		w.grants = append(w.grants, grant{v.Text, true, true, true})
	}
	for range r.IntN(3) {
		v := value(dir())
		k.ReadPaths = append(k.ReadPaths, v)
		w.grants = append(w.grants, grant{v.Text, true, false, true})
	}
	for range r.IntN(3) {
		if f, ok := pick(files); ok {
			k.ReadPaths = append(k.ReadPaths, value(f))
			w.grants = append(w.grants, grant{f, false, false, true})
		}
		if f, ok := pick(files); ok {
			k.PermitFiles = append(k.PermitFiles, value(f))
			w.grants = append(w.grants, grant{f, false, true, false})
		}
	}
	add := func(op, path, real string) {
		w.attempts, w.real = append(w.attempts, attempt{op, path}), append(w.real, real)
	}
	for _, d := range dirs {
		add("read", d, d)
		add("create", d+"/new", d+"/new")
	}
	for _, f := range files {
		add("read", f, f)
		add("write", f, f)
		add("execute", f, f)
	}
	for link, target := range links {
		add("read", link, target)
		add("write", link, target)
		add("remove", link, link)
	}
	all := slices.Concat(files, dirs)
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	for _, path := range all { // what is removed last is what contains the rest
		add("remove", path, path)
	}
	return w
}

// landlock attempts everything in a child that the kernel confines.
func landlock(t *testing.T, w world, self string) []string {
	f := &resolve.Facts{OS: "linux", UID: os.Getuid(), Home: "/nonexistent", TmpRoot: "/tmp", Cwd: "/", Env: []string{"SEATBELT_ROLE=attempt", "PATH=/usr/bin:/bin"}}
	b, err := resolve.Resolve(w.policy, f, resolve.Request{Command: []string{self}})
	if err != nil {
		t.Fatal(err)
	}
	plan, err := enforce.Compile(b)
	testenv.Need(t, !errors.Is(err, resolve.ArmMissing), fmt.Sprint("Landlock, the third answer: ", err))
	if err != nil {
		t.Fatal(err)
	}
	in, out := pipe(t), pipe(t)
	child, err := plan.Start(enforce.StartOptions{Stdin: in.r, Stdout: out.w, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	in.r.Close()
	out.w.Close()
	if err := json.NewEncoder(in.w).Encode(w.attempts); err != nil {
		t.Fatal(err)
	}
	in.w.Close()
	var answers []string
	if err := json.NewDecoder(out.r).Decode(&answers); err != nil {
		t.Fatal(err)
	}
	if _, err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return answers
}

type ends struct{ r, w *os.File }

func pipe(t *testing.T) ends {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return ends{r, w}
}

// TestThreeAnswers draws policies and asks a model of ten lines, the Landlock kernel,
// and both readers of the rendered text. Reading, writing, executing, making and removing must
// get the same answer from all.
//
// Where the arms truly differ, and so are not asked here (docs/limits.md):
//
//   - metadata: Landlock never confines chmod, chown, utimes and xattr; Seatbelt does
//   - listing "/", /dev, /private and /private/var: allowed on macOS, where dyld reads the first
//   - Unix sockets: Landlock from ABI 9 on; Seatbelt always
//   - signals and other programs' processes: Landlock from ABI 6 on, and only signals
//   - a directory that does not exist yet: only Seatbelt has rules for one
//   - hard links made before the launch, and the grant of a directory that was moved: Landlock
//     follows the file, Seatbelt the name
func TestThreeAnswers(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	boundaries, attempts, allowed := 0, 0, 0
	for seed := range uint64(40) {
		root, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, rand.New(rand.NewPCG(seed, 5)), root)
		var queries []sbpleval.Query
		for i, a := range w.attempts {
			queries = append(queries, sbpleval.Query{Op: operations[a.Op], Path: w.real[i]})
		}
		// The Mac's own paths exist or not on this host, and none lies in the tree.
		f := &resolve.Facts{OS: "darwin", UID: os.Getuid(), Home: "/nonexistent", TmpRoot: "/tmp", Cwd: "/"}
		s := render(t, w.policy, f, resolve.Request{})
		goSays, err := byGo(s.Profile, params(s))(queries)
		if err != nil {
			t.Fatal(err)
		}
		schemeSays, err := byScheme(t, s.Profile, params(s))(queries)
		if !needScheme(t, err) {
			schemeSays = goSays
		} else if err != nil {
			t.Fatal(err)
		}
		kernelSays := landlock(t, w, self)
		boundaries++
		for i, a := range w.attempts {
			want := may(w.grants, a.Op, w.real[i])
			attempts++
			if want {
				allowed++
			}
			kernel := kernelSays[i] == "yes"
			if kernelSays[i] != "yes" && kernelSays[i] != "no" || kernel != want || goSays[i] != want || schemeSays[i] != want {
				t.Errorf("seed %d: %s %q (%q): model %t, Landlock %s, Go evaluator %t, tinyscheme %t\n%s", seed, a.Op, a.Path, w.real[i], want, kernelSays[i], goSays[i], schemeSays[i],
					fmt.Sprintf("%+v", w.grants))
			}
		}
	}
	t.Logf("%d boundaries, %d attempts, %d of them allowed", boundaries, attempts, allowed)
}
