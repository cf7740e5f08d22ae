package loader

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/resolve"
)

// tree is a directory of profiles, trusted unless a test spoils it.
type tree struct {
	*testing.T
	dir string
	l   *Loader
}

func newTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{t, dir, &Loader{Layers: []Layer{{Name: "--profile-dir", Dir: dir}}, UID: os.Getuid()}}
	for name, content := range files {
		tr.write(name, content)
	}
	return tr
}

func (t *tree) write(name, content string) {
	t.Helper()
	path := filepath.Join(t.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644), os.Chmod(path, 0o644)); err != nil {
		t.Fatal(err)
	}
}

func (t *tree) policy(name string) string {
	t.Helper()
	p, err := t.l.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(resolve.EncodePolicy(p.Policy)))
}

// Parents come before children, each once, a profile's drop-ins after it: a
// parent that two others share does not undo what one of them says.
func TestLoadMergesInOrder(t *testing.T) {
	tr := newTree(t, map[string]string{
		"base.toml":   "read_paths = ['/base']\nruntime = 'none'\nmin_abi = 4\ndescription = 'not this one'",
		"left.toml":   "extends = ['base']\nread_paths = ['/left']\nruntime = 'default'",
		"right.toml":  "extends = ['base']\nread_paths = ['/right']\nmin_abi = 2",
		"p.toml":      "extends = ['left', 'right']\nread_paths = ['/p']\npermit_path = '/a'\ndescription = 'this one'",
		"p.d/20.toml": "read_paths = ['/twenty']\npermit_path = '/b'",
		"p.d/10.toml": "read_paths = ['/ten']\npermit_path = '/c'",
		"p.d/.x.toml": "broken", "p.d/README": "broken", "left.d/1.toml": "read_paths = ['/left-drop-in']",
	})
	want := `{"name":"p","permit_path":"/b","read_paths":["/base","/left","/left-drop-in","/right","/p","/ten","/twenty"],"runtime":"default","min_abi":4}`
	if got := tr.policy("p"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	p, err := tr.l.Load("p")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range p.Files {
		files = append(files, strings.TrimPrefix(f, tr.dir+"/"))
	}
	if diff := cmp.Diff([]string{"base.toml", "left.toml", "left.d/1.toml", "right.toml", "p.toml", "p.d/10.toml", "p.d/20.toml"}, files); diff != "" {
		t.Error(diff)
	}
	if p.Description != "this one" {
		t.Errorf("description %q", p.Description)
	}
}

func TestLoadDeep(t *testing.T) {
	files := map[string]string{"p0.toml": "permit_path = '/a'"}
	for i := 1; i <= 16; i++ {
		files[fmt.Sprintf("p%d.toml", i)] = fmt.Sprintf("extends = ['p%d']", i-1)
	}
	if got := newTree(t, files).policy("p16"); got != `{"name":"p16","permit_path":"/a"}` {
		t.Error(got)
	}
}

func TestLoadRefuses(t *testing.T) {
	const ok = "permit_path = '/a'"
	for _, tt := range []struct {
		name, load string
		files      map[string]string
		spoil      func(*tree)
		want       []resolve.Code
		text       string
	}{
		{"missing", "p", nil, nil, []resolve.Code{resolve.ProfileMissing}, "no p.toml in"},
		{"name with a slash", "../p", nil, nil, []resolve.Code{resolve.ProfileName}, "--profile-dir"},
		{"cycle", "a", map[string]string{"a.toml": "extends = ['b']", "b.toml": "extends = ['c']", "c.toml": "extends = ['b']"}, nil, []resolve.Code{resolve.ProfileCycle}, "b extends c extends b"},
		{"extends itself", "a", map[string]string{"a.toml": "extends = ['a']"}, nil, []resolve.Code{resolve.ProfileCycle}, "a extends a"},
		{"parent missing", "a", map[string]string{"a.toml": "extends = ['b']"}, nil, []resolve.Code{resolve.ProfileMissing}, "a.toml:1: extends[0]"},
		{"every problem of all files", "a", map[string]string{"a.toml": "extends = ['b']\nx = 1", "b.toml": "y = 1\nz = 2", "a.d/1.toml": "extends = []"}, nil,
			[]resolve.Code{resolve.ProfileKey, resolve.ProfileKey}, ""},
		{"parents too", "a", map[string]string{"a.toml": "extends = ['b', 'c']", "b.toml": "y = 1\nz = 2", "c.toml": "w = 1"}, nil,
			[]resolve.Code{resolve.ProfileKey, resolve.ProfileKey, resolve.ProfileKey}, ""},
		{"file written by all", "p", map[string]string{"p.toml": ok}, func(t *tree) { t.chmod("p.toml", 0o646) }, []resolve.Code{resolve.ProfileUntrusted}, "0646"},
		{"file written by the group", "p", map[string]string{"p.toml": ok}, func(t *tree) { t.chmod("p.toml", 0o664) }, []resolve.Code{resolve.ProfileUntrusted}, "0664"},
		{"directory written by all", "p", map[string]string{"p.toml": ok}, func(t *tree) { t.chmod(".", 0o757) }, []resolve.Code{resolve.ProfileUntrusted}, "0757"},
		{"directory written by all, no profile in it", "q", map[string]string{"p.toml": ok}, func(t *tree) { t.chmod(".", 0o757) }, []resolve.Code{resolve.ProfileUntrusted}, "0757"},
		{"drop-in written by all", "p", map[string]string{"p.toml": ok, "p.d/1.toml": ok}, func(t *tree) { t.chmod("p.d/1.toml", 0o666) }, []resolve.Code{resolve.ProfileUntrusted}, "1.toml"},
		{"drop-in directory written by all", "p", map[string]string{"p.toml": ok, "p.d/1.toml": ok}, func(t *tree) { t.chmod("p.d", 0o777) }, []resolve.Code{resolve.ProfileUntrusted}, "p.d"},
		{"drop-in directory is a file", "p", map[string]string{"p.toml": ok, "p.d": ""}, nil, []resolve.Code{resolve.ProfileUntrusted}, "not a directory"},
		{"symlink into a directory for all", "p", nil, func(t *tree) { t.write("open/p.toml", ok); t.chmod("open", 0o777); t.link("open/p.toml", "p.toml") }, []resolve.Code{resolve.ProfileUntrusted}, "/open"},
		{"symlink that goes through one", "p", map[string]string{"q.toml": ok}, func(t *tree) {
			t.write("open/x", "")
			t.chmod("open", 0o777)
			t.link("../q.toml", "open/hop")
			t.link("open/hop", "p.toml")
		}, []resolve.Code{resolve.ProfileUntrusted}, "/open"},
		{"a directory", "p", map[string]string{"p.toml/x": ""}, nil, []resolve.Code{resolve.ProfileUntrusted}, "not a regular file"},
		{"a layer that is a file", "p", nil, func(t *tree) { t.write("f", ""); t.l.Layers[0].Dir += "/f" }, []resolve.Code{resolve.ProfileUntrusted}, "not a directory"},
		{"symlink loop", "p", nil, func(t *tree) { t.link("p.toml", "p.toml") }, []resolve.Code{resolve.PathUnreadable}, "symbolic links"},
		{"too large", "p", map[string]string{"p.toml": "#" + strings.Repeat("x", resolve.MaxDocument)}, nil, []resolve.Code{resolve.ProfileSyntax}, "1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := newTree(t, tt.files)
			if tt.spoil != nil {
				tt.spoil(tr)
			}
			p, err := tr.l.Load(tt.load)
			var list resolve.Refusals
			if p != nil || !errors.As(err, &list) {
				t.Fatalf("got %v, %v", p, err)
			}
			var got []resolve.Code
			text := err.Error()
			for _, r := range list {
				got, text = append(got, r.Code), text+strings.Join(r.Hints, " ")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if !strings.Contains(text, tt.text) {
				t.Errorf("%q does not say %q", text, tt.text)
			}
		})
	}
}

func (t *tree) chmod(name string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(t.dir, name), mode); err != nil {
		t.Fatal(err)
	}
}

