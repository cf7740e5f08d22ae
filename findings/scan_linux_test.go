package findings

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
	"github.com/confinectl/confinectl/test/testenv"
)

// scan makes files and looks at them. A name that ends with a slash is a directory.
func scan(t *testing.T, files map[string]string, more ...string) (dir string, s *Scanner, b *resolve.Boundary) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := dir + "/in/" + name
		if err := os.MkdirAll(filepath.Dir(dir+"/in/"+name+"x"), 0o755); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "/") {
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	p, err := resolve.DecodePolicy(fmt.Appendf(nil, `{"permit_path":%q%s}`, dir+"/in", strings.Join(more, "")))
	if err != nil {
		t.Fatal(err)
	}
	f := &resolve.Facts{OS: runtime.GOOS, UID: os.Getuid(), Home: dir + "/home", TmpRoot: "/tmp", Cwd: "/", Env: []string{"PATH=" + dir + "/in/bin:/usr/bin"}}
	if b, err = resolve.Resolve(p, f, resolve.Request{}); err != nil {
		t.Fatal(err)
	}
	return dir, NewScanner(f), b
}

func paths(list []Finding, c Code) (p []string) {
	for _, f := range list {
		if f.Code == c {
			p = append(p, f.Path)
		}
	}
	return p
}

func TestScan(t *testing.T) {
	dir, s, b := scan(t, map[string]string{
		"src/main.go": "", "deep/er/.bashrc": "", ".git/config": "[core]\n hooksPath = .husky", ".git/hooks/": "", "bin/": "",
		".claude/settings.json": `{"model":"x"}`, "sub/.claude/settings.json": `{"hooks":{}}`, "notes.bashrc": "", ".confinectl-probe-x/.bashrc": "",
		"x/.git/objects/.bashrc": "",
	})
	in := dir + "/in/"
	if err := os.Symlink("/root", in+"link"); err != nil {
		t.Fatal(err)
	}
	s.Own = ".confinectl-probe-"
	list := s.Scan(b, 9)
	for c, want := range map[Code][]string{
		ShellStartup: {in + "deep/er/.bashrc"}, GitHooks: {in + ".git/hooks", in + ".husky"}, PathDirectory: {in + "bin"},
		AgentHooks: {in + "sub/.claude/settings.json"}, HardLink: nil, DeviceNode: nil, SocketInReach: nil, ScanLimited: nil,
	} {
		if got := paths(list, c); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", c, got, want)
		}
	}
}

// Many of one code are counted, and a tree that takes too long is cut off, aloud.
func TestScanIsBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 100 {
		files[fmt.Sprintf("d%03d/.envrc", i)] = ""
	}
	dir, s, b := scan(t, files)
	list := s.Scan(b, 9)
	if got := paths(list, EnvRC); len(got) != perCode+1 || !slices.Contains(got, dir+"/in") {
		t.Errorf("%d findings: %q", len(got), got)
	}
	if !slices.ContainsFunc(list, func(f Finding) bool { return strings.HasPrefix(f.Detail, "and 92 more") }) {
		t.Errorf("%+v", list)
	}
	_, s, b = scan(t, files)
	s.Time = time.Nanosecond
	list = s.Scan(b, 9)
	if got := paths(list, ScanLimited); len(got) != 1 {
		t.Errorf("%+v", list)
	}
}

// A socket is within reach below ABI 9, and from there on only where a rule says so.
func TestSockets(t *testing.T) {
	dir, s, b := scan(t, map[string]string{"f": ""})
	for _, name := range []string{"outside", "in/inside"} {
		l, err := net.Listen("unix", dir+"/"+name)
		testenv.Need(t, err == nil, fmt.Sprint("a temporary directory with a short name: ", err))
		defer l.Close()
	}
	if got := paths(s.Scan(b, 8), SocketInReach); !slices.Contains(got, dir+"/outside") || !slices.Contains(got, dir+"/in/inside") {
		t.Errorf("ABI 8: %q", got)
	}
	if got := paths(s.Scan(b, 9), SocketInReach); slices.Contains(got, dir+"/outside") || !slices.Contains(got, dir+"/in/inside") {
		t.Errorf("ABI 9: %q", got)
	}
}

func TestDeviceNodeAndMount(t *testing.T) {
	dir, s, b := scan(t, map[string]string{"f": "", "m/": ""})
	err := unix.Mknod(dir+"/in/node", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
	testenv.Need(t, err == nil, fmt.Sprint("a user who may make a device node: ", err))
	if got := paths(s.Scan(b, 9), DeviceNode); !slices.Equal(got, []string{dir + "/in/node"}) {
		t.Errorf("%q", got)
	}
	s = NewScanner(s.Facts)
	s.mounts = func() []string { return []string{"/", dir + "/in", dir + "/in/m", dir + "/inside"} }
	if got := paths(s.Scan(b, 9), MountPoint); !slices.Equal(got, []string{dir + "/in/m"}) {
		t.Errorf("%q", got)
	}
}

func TestMountPoints(t *testing.T) {
	if got := mountPoints(); !slices.Contains(got, "/proc") {
		t.Errorf("%q", got)
	}
	if got := unescape(`/a\040b\134c\`); got != `/a b\c\` {
		t.Errorf("%q", got)
	}
}
