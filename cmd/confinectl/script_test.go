package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/test/fakeabi"
)

// The scripts in testdata run these programs. They are this test binary, which
// looks at the name that it was started by; nothing else is needed but a POSIX
// shell and its utilities.
var programs = map[string]func(){
	"confinectl": main,         // the real one
	"fakeabi":    fakeabi.Main, // another Landlock for a child
	"probe":      probeMain,    // what a shell cannot do; see probe_test.go
}

func TestMain(m *testing.M) {
	// Before testscript takes the directory out of os.Args[0]: confinectl looks
	// at the name that it was started by.
	if program := programs[filepath.Base(os.Args[0])]; program != nil {
		program()
		os.Exit(0)
	}
	syscall.Umask(0o022) // profiles that others may write are not trusted
	testscript.Main(m, programs)
}

// TestScripts runs every script of testdata. Each has a directory of its own, with
//
//	in/a in/b in/a/f   the permit path of the profile p
//	out/f              a file outside, "o"
//	cfg/p.toml         permit_path = "${env:WORK}/in", where the script has no other
//	home               $HOME, empty; no XDG variable is set
//
// and $P, the flag that makes cfg the only layer, $RAN, the file that a refused command
// must not have made, $BIN, where the programs lie, and $ABI, the Landlock ABI that
// this host uses.
func TestScripts(t *testing.T) {
	root, err := os.MkdirTemp("", "confinectl-scripts")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o755); err != nil { // some scripts start other users in it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(root); err != nil {
			t.Error(err)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata", WorkdirRoot: root,
		RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: setUp, Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": statusCmd, "refused": refusedCmd, "denied": deniedCmd, "json": jsonCmd, "await": awaitCmd,
		},
	})
}