func (t *tree) link(target, name string) {
	t.Helper()
	if err := os.Symlink(target, filepath.Join(t.dir, name)); err != nil {
		t.Fatal(err)
	}
}

// Where only owners rename, others may write the directory. The temp directory that
// these tests live in is mostly such a one; here it is spelled out.
func TestStickyDirectoryIsTrusted(t *testing.T) {
	tr := newTree(t, map[string]string{"s/p.toml": "permit_path = '/a'"})
	tr.l.Layers[0].Dir += "/s"
	tr.chmod("s", 0o777|os.ModeSticky)
	tr.policy("p")
	tr.chmod("s", 0o777) // the control
	if _, err := tr.l.Load("p"); !errors.Is(err, resolve.ProfileUntrusted) {
		t.Errorf("without the sticky bit: %v", err)
	}
}

// Files of another user are trusted only where that is root.
func TestForeignOwner(t *testing.T) {
	tr := newTree(t, map[string]string{"p.toml": "permit_path = '/a'"})
	tr.policy("p")
	tr.l.UID = os.Getuid() + 1
	_, err := tr.l.Load("p")
	if os.Getuid() == 0 {
		if err != nil {
			t.Errorf("root's files, for another user: %v", err)
		}
		if err := os.Chown(filepath.Join(tr.dir, "p.toml"), 12345, 0); err != nil {
			t.Fatal(err)
		}
		for _, uid := range []int{0, 1} {
			tr.l.UID = uid
			if _, err := tr.l.Load("p"); !errors.Is(err, resolve.ProfileUntrusted) || !strings.Contains(err.Error(), "uid 12345") {
				t.Errorf("a file of uid 12345, for uid %d: %v", uid, err)
			}
		}
		tr.l.UID = 12345
		tr.policy("p")
		return
	}
	if !errors.Is(err, resolve.ProfileUntrusted) {
		t.Errorf("my files, for another user: %v", err)
	}
}

