//go:build agents

package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A user is one of the two that run everything.
type user struct {
	name     string
	uid, gid int
}

// ordinary is the user that is not root: the caller, when it is not root;
// else 1000, under which nothing has to run and which needs no home directory,
// only a line in the user database (agents ask for it and stop without).
func ordinary() user {
	if uid := os.Geteuid(); uid != 0 {
		return user{"uid " + strconv.Itoa(uid), uid, os.Getegid()}
	}
	return user{"uid 1000", 1000, 1000}
}

// A seat is everything that one run of an agent may touch: a fresh home
// directory with a project in it, a file beside the project, a stand-in for
// the model. The agents lie in the home directory as npm's prefix would
// (~/.npm-global), as a link to the cache.
type seat struct {
	t    *testing.T
	user user
	base string // owned by root, holds the rest
	home string
	out  string // what the harness writes: traces, the terminal's socket

	project, beside string
	model           *standin
	env             []string
}

const (
	besideBefore = "a secret beside the project"
	probeDone    = "probe: finished"
)

// probe is what the agent's shell tool is asked to run. It lies in a file, so
// that no agent judges it by its words; it leaves its findings in the project.
const probe = `echo inside >wrote-inside
cat ../beside.txt >read-beside 2>/dev/null
echo overwritten 2>/dev/null >../beside.txt
echo new 2>/dev/null >../beside-new.txt
: >"$(mktemp)" && echo yes >made-temporary
echo '` + probeDone + `'
`

func newSeat(t *testing.T, u user) *seat {
	t.Helper()
	base, err := os.MkdirTemp(scratch, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &seat{t: t, user: u, base: base, home: filepath.Join(base, "home"), out: filepath.Join(base, "out"), model: newStandin("sh probe.sh")}
	s.project = filepath.Join(s.home, "project")
	s.beside = filepath.Join(s.home, "beside.txt")
	s.check(os.Chmod(base, 0o755))
	for _, dir := range []string{s.home, s.out, s.project} {
		s.mkdir(dir)
	}
	s.write(s.beside, besideBefore+"\n")
	s.write(filepath.Join(s.project, "probe.sh"), probe)
	s.check(os.Symlink(installed, filepath.Join(s.home, ".npm-global")))
	s.env = []string{
		"HOME=" + s.home,
		"PATH=" + s.home + "/.npm-global/bin:/usr/local/bin:/usr/bin:/bin",
		"LANG=C.UTF-8", "TERM=xterm-256color", "SHELL=/bin/bash",
		// All that agents know to keep them from calling home.
		"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"GEMINI_TELEMETRY_ENABLED=false", "OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1",
		"OPENCODE_DISABLE_LSP_DOWNLOAD=1", "COPILOT_OFFLINE=true", "COPILOT_AUTO_UPDATE=false", "DO_NOT_TRACK=1",
	}
	t.Cleanup(func() {
		s.model.Close()
		s.killAll()
		if os.Getenv(keepVariable) == "" {
			if err := os.RemoveAll(base); err != nil {
				t.Error(err)
			}
		}
	})
	return s
}

func (s *seat) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// mkdir makes a directory of the user's, and write a file.
func (s *seat) mkdir(dir string) {
	s.t.Helper()
	s.check(os.MkdirAll(dir, 0o700))
	s.check(os.Chown(dir, s.user.uid, s.user.gid))
}

func (s *seat) write(file, content string) {
	s.t.Helper()
	s.check(os.WriteFile(file, []byte(content), 0o600))
	s.check(os.Chown(file, s.user.uid, s.user.gid))
}

// content gives a file of the project, or "" when it does not exist.
func (s *seat) content(name string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.project, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// outcome is how a command ended.
type outcome struct {
	status   int // exit status; 128 + signal
	out      string
	timedOut bool
}

// run runs a command as the seat's user in its project and waits for it; what
// it leaves running is ended with the seat.
func (s *seat) run(limit time.Duration, argv ...string) outcome {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := s.command(ctx, argv...)
	// Output goes to a file and not to a pipe: a process that the agent
	// leaves behind would hold the pipe open.
	log, err := os.CreateTemp(s.base, "log-")
	s.check(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	text, readErr := os.ReadFile(log.Name())
	s.check(readErr)
	o := outcome{out: string(bytes.TrimSpace(text)), timedOut: ctx.Err() != nil}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		o.status = exit.ExitCode()
		if w := exit.Sys().(syscall.WaitStatus); w.Signaled() {
			o.status = 128 + int(w.Signal())
		}
	case err != nil:
		s.t.Fatal(err)
	}
	return o
}

func (s *seat) command(ctx context.Context, argv ...string) *exec.Cmd {
	s.t.Helper()
	path := argv[0]
	if !strings.Contains(path, "/") {
		if agent := filepath.Join(s.home, ".npm-global/bin", path); exists(agent) {
			path = agent
		}
	}
	cmd := exec.CommandContext(ctx, path, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = s.project
	cmd.Env = s.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.user.uid != os.Geteuid() {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.user.uid), Gid: uint32(s.user.gid)}
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// confined puts confinectl and a profile before a command.
func (s *seat) confined(profile string, argv ...string) []string {
	return append([]string{confinectl, "exec", profile, "--"}, argv...)
}

// killAll ends every process that has this seat's home directory, a name that no other
// has, in its environment: daemons and helpers that agents leave behind.
func (s *seat) killAll() {
	// SIGTERM first: strace then writes its trace to the end.
	for try := range 20 {
		left := 0
		signal := syscall.SIGKILL
		if try < 2 {
			signal = syscall.SIGTERM
		}
		environs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range environs {
			env, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(env, []byte("HOME="+s.home+"\x00")) {
				continue
			}
			if pid, err := strconv.Atoi(strings.Split(file, "/")[2]); err == nil && pid != os.Getpid() {
				syscall.Kill(pid, signal)
				left++
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// ended is what a terminal shows when its command has ended.
const ended = "[ended with status "

// A terminal is a tmux server of its own, with one command in it.
type terminal struct {
	s      *seat
	socket string
}

// terminal starts a command in a terminal of 120 columns.
func (s *seat) terminal(argv ...string) *terminal {
	s.t.Helper()
	term := &terminal{s, filepath.Join(s.out, fmt.Sprintf("tmux-%d", time.Now().UnixNano()%1e6))}
	s.t.Cleanup(func() { term.tmux("kill-server") })
	var quoted []string
	for _, a := range argv {
		quoted = append(quoted, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	// The shell prints the exit status and waits, so that the last screen of a
	// command that ended can still be read.
	line := strings.Join(quoted, " ") + "; echo \"" + ended + "$?]\"; exec sleep 600"
	if o := term.tmux("new-session", "-d", "-x", "120", "-y", "45", line); o.status != 0 {
		s.t.Fatalf("tmux: %s", o.out)
	}
	return term
}

func (t *terminal) tmux(args ...string) outcome {
	return t.s.run(20*time.Second, append([]string{"tmux", "-S", t.socket, "-f", "/dev/null"}, args...)...)
}

func (t *terminal) screen() string {
	return t.tmux("capture-pane", "-p").out
}

// wait looks at the screen until done says so or the time is over, and gives
// the last screen.
func (t *terminal) wait(limit time.Duration, done func(screen string) bool) (screen string, ok bool) {
	for end := time.Now().Add(limit); ; time.Sleep(300 * time.Millisecond) {
		screen = t.screen()
		if done(screen) {
			return screen, true
		}
		if time.Now().After(end) {
			return screen, false
		}
	}
}
