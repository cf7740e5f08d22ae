package enforce

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/test/testenv"
)

// TestExecConfines tries everything twice: without a boundary, where it must
// work, and inside one, where it must end as the table says.
func TestExecConfines(t *testing.T) {
	needABI(t, 3)
	cases := []struct{ op, want string }{
		{"write|%in/f", "ok"},
		{"write|%in/new", "ok"},
		{"read|%in/f", "ok"},
		{"list|%in", "ok"},
		{"exec|%in/prog", "ok"},
		{"truncate|%in/f", "ok"},
		{"mkdir|%in/newdir", "ok"},
		{"rmdir|%in/newdir", "ok"},
		{"mkfifo|%in/fifo", "ok"},
		{"bind|%in/sock", "ok"},
		{"symlink|../out/f|%in/newlink", "ok"},
		{"rename|%in/new|%in/a/new", "ok"},
		{"link|%in/a/new|%in/b/new", "ok"},
		{"unlink|%in/b/new", "ok"},
		{"write|/dev/null", "ok"},

		{"write|%out/f", "EACCES"},
		{"write|%out/new", "EACCES"},
		{"write|%in/../out/f", "EACCES"},
		{"write|%in/filelink", "EACCES"},
		{"write|%in/dirlink/f", "EACCES"},
		{"write|/proc/self/root%out/f", "EACCES"},
		{"read|%out/f", "EACCES"},
		{"list|%out", "EACCES"},
		{"list|%", "EACCES"},
		{"exec|%out/prog", "EACCES"},
		{"truncate|%out/f", "EACCES"},
		{"mkdir|%out/newdir", "EACCES"},
		{"mkfifo|%out/fifo", "EACCES"},
		{"bind|%out/sock", "EACCES"},
		{"symlink|f|%out/newlink", "EACCES"},
		{"rename|%out/f|%out/d/f", "EACCES"},
		{"rename|%out/d/f|%in/stolen", "EACCES|EXDEV"},
		{"rename|%in/f|%out/f", "EACCES|EXDEV"},
		{"link|%out/f|%in/linked", "EXDEV"},
		{"unlink|%out/f", "EACCES"},
	}
	asEach(t, func(t *testing.T, uid int) {
		var ops []string
		for _, c := range cases {
			ops = append(ops, c.op)
		}
		w := newWorld(t, uid)
		for op, got := range w.unconfined(ops...) {
			if got != "ok" {
				t.Errorf("control: %s: %s", op, got)
			}
		}
		w = newWorld(t, uid)
		// The control moved these two; here they must be there to be denied.
		if err := os.WriteFile(w.path("out/d/f"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(w.path("out/d/f"), uid, uid); err != nil {
			t.Fatal(err)
		}
		got, v, status := w.confined(launch{}, nil, ops...)
		if status != 0 {
			t.Fatalf("status %d: %+v", status, v)
		}
		for _, c := range cases {
			if r := got[w.expand(c.op)]; !slices.Contains(strings.Split(c.want, "|"), r) {
				t.Errorf("%s: %q, want %s", c.op, r, c.want)
			}
		}
		if b, err := os.ReadFile(w.path("out/f")); err != nil || string(b) != "content\n" {
			t.Errorf("the file outside was changed: %q, %v", b, err)
		}
	})
}

func TestExecGrants(t *testing.T) {
	needABI(t, 3)
	asEach(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		policy := `{"permit_extra_subpaths": ["%out/d", "+%made"], "read_paths": ["%out/f"], "private_tmp": true, "name": "p",
			"agent_scratch": {"agent": "x", "provision": true}, "set_env": {"MARK": "m"}}`
		if err := os.Chown(w.dir, uid, uid); err != nil {
			t.Fatal(err)
		}
		got, v, status := w.confined(launch{Policy: policy, Dir: "%in/a"}, nil,
			"write|%out/d/f", "write|%made/f", "write|%tmp/x-"+fmt.Sprint(uid)+"/f", "write|%tmp/confinectl-"+fmt.Sprint(uid)+"/p/f",
			"read|%out/f", "write|%out/f", "write|%tmp/f", "rename|%out/d/f|%made/moved", "cwd", "env|MARK", "env|TMPDIR", "no_new_privs")
		if status != 0 {
			t.Fatalf("status %d: %+v", status, v)
		}
		private := w.path("tmp/confinectl-" + fmt.Sprint(uid) + "/p")
		for op, want := range map[string]string{
			"write|%out/d/f": "ok", "write|%made/f": "ok", "write|%tmp/x-" + fmt.Sprint(uid) + "/f": "ok", "write|" + private + "/f": "ok",
			"read|%out/f": "ok", "write|%out/f": "EACCES", "write|%tmp/f": "EACCES", "rename|%out/d/f|%made/moved": "ok",
			"cwd": w.path("in/a"), "env|MARK": "m", "env|TMPDIR": private, "no_new_privs": "1",
		} {
			if r := got[w.expand(op)]; r != want {
				t.Errorf("%s: %q, want %q", op, r, want)
			}
		}
		for _, d := range []string{w.path("made"), w.path("tmp/x-" + fmt.Sprint(uid)), private} {
			st, err := os.Stat(d)
			if err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("%s: %v %v, want mode 0700", d, st, err)
			}
		}
	})
}