// A ConfigMap is a directory of links that all lead through ..data.
func TestConfigMap(t *testing.T) {
	tr := newTree(t, map[string]string{"..v1/p.toml": "permit_path = '/one'", "..v2/p.toml": "permit_path = '/two'"})
	tr.link("..v1", "..data")
	tr.link("..data/p.toml", "p.toml")
	if got := tr.policy("p"); !strings.Contains(got, "/one") {
		t.Error(got)
	}
	tr.link("..v2", "..tmp")
	if err := os.Rename(tr.dir+"/..tmp", tr.dir+"/..data"); err != nil {
		t.Fatal(err)
	}
	if got := tr.policy("p"); !strings.Contains(got, "/two") {
		t.Error(got)
	}
	entries, err := tr.l.List()
	if err != nil || len(entries) != 1 || entries[0].Name != "p" {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestLayers(t *testing.T) {
	a := newTree(t, map[string]string{"p.toml": "permit_path = '/a'", "README": "", "UPPER.toml": "", "x.d/y.toml": ""})
	b := newTree(t, map[string]string{"p.toml": "permit_path = '/b'", "q.toml": "extends = ['built']"})
	l := &Loader{UID: os.Getuid(), Layers: []Layer{a.l.Layers[0], {Name: "vendor", Dir: a.dir + "/nope"}, b.l.Layers[0],
		{Name: builtIn, Dir: builtIn, fs: fstest.MapFS{"built.toml": {Data: []byte("permit_path = '/built'")}, "p.toml": {Data: []byte("x")}}}}}
	p, err := l.Load("p")
	if err != nil || p.File != a.dir+"/p.toml" {
		t.Errorf("%+v, %v", p, err)
	}
	q, err := l.Load("q")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"built-in/built.toml", b.dir + "/q.toml"}, q.Files); diff != "" {
		t.Error(diff)
	}
	entries, err := l.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name+" "+e.File+" < "+e.ShadowedBy)
	}
	want := []string{"built built-in/built.toml < ", "p " + a.dir + "/p.toml < ", "p " + b.dir + "/p.toml < " + a.dir + "/p.toml", "p built-in/p.toml < " + a.dir + "/p.toml", "q " + b.dir + "/q.toml < "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	_, err = l.Load("nope")
	if !errors.Is(err, resolve.ProfileMissing) || !strings.Contains(err.Error(), "/nope (does not exist)") || !strings.Contains(err.Error(), "the built-in profiles") {
		t.Errorf("where it was looked for: %v", err)
	}
	protected := l.Protected(q)
	var paths []string
	for _, p := range protected {
		paths = append(paths, p.Path)
	}
	nope := a.dir + "/nope"
	if diff := cmp.Diff([]string{a.dir, nope, b.dir, a.dir + "/q.toml", nope + "/q.toml", b.dir + "/q.toml", // every place that q could lie in, up to the one that has it
		a.dir + "/built.toml", nope + "/built.toml", b.dir + "/built.toml", b.dir + "/q.d"}, paths); diff != "" {
		t.Error(diff)
	}
}

