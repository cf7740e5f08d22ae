package resolve

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// kernel resolves a path by opening it, and says what it arrived at.
func kernel(t *testing.T, path string) (real string, id FileID, err error) {
	t.Helper()
	fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", FileID{}, err
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	real, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		t.Fatal(err)
	}
	return real, FileID{uint64(st.Dev), uint64(st.Ino)}, nil
}

const oPath = 0x200000 // O_PATH, open(2)

// sameAsKernel walks a path both ways and compares the outcome.
func sameAsKernel(t *testing.T, path string) {
	t.Helper()
	real, id, kerr := kernel(t, path)
	tr, err := NewWalker().Walk(path)
	if err == nil && tr.Rest != "" {
		err = syscall.ENOENT
	}
	if err != kerr {
		t.Fatalf("Walk(%q) ends with %v, the kernel with %v", path, err, kerr)
	}
	if err == nil && (tr.Real != real || tr.Stat.ID != id) {
		t.Fatalf("Walk(%q) = %q %v, the kernel arrives at %q %v", path, tr.Real, tr.Stat.ID, real, id)
	}
	if err == nil && !tr.Passes(id) {
		t.Fatalf("the trail of %q does not pass its own end", path)
	}
}

// A look at a path as a whole, through a symlink, makes nothing below it plain.
func TestPlain(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	build(t, dir, "d real\nd real/dir\nf real/dir/x\nl link real")
	w := NewWalker()
	if _, err := w.Walk(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lstat(dir + "/link/dir"); err != nil {
		t.Fatal(err)
	}
	if st, sure := w.plain(dir + "/link/dir/x"); sure {
		t.Errorf("through a symlink: %v", st)
	}
	if _, err := w.Walk(dir + "/link/dir"); err != nil {
		t.Fatal(err)
	}
	if st, sure := w.plain(dir + "/link/dir/x"); sure {
		t.Errorf("through a symlink that was walked: %v", st)
	}
	if st, sure := w.plain(dir + "/real/dir/x"); !sure || st == nil {
		t.Errorf("the control: %v, %v", st, sure)
	}
	if st, sure := w.plain(dir + "/real/dir/none"); !sure || st != nil {
		t.Errorf("the control, of nothing: %v, %v", st, sure)
	}
}

// build makes a tree from lines "d NAME", "f NAME" and "l NAME TARGET"; a
// TARGET that begins with "@" is absolute and begins at the tree. Lines that cannot be done are passed over.
func build(t *testing.T, base, script string) {
	t.Helper()
	for line := range strings.SplitSeq(script, "\n") {
		f := strings.SplitN(line, " ", 3)
		if len(f) < 2 || f[1] == "" || strings.Contains(f[1], "..") || strings.Contains(line, "\x00") || len(line) > 300 {
			continue
		}
		name := filepath.Join(base, f[1])
		switch f[0] {
		case "d":
			os.Mkdir(name, 0o755)
		case "f":
			if fd, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o644); err == nil {
				fd.Close()
			}
		case "l":
			if len(f) == 3 && f[2] != "" {
				os.Symlink(strings.Replace(f[2], "@", base+"/", 1), name)
			}
		}
	}
}

const sampleTree = "d a\nd a/b\nd a/b/c\nf a/f\nl l a/b\nl a/up ..\nl abs @a/b/c\nl dang nowhere/x\nl file a/f\nl fslash a/f/\nl dslash a/b/\n" +
	"l loop loop\nl m1 m2\nl m2 m1\nl dot .\nl rootl /\nl a/b/back ../../a/b/c\nd ws p\nl sp a/b/c/../c/."