// TestExecKeepsPid holds that nothing stays between the caller and the command.
func TestExecKeepsPid(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	cmd := exec.Command(w.path("bin/t"))
	cmd.Env = []string{"ENFORCE_ROLE=launch", "ENFORCE_LAUNCH=" + w.encode(launch{}, []string{"pid"})}
	out, err := cmd.Output()
	if want := fmt.Sprintf("pid=%d\n", cmd.ProcessState.Pid()); err != nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}

func TestExecRefuses(t *testing.T) {
	needABI(t, 3)
	uid := os.Getuid()
	scratch := `{"agent_scratch": {"agent": "x", "provision": true}}`
	scratchDir := fmt.Sprintf("%%tmp/x-%d", uid)
	private := `{"name": "p", "private_tmp": true}`
	privateTop := fmt.Sprintf("%%tmp/confinectl-%d", uid)
	cases := []struct {
		name     string
		launch   launch
		code     string
		contains string
		root     bool // needs root
	}{
		{name: "permit path became a symlink", code: "path-moved", contains: "goes through a symlink",
			launch: launch{Between: [][]string{{"rename", "%in", "%was"}, {"symlink", "out", "%in"}}}},
		{name: "a directory above became a symlink", code: "path-moved", contains: "symlink",
			launch: launch{Permit: "%in/a", Between: [][]string{{"rename", "%in", "%was"}, {"symlink", "was", "%in"}}}},
		{name: "permit path was replaced", code: "path-moved", contains: "another directory",
			launch: launch{Between: [][]string{{"rename", "%in", "%was"}, {"mkdir", "%in"}}}},
		{name: "permit path became a file", code: "path-moved", contains: "was a directory and is now a file",
			launch: launch{Permit: "%in/a", Between: [][]string{{"remove", "%in/a"}, {"write", "%in/a"}}}},
		{name: "a directory above became a file", code: "path-moved", contains: "is none any more",
			launch: launch{Permit: "%in/a", Between: [][]string{{"rename", "%in", "%was"}, {"write", "%in"}}}},
		{name: "read path was replaced", code: "path-moved", contains: "another file",
			launch: launch{Policy: `{"read_paths": ["%out/f"]}`, Between: [][]string{{"rename", "%out/f", "%out/g"}, {"write", "%out/f"}}}},
		{name: "permit file became a symlink", code: "path-moved", contains: "symlink",
			launch: launch{Policy: `{"permit_files": ["%out/f"]}`, Between: [][]string{{"rename", "%out/f", "%out/g"}, {"symlink", "g", "%out/f"}}}},
		{name: "the command was replaced", code: "path-moved", contains: "another file",
			launch: launch{Command: []string{"%out/prog"}, Between: [][]string{{"rename", "%out/prog", "%was"}, {"write", "%out/prog"}}}},
		{name: "working directory was replaced", code: "path-moved", contains: "another directory",
			launch: launch{Dir: "%in/a", Between: [][]string{{"rename", "%in/a", "%was"}, {"mkdir", "%in/a"}}}},
		{name: "permit path is gone", code: "path-missing", contains: "does not exist any more",
			launch: launch{Permit: "%in/a", Between: [][]string{{"remove", "%in/a"}}}},
		{name: "parent of a directory to be made is gone", code: "path-missing",
			launch: launch{Policy: `{"permit_extra_subpaths": ["+%out/d/new"]}`, Between: [][]string{{"remove", "%out/d"}}}},
		{name: "parent of a directory to be made became a symlink", code: "path-moved",
			launch: launch{Policy: `{"permit_extra_subpaths": ["+%out/d/new"]}`, Between: [][]string{{"remove", "%out/d"}, {"symlink", "../in", "%out/d"}}}},

		{name: "scratch became a symlink", code: "scratch-unfit", contains: "symlink",
			launch: launch{Policy: scratch, Between: [][]string{{"symlink", "../in", scratchDir}}}},
		{name: "scratch became a file", code: "scratch-unfit", contains: "is a file, not a directory",
			launch: launch{Policy: scratch, Between: [][]string{{"write", scratchDir}}}},
		{name: "scratch became writable by others", code: "scratch-unfit", contains: "0777",
			launch: launch{Policy: scratch, Between: [][]string{{"mkdir", scratchDir, "777"}}}},
		{name: "scratch became writable by the group", code: "scratch-unfit", contains: "0720",
			launch: launch{Policy: scratch, Between: [][]string{{"mkdir", scratchDir, "720"}}}},
		{name: "scratch has another owner", code: "scratch-unfit", contains: "owned by uid 1000, not by uid 0", root: true,
			launch: launch{Policy: scratch, Between: [][]string{{"mkdir", scratchDir, "700"}, {"chown", scratchDir, "1000"}}}},
		{name: "temp root lets others replace", code: "scratch-unfit", contains: "lets others replace",
			launch: launch{Policy: scratch, Between: [][]string{{"chmod", "%tmp", "777"}}}},
		{name: "temp root has another owner", code: "scratch-unfit", contains: "lets others replace", root: true,
			launch: launch{Policy: scratch, Between: [][]string{{"chown", "%tmp", "1000"}}}},
		{name: "the directory above private_tmp became a symlink", code: "scratch-unfit", contains: "symlink",
			launch: launch{Policy: private, Between: [][]string{{"symlink", "../in", privateTop}}}},
		{name: "the directory above private_tmp is loose", code: "scratch-unfit", contains: "0777",
			launch: launch{Policy: private, Between: [][]string{{"mkdir", privateTop, "777"}}}},

		{name: "too few descriptors", code: "apply-failed", contains: "RLIMIT_NOFILE is 6",
			launch: launch{Files: 6}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				needRoot(t)
			}
			before := newWorld(t, uid)
			calm := c.launch
			calm.Between, calm.Files = nil, 0
			if calm.Command == nil {
				if got, v, status := before.confined(calm, nil, "write|%in/a/f"); status != 0 || got[before.expand("write|%in/a/f")] != "ok" {
					t.Fatalf("control: %v %+v %d", got, v, status)
				}
			}
			only := []string{"rehearse", ""}
			if c.launch.Files > 0 {
				only = only[1:]
			}
			for _, only := range only {
				w := newWorld(t, uid)
				l := c.launch
				l.Only = only
				l.Between = slices.Clone(l.Between)
				for i := range l.Between {
					l.Between[i] = slices.Clone(l.Between[i])
				}
				got, v, status := w.confined(l, nil, "pid")
				if status != StatusRefused || !slices.Equal(v.Codes, []string{c.code}) || !strings.Contains(v.Text, w.expand(c.contains)) {
					t.Errorf("%s: status %d, %v, %s; want %s: …%s", only, status, v.Codes, v.Text, c.code, w.expand(c.contains))
				}
				if len(got) > 0 {
					t.Errorf("%s: it ran: %v", only, got)
				}
			}
		})
	}
}