// TestScriptsAsUser runs the whole set again as uid 1000 when the tests run as
// root: permissions, capabilities and the runtime read set differ.
func TestScriptsAsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("TestScripts was the run of an ordinary user")
	}
	dir, err := os.MkdirTemp("", "confinectl-user")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := removeAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, tmp := filepath.Join(dir, "scripts.test"), filepath.Join(dir, "tmp")
	data, err := os.ReadFile(self)
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), os.WriteFile(binary, data, 0o755), os.Mkdir(tmp, 0o755), os.Chown(tmp, 1000, 1000),
			os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("testdata")))
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "-test.run=^TestScripts$", "-test.timeout=10m")
	if testing.Verbose() { // with what was skipped, and why
		cmd.Args = append(cmd.Args, "-test.v")
	}
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + tmp, "CI=" + os.Getenv("CI")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	if err != nil || testing.Verbose() {
		t.Logf("as uid 1000: %s", out)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// removeAll also removes what a script left without permissions.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

func setUp(env *testscript.Env) error {
	confinectl, err := exec.LookPath("confinectl")
	if err != nil {
		return err
	}
	if err := os.Chmod(filepath.Dir(filepath.Dir(confinectl)), 0o755); err != nil { // for the other users
		return err
	}
	work := env.WorkDir
	vars := map[string]string{
		"HOME": work + "/home", "TMPDIR": work + "/.tmp", "LC_ALL": "C", "RAN": work + "/in/ran",
		"P": "--profile-dir=" + work + "/cfg", "BIN": filepath.Dir(confinectl), "ABI": strconv.Itoa(host().Used), "UID": strconv.Itoa(os.Getuid()),
	}
	if raceDetector() { // every process would sleep for a second at its end
		vars["GORACE"] = "atexit_sleep_ms=0"
	}
	for name, value := range vars {
		env.Setenv(name, value)
	}
	for _, dir := range []string{"in/a", "in/b", "out", "cfg", "home"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			return err
		}
	}
	for name, data := range map[string]string{"in/a/f": "i\n", "out/f": "o\n", "cfg/p.toml": "permit_path = \"${env:WORK}/in\"\n"} {
		f, err := os.OpenFile(filepath.Join(work, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue // the script brought its own
		}
		if err != nil {
			return err
		}
		if _, err := f.WriteString(data); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// host is what this machine can enforce.
var host = sync.OnceValue(enforce.Probe)

// mountNamespace reports whether this process may make mounts of its own.
var mountNamespace = sync.OnceValue(func() bool {
	return exec.Command("probe", "hide", "--", "true").Run() == nil
})

// raceDetector reports whether these programs were built with it.
var raceDetector = sync.OnceValue(func() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
})

// condition knows, beside testscript's own:
//
//	[landlock]   this host can confine; under CI=true it must
//	[abi:N]      the Landlock ABI in use is N or newer
//	[root]       the scripts run as root
//	[race]       the programs were built with the race detector, which has its own needs
//	[mountns]    mounts in a namespace of its own are possible; under CI=true root must have them
func condition(cond string) (bool, error) {
	missing := func(what string) (bool, error) {
		if os.Getenv("CI") == "true" {
			return false, errors.New(what + ", and CI=true does not let a test be skipped for that")
		}
		return false, nil
	}
	name, arg, _ := strings.Cut(cond, ":")
	switch name {
	case "landlock":
		if m := host().Missing; m != nil {
			return missing("this host cannot confine: " + m.Error())
		}
		return true, nil
	case "abi":
		n, err := strconv.Atoi(arg)
		return host().Used >= n, err
	case "root":
		return os.Getuid() == 0, nil
	case "race":
		return raceDetector(), nil
	case "mountns":
		if os.Getuid() == 0 && !mountNamespace() {
			return missing("root cannot make a mount namespace")
		}
		return os.Getuid() == 0, nil
	}
	return false, fmt.Errorf("unknown condition %q", cond)
}

// runCommand runs a program and gives its exit status, as a shell would.
func runCommand(ts *testscript.TestScript, args []string) int {
	if len(args) == 0 {
		ts.Fatalf("no command")
	}
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		ts.Fatalf("%v", err)
	case exit.Sys().(syscall.WaitStatus).Signaled():
		return 128 + int(exit.Sys().(syscall.WaitStatus).Signal())
	}
	return exit.ExitCode()
}

// status N CMD… expects the exit status N.
func statusCmd(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if neg || err != nil {
		ts.Fatalf("usage: status N CMD…")
	}
	if got := runCommand(ts, args[1:]); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// denied CMD… expects that CMD ran, tried something, and was told no.
func deniedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("denied cannot be negated: show with `exec` that it works")
	}
	got, errs := runCommand(ts, args), ts.ReadFile("stderr")
	if got == 0 || got > 127 || strings.Contains(errs, "confinectl: ") {
		ts.Fatalf("exit status %d, want the command's own failure", got)
	}
	if !denial.MatchString(errs) {
		ts.Fatalf("failed for another reason than a denial: %q", errs)
	}
}

var denial = regexp.MustCompile(`(?i)permission denied|operation not permitted|cross-device link`)