func TestWalkAgainstKernel(t *testing.T) {
	needsProc(t)
	base := t.TempDir()
	build(t, base, sampleTree)
	chain := "a"
	for i := range 45 { // l0 → a, l1 → l0 …: 40 links are followed, 41 are not
		name := fmt.Sprintf("chain%d", i)
		if err := os.Symlink(chain, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
		chain = name
	}
	if err := os.Symlink(strings.Repeat("a/../", 800)+"a/b", base+"/longest"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{
		"/longest", "/longest/..",
		"", "/", "//", "/.", "/..", "/a", "/a/", "/a//b", "/a/./b", "/a/../a", "/a/b/../../a/b", "/l", "/l/", "/l/..", "/l/../f", "/a/up", "/a/up/a/f",
		"/abs", "/abs/..", "/abs/../..", "/dang", "/dang/y", "/dang/", "/file", "/file/", "/file/x", "/file/.", "/file/..", "/fslash", "/fslash/x", "/dslash", "/dslash/c",
		"/loop", "/loop/", "/m1", "/m1/x", "/dot/dot/dot/a", "/rootl", "/rootl/tmp", "/rootl/..", "/a/b/back", "/sp", "/nope", "/nope/..", "/nope/../a", "/a/f/../f",
		"/chain38", "/chain39", "/chain40", "/chain41", "/chain44/b", "/" + strings.Repeat("x", 255), "/" + strings.Repeat("x", 256),
		"/" + strings.Repeat("a/../", 700), "/" + strings.Repeat("a/../", 820), "/a/" + strings.Repeat("/", 3000), "/\x00", "/a\x00b",
	} {
		sameAsKernel(t, base+p)
	}
	for _, p := range []string{"/", "//", "/..", "/../..", "/proc/self/exe", "/proc/self/cwd", "/bin/sh", "/lib64", "/dev/stdin/..", "/etc/mtab"} {
		if _, _, err := kernel(t, p); err == nil {
			sameAsKernel(t, p)
		}
	}
}

// A link to an open file has no path to walk: the walk must not pretend that
// its text was one.
func TestWalkRefusesMagicLinks(t *testing.T) {
	needsProc(t)
	f, err := os.Create(filepath.Join(t.TempDir(), "gone"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	link := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	sameAsKernel(t, link) // its text is still its path
	if err := os.Rename(f.Name(), f.Name()+"2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Name(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sameAsKernel(t, link) // the kernel's text follows the rename
	if err := os.Remove(f.Name() + "2"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.Name()+"2 (deleted)", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewWalker().Walk(link); err != syscall.ESTALE {
		t.Errorf("Walk of a link whose text names another file ends with %v, want ESTALE", err)
	}
}

// Without permission to search a directory the walk stops where the kernel
// does, also for "." and "..".
func TestWalkWithoutPermission(t *testing.T) {
	needsProc(t)
	if os.Getuid() != 0 {
		t.Log("as an ordinary user the directory belongs to the caller, and its mode decides")
	}
	base := t.TempDir()
	build(t, base, "d open\nd shut\nd shut/in\nf shut/f\nl open/l ../shut/in")
	for dir := base; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if os.Chmod(dir, 0o755) != nil {
			break
		}
	}
	shut := filepath.Join(base, "shut")
	if err := os.Chmod(shut, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(shut, 0o700)
	asOrdinaryUser(t, func() {
		if _, err := NewWalker().Walk(shut + "/in"); err != syscall.EACCES {
			t.Errorf("control: Walk below a directory without x ends with %v, want EACCES", err)
		}
		for _, p := range []string{"/shut", "/shut/", "/shut/.", "/shut/..", "/shut/in", "/shut/nope", "/open/l", "/open/l/..", "/shut/f/x"} {
			sameAsKernel(t, base+p)
		}
	})
}

func FuzzWalk(f *testing.F) {
	f.Add(sampleTree, "a/b/../../l/c")
	f.Add("d a\nl a/l @a\nf a/f", "a/l/l/f/")
	f.Add("l x y\nl y x", "x/z")
	f.Add("l x a//\nd a\nf a/q", "x/../a/./q/.")
	f.Fuzz(func(t *testing.T, script, path string) {
		if len(script) > 2000 || len(path) > 5000 || strings.Contains(path, "proc") {
			t.Skip("outside of what is compared")
		}
		base := t.TempDir()
		build(t, base, script)
		sameAsKernel(t, base+"/"+path)
	})
}

// needsProc ends a test on a system whose kernel cannot be asked this way.
func needsProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the kernel is asked through /proc, on Linux only")
	}
}