func TestExecUnreadable(t *testing.T) {
	needABI(t, 3)
	uid := os.Getuid()
	if uid == 0 {
		uid = 1000 // no permission stops root
	}
	w := newWorld(t, uid)
	_, v, status := w.confined(launch{Permit: "%in/a", Between: [][]string{{"chmod", "%in", "0"}}}, nil, "pid")
	if status != StatusRefused || !slices.Equal(v.Codes, []string{"path-unreadable"}) {
		t.Errorf("status %d, %+v", status, v)
	}
	if err := os.Chmod(w.path("in"), 0o755); err != nil {
		t.Fatal(err)
	}
	w = newWorld(t, uid)
	_, v, status = w.confined(launch{Dir: "%in/a", Between: [][]string{{"chmod", "%in/a", "0"}}}, nil, "pid")
	if status != StatusRefused || !slices.Equal(v.Codes, []string{"path-unreadable"}) || !strings.Contains(v.Text, "may not be entered") {
		t.Errorf("working directory: status %d, %+v", status, v)
	}
}

// TestRehearseChangesNothing holds that a rehearsal makes no directory, and
// goes through where Exec would make it.
func TestRehearseChangesNothing(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	policy := `{"name": "p", "private_tmp": true, "permit_extra_subpaths": ["+%made"], "agent_scratch": {"agent": "x", "provision": true}}`
	_, v, status := w.confined(launch{Policy: policy, Only: "rehearse"}, nil, "pid")
	if status != 0 {
		t.Fatalf("status %d: %+v", status, v)
	}
	tmp, err := os.ReadDir(w.path("tmp"))
	if _, made := os.Lstat(w.path("made")); err != nil || len(tmp) > 0 || !os.IsNotExist(made) {
		t.Errorf("something was made: %v %v %v", tmp, err, made)
	}
}