// refused CODE CMD… expects a refusal with that code as the first one, and
// everything that holds for all refusals: the status, the grammar of the message,
// nothing on stdout, nothing executed, no trace of a crash.
func refusedCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refused CODE CMD…")
	}
	want := statusRefused
	if m := whichCommand.FindStringSubmatch(strings.Join(args, " ")); m != nil {
		want = refusalStatus(m[1])
	}
	if got := runCommand(ts, args[1:]); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("a refusal wrote to stdout: %q", out)
	}
	if _, err := os.Lstat(ts.Getenv("RAN")); err == nil {
		ts.Fatalf("refused, and the command ran")
	}
	errs := ts.ReadFile("stderr")
	if regexp.MustCompile(`panic|goroutine|BUG`).MatchString(errs) {
		ts.Fatalf("a crash instead of a refusal")
	}
	code := args[0]
	if strings.Contains(strings.Join(args, " "), "--error-format=json") {
		var m struct{ Error, Code, Detail string }
		if err := json.Unmarshal([]byte(errs), &m); err != nil || strings.Count(errs, "\n") != 1 {
			ts.Fatalf("stderr is not one JSON object on one line: %v", err)
		}
		if m.Error != "refused" || m.Code != code || m.Detail == "" {
			ts.Fatalf("%q with code %q and detail %q, want refused with %q", m.Error, m.Code, m.Detail, code)
		}
		return
	}
	lines := strings.Split(strings.TrimSuffix(errs, "\n"), "\n")
	if !strings.HasPrefix(lines[0], "confinectl: refused: "+code+": ") {
		ts.Fatalf("not refused with %s: %q", code, lines[0])
	}
	hints := 0
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "confinectl: hint: "):
			hints++
		case hints > 0 || !refusalLine.MatchString(line):
			ts.Fatalf("not the grammar of a refusal: %q", line)
		}
		if strings.HasSuffix(line, ".") && !strings.HasSuffix(line, "..") {
			ts.Fatalf("ends with a full stop: %q", line)
		}
	}
	if hints > 2 {
		ts.Fatalf("%d hints, at most two are allowed", hints)
	}
}

// whichCommand finds which command of confinectl a command line is about, also in a shell's.
var whichCommand = regexp.MustCompile(`confinectl ([a-z-]+)`)

// refusalLine is "confinectl: refused: CODE: SUBJECT: detail".
var refusalLine = regexp.MustCompile(`^confinectl: refused: [a-z-]+: [^:].*: .+$`)

// json [-stderr] PATH [WANT] looks into the JSON that the last command wrote.
// PATH is made of keys, indexes, "KEY=VALUE" (the element of a list that has it) and "len"
// (how many), joined by colons. WANT is the whole value, or "~" and a regular
// expression. Without WANT it must be there; with ! it must not be, or not be WANT.
func jsonCmd(ts *testscript.TestScript, neg bool, args []string) {
	from := "stdout"
	if len(args) > 0 && args[0] == "-stderr" {
		from, args = "stderr", args[1:]
	}
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json [-stderr] PATH [WANT]")
	}
	var v any
	if err := json.Unmarshal([]byte(ts.ReadFile(from)), &v); err != nil {
		ts.Fatalf("%s is not JSON: %v", from, err)
	}
	v, there := lookUp(v, strings.Split(args[0], ":"))
	text, isText := v.(string)
	if !isText {
		data, err := json.Marshal(v)
		ts.Check(err)
		text = string(data)
	}
	ok := there
	if there && len(args) == 2 {
		if pattern, isPattern := strings.CutPrefix(args[1], "~"); isPattern {
			ok = regexp.MustCompile(pattern).MatchString(text)
		} else {
			ok = text == args[1]
		}
	}
	if ok == neg {
		ts.Fatalf("%s is %s (there: %t)", args[0], text, there)
	}
}

func lookUp(v any, path []string) (any, bool) {
	for _, step := range path {
		switch c := v.(type) {
		case map[string]any:
			var ok bool
			if step == "len" {
				v = float64(len(c))
			} else if v, ok = c[step]; !ok {
				return nil, false
			}
		case []any:
			key, value, selects := strings.Cut(step, "=")
			i, err := strconv.Atoi(step)
			switch {
			case step == "len":
				v = float64(len(c))
				continue
			case selects:
				i = slices.IndexFunc(c, func(e any) bool {
					m, _ := e.(map[string]any)
					return m != nil && fmt.Sprint(m[key]) == value
				})
			case err != nil:
				return nil, false
			}
			if i < 0 || i >= len(c) {
				return nil, false
			}
			v = c[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// await FILE waits until a program in the background has made FILE.
func awaitCmd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: await FILE")
	}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if _, err := os.Lstat(ts.MkAbs(args[0])); err == nil {
			return
		}
	}
	ts.Fatalf("%s was not made in 20 s", args[0])
}