// An operations directory that anybody can write is no reason to go on to the
// next layer.
func TestUntrustedLayerIsNotPassedOver(t *testing.T) {
	a, b := newTree(t, nil), newTree(t, map[string]string{"p.toml": "permit_path = '/b'"})
	b.l.Layers = []Layer{a.l.Layers[0], b.l.Layers[0]}
	b.policy("p")
	a.chmod(".", 0o777)
	if _, err := b.l.Load("p"); !errors.Is(err, resolve.ProfileUntrusted) {
		t.Error(err)
	}
	if entries, err := b.l.List(); !errors.Is(err, resolve.ProfileUntrusted) || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestSearchPath(t *testing.T) {
	dirs := func(layers []Layer) (d []string) {
		for _, l := range layers {
			d = append(d, l.Name+" "+l.Dir)
		}
		return d
	}
	f := &resolve.Facts{ConfigHome: "/h/.config/", Cwd: "/w"}
	want := []string{"operations /etc/confinectl/profiles", "user /h/.config/confinectl/profiles", "vendor /usr/local/share/confinectl/profiles", "vendor /usr/share/confinectl/profiles", "built-in built-in"}
	if diff := cmp.Diff(want, dirs(SearchPath(f, fstest.MapFS{}, nil))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"--profile-dir /w/cfg", "--profile-dir /x"}, dirs(SearchPath(f, fstest.MapFS{}, []string{"cfg", "/x"}))); diff != "" {
		t.Error(diff)
	}
	f.ConfigHome = ""
	if len(SearchPath(f, fstest.MapFS{}, nil)) != 4 {
		t.Error("a user layer without a home")
	}
}

func TestHostFacts(t *testing.T) {
	f := HostFacts([]string{"HOME=/h/", "XDG_CACHE_HOME=relative", "XDG_DATA_HOME=/d", "XDG_STATE_HOME=", "TMPDIR=/t"})
	got := []string{f.Home, f.ConfigHome, f.CacheHome, f.DataHome, f.StateHome, f.RuntimeDir, f.TmpRoot}
	if f.OS == "darwin" {
		got[6] = "/t" // TMPDIR does not count there
	}
	if diff := cmp.Diff([]string{"/h/", "/h/.config", "/h/.cache", "/d", "/h/.local/state", "", "/t"}, got); diff != "" {
		t.Error(diff)
	}
	if f := HostFacts(nil); f.Home != "" || f.ConfigHome != "" || f.UID != os.Getuid() || f.Cwd == "" {
		t.Errorf("without an environment: %+v", f)
	}
}