func TestExecDescriptors(t *testing.T) {
	needABI(t, 3)
	asEach(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		file, err := os.OpenFile(w.path("out/f"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		dir, err := os.Open(w.path("out"))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		files := []*os.File{file, dir, file} // 3, 4, 5

		out, _, _ := w.process("act", nil, files, "fdwrite|3", "fd|4", "fdwrite|5")
		if got := results(out); got["fdwrite|3"] != "ok" || got["fd|4"] != "ok" || got["fdwrite|5"] != "ok" {
			t.Fatalf("control: %v", got)
		}
		got, v, status := w.confined(launch{Keep: []int{5, 0}}, files, "fd|0", "fd|3", "fd|4", "fdwrite|3", "fdwrite|5")
		if status != 0 {
			t.Fatalf("status %d: %+v", status, v)
		}
		for op, want := range map[string]string{"fd|0": "ok", "fd|3": "EBADF", "fd|4": "EBADF", "fdwrite|3": "EBADF", "fdwrite|5": "ok"} {
			if got[op] != want {
				t.Errorf("%s: %s, want %s", op, got[op], want)
			}
		}
		for _, fd := range []int{77, -1} {
			if _, v, status := w.confined(launch{Keep: []int{fd}}, files, "pid"); status != StatusRefused || v.Keep != fd || v.Codes != nil {
				t.Errorf("keep %d: status %d: %+v", fd, status, v)
			}
		}
		// Without files the runtime has descriptors of its own there.
		for fd := 3; fd < 8; fd++ {
			if _, v, status := w.confined(launch{Keep: []int{fd}}, nil, "pid"); status != StatusRefused || v.Keep != fd {
				t.Errorf("keep %d, not inherited: status %d: %+v", fd, status, v)
			}
		}
	})
}

func TestExecCapabilities(t *testing.T) {
	needABI(t, 3)
	needRoot(t)
	w := newWorld(t, 0)
	ops := []string{"cap|" + fmt.Sprint(unix.CAP_CHOWN), "cap|" + fmt.Sprint(unix.CAP_SETPCAP), "mkchar|%in/node"}
	for _, c := range droppedCapabilities {
		ops = append(ops, fmt.Sprintf("cap|%d", c))
	}
	before := w.unconfined(ops...)
	if before[w.expand("mkchar|%in/node")] != "ok" {
		t.Fatalf("control: %v", before)
	}
	w = newWorld(t, 0)
	got, v, status := w.confined(launch{}, nil, ops...)
	if status != 0 {
		t.Fatalf("status %d: %+v", status, v)
	}
	for _, c := range droppedCapabilities {
		if r := got[fmt.Sprintf("cap|%d", c)]; r != "none" {
			t.Errorf("capability %d: %s", c, r)
		}
	}
	for _, op := range ops[:2] {
		if got[op] != before[op] || got[op] == "none" {
			t.Errorf("%s: %s, before %s", op, got[op], before[op])
		}
	}
	if r := got[w.expand("mkchar|%in/node")]; r != "EPERM" && r != "EACCES" {
		t.Errorf("a device node was made: %s", r)
	}
}

// TestExecAmbientCapabilities is for an ordinary user that was given one of
// the capabilities.
func TestExecAmbientCapabilities(t *testing.T) {
	needABI(t, 3)
	needRoot(t)
	setpriv, err := exec.LookPath("setpriv")
	testenv.Need(t, err == nil, "setpriv")
	w := newWorld(t, 1000)
	run := func(caps, role string, ops ...string) (map[string]string, string) {
		cmd := exec.Command(setpriv, "--reuid=1000", "--regid=1000", "--clear-groups", "--inh-caps="+caps, "--ambient-caps="+caps, w.path("bin/t"))
		cmd.Env = []string{"ENFORCE_ROLE=" + role, "ENFORCE_LAUNCH=" + w.encode(launch{}, ops)}
		if role == "act" {
			cmd.Args = append(cmd.Args, ops...)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, _ := cmd.Output()
		return results(string(out)), stderr.String()
	}
	mknod, chown := fmt.Sprintf("cap|%d", unix.CAP_MKNOD), fmt.Sprintf("cap|%d", unix.CAP_CHOWN)
	const caps = "+mknod,+chown,+setpcap"
	if got, _ := run(caps, "act", mknod, chown); got[mknod] != "peiba" || got[chown] != "peiba" {
		t.Fatalf("control: %v", got)
	}
	if got, text := run(caps, "launch", mknod, chown); got[mknod] != "none" || got[chown] != "peiba" {
		t.Errorf("%v %s", got, text)
	}
	// Without CAP_SETPCAP the bounding set cannot be lowered: refused, not half done.
	if got, text := run("+mknod", "launch", mknod); len(got) > 0 || !strings.Contains(text, "apply-failed") || !strings.Contains(text, "PR_CAPBSET_DROP") {
		t.Errorf("%v %s", got, text)
	}
}

// TestExecBoundingSetUnknown: a set that can be neither lowered nor read, as under the filter of a
// container, is refused. What cannot be known is not taken for done.
func TestExecBoundingSetUnknown(t *testing.T) {
	needABI(t, 3)
	needRoot(t)
	w := newWorld(t, 0)
	for _, filtered := range []bool{false, true} {
		out, v, status := w.process("launch", []string{"ENFORCE_LAUNCH=" + w.encode(launch{NoSets: filtered}, []string{"write|%in/f"})}, nil)
		if ran := len(results(out)) > 0; ran == filtered || filtered && (status != StatusRefused || !slices.Equal(v.Codes, []string{"apply-failed"}) || !strings.Contains(v.Text, "PR_CAPBSET_DROP")) {
			t.Errorf("filtered %t: ran %t, status %d, %+v", filtered, ran, status, v)
		}
	}
}

// outsider is a process of uid outside every boundary.
func outsider(t *testing.T, uid int) (pid int) {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestExecScopes(t *testing.T) {
	needABI(t, 6)
	asEach(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		name := fmt.Sprintf("@enforce-test-%d-%d", os.Getpid(), uid)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(fd, 8); err != nil {
			t.Fatal(err)
		}
		signal, connect := fmt.Sprintf("signal|%d", outsider(t, uid)), "connect|"+name
		if got := w.unconfined(signal, connect); got[signal] != "ok" || got[connect] != "ok" {
			t.Fatalf("control: %v", got)
		}
		got, v, status := w.confined(launch{}, nil, signal, connect)
		if status != 0 || got[signal] != "EPERM" || got[connect] != "EPERM" {
			t.Errorf("status %d: %v %+v", status, got, v)
		}
	})
}

// TestExecLayers confines a program that confines a program, and so on: 16
// layers work, the 17th is refused and does not run.
func TestExecLayers(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	got, v, status := w.confined(launch{Layers: 15}, nil, "write|%in/f", "write|%out/f")
	if status != 0 || got[w.expand("write|%in/f")] != "ok" || got[w.expand("write|%out/f")] != "EACCES" {
		t.Errorf("16 layers: status %d: %v %+v", status, got, v)
	}
	got, v, status = w.confined(launch{Layers: 16}, nil, "write|%in/f")
	if status != StatusRefused || !slices.Equal(v.Codes, []string{"layer-limit"}) || len(got) > 0 {
		t.Errorf("17 layers: status %d: %v %+v", status, got, v)
	}
}

func TestExecErrors(t *testing.T) {
	needABI(t, 3)
	for _, c := range []struct {
		name, path, content string
		mode                os.FileMode
		command             string
		between             [][]string
		status              int
		contains            string
	}{
		{name: "not found", command: "no-such-program-here", status: 127, contains: "no-such-program-here"},
		{name: "path not found", command: "%in/nothing", status: 127, contains: "%in/nothing"},
		{name: "missing interpreter", path: "script", content: "#!/no/such/interpreter\n", mode: 0o755, command: "%in/script", status: 126, contains: "/no/such/interpreter"},
		{name: "no format", path: "text", content: "hello\n", mode: 0o755, command: "%in/text", status: 126, contains: "format"},
		{name: "not executable", path: "data", content: "hello\n", mode: 0o644, command: "%in/data", status: 126, contains: "not executable"},
		{name: "directory", command: "%in/a", status: 126, contains: "directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, os.Getuid())
			if c.path != "" {
				if err := os.WriteFile(w.path("in/"+c.path), []byte(c.content), c.mode); err != nil {
					t.Fatal(err)
				}
			}
			_, v, status := w.confined(launch{Command: []string{c.command}, Between: c.between}, nil)
			if status != c.status || v.Status != c.status || len(v.Codes) > 0 || !strings.Contains(v.Text, w.expand(c.contains)) {
				t.Errorf("status %d: %+v", status, v)
			}
		})
	}
}

// TestMissingCommandComesLast holds that a refusal is not hidden by a command
// that does not exist either.
func TestMissingCommandComesLast(t *testing.T) {
	needABI(t, 3)
	w := newWorld(t, os.Getuid())
	_, v, status := w.confined(launch{Permit: "%in/a", Command: []string{"no-such-program-here"}, Between: [][]string{{"remove", "%in/a"}}}, nil)
	if status != StatusRefused || !slices.Equal(v.Codes, []string{"path-missing"}) {
		t.Errorf("status %d: %+v", status, v)
	}
}

// TestExecFollowsRestrict looks at the system calls of the confined thread.
// What the Go runtime itself does may come in between: it restores RLIMIT_NOFILE
// where it raised it at the start, allocates, and interrupts threads.
func TestExecFollowsRestrict(t *testing.T) {
	needABI(t, 3)
	strace, err := exec.LookPath("strace")
	testenv.Need(t, err == nil, "strace")
	w := newWorld(t, os.Getuid())
	trace := w.path("trace")
	cmd := exec.Command(strace, "-f", "-o", trace, w.path("bin/t"))
	cmd.Env = []string{"ENFORCE_ROLE=launch", "ENFORCE_LAUNCH=" + w.encode(launch{Command: []string{"/bin/true"}}, nil)}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	runtime := []string{"prlimit64(", "mmap(", "madvise(", "futex(", "rt_sig", "tgkill(", "getpid(", "<..."}
	thread, after := "", []string(nil)
	for line := range strings.Lines(string(b)) {
		id, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		call = strings.TrimSpace(call)
		if strings.HasPrefix(call, "landlock_restrict_self(") {
			thread, after = id, nil
			continue
		}
		if thread != id || !strings.Contains(call, "(") || slices.ContainsFunc(runtime, func(p string) bool { return strings.HasPrefix(call, p) }) {
			continue
		}
		after = append(after, call)
		if strings.HasPrefix(call, "execve(") {
			break
		}
	}
	if len(after) != 1 || !strings.HasPrefix(after[0], "execve(\"/") {
		t.Errorf("after landlock_restrict_self:\n%s", strings.Join(after, "\n"))
	}
}
