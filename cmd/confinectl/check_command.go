package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/confinectl/confinectl/enforce"
)

// commandJSON is what came of CMD, unconfined and confined.
type commandJSON struct {
	Argv       []string `json:"argv"`
	Unconfined runJSON  `json:"unconfined"`
	Confined   runJSON  `json:"confined"`
	Same       bool     `json:"same"`
	Denied     []string `json:"denied"` // the first paths that were denied, in order
	Source     string   `json:"source"` // where denied comes from, or how to get it; empty where the statuses are the same
}

// runJSON is one run. Status is -1 where it was not started or was stopped.
type runJSON struct {
	Status int    `json:"status"`
	Error  string `json:"error,omitempty"`
	Stderr string `json:"stderr"` // its end
}

// Limits of a comparison.
const (
	commandTime = 5 * time.Minute
	maxDenied   = 10
	maxStderr   = 2 << 10
)

// compare runs the command of a plan unconfined, with the caller's environment, and
// confined, both in its working directory, and looks for what was denied where they end differently.
func (k *checker) compare(ctx context.Context, l *launch, name string, plan *enforce.Plan, argv []string) *commandJSON {
	out := &commandJSON{Argv: argv, Denied: []string{}}
	out.Unconfined = unconfined(ctx, plan, k.facts.Env)
	log := openAudit(plan)
	out.Confined = confined(ctx, plan)
	out.Same = out.Unconfined.Status == out.Confined.Status && out.Unconfined.Error == "" && out.Confined.Error == ""
	if out.Same || ctx.Err() != nil {
		return out
	}
	if out.Denied = log.denied(); len(out.Denied) > 0 {
		out.Source = "the audit records of the kernel"
		return out
	}
	out.Denied, out.Source = k.traced(ctx, l, name, argv)
	return out
}

func unconfined(ctx context.Context, plan *enforce.Plan, env []string) runJSON {
	c := plan.Boundary().Command()
	if c.Missing != "" {
		return runJSON{Status: enforce.StatusNotFound, Error: c.Missing}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	dir, _ := plan.Boundary().Dir()
	end := &tail{}
	cmd := exec.CommandContext(ctx, c.Path)
	cmd.Args, cmd.Dir, cmd.Env, cmd.Stderr = c.Argv, dir, env, end
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if cmd.ProcessState == nil {
		return runJSON{Status: enforce.StatusNotExecuted, Error: err.Error()}
	}
	return endOf(ctx, cmd.ProcessState, end)
}

func confined(ctx context.Context, plan *enforce.Plan) runJSON {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return runJSON{Status: -1, Error: err.Error()}
	}
	defer r.Close()
	p, err := plan.Start(enforce.StartOptions{Stderr: w, Setpgid: true})
	w.Close()
	var notRun *enforce.ExecError
	switch {
	case errors.As(err, &notRun):
		return runJSON{Status: notRun.Status, Error: notRun.Error()}
	case err != nil:
		return runJSON{Status: enforce.StatusRefused, Error: err.Error()}
	}
	stop := context.AfterFunc(ctx, func() { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) })
	defer stop()
	end := &tail{}
	copied := make(chan struct{})
	go func() {
		_, _ = io.Copy(end, r)
		close(copied)
	}()
	state, err := p.Wait()
	if err != nil {
		return runJSON{Status: -1, Error: err.Error()}
	}
	select {
	case <-copied:
	case <-time.After(time.Second): // a process that it left behind holds the pipe
		r.Close()
		<-copied
	}
	return endOf(ctx, state, end)
}

func endOf(ctx context.Context, state *os.ProcessState, end *tail) runJSON {
	r := runJSON{Status: state.ExitCode(), Stderr: end.String()}
	if w, ok := state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		r.Status = 128 + int(w.Signal())
	}
	if ctx.Err() != nil {
		r.Status, r.Error = -1, "stopped after "+commandTime.String()
	}
	return r
}

// tail keeps the end of what is written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if len(t.data) > maxStderr {
		t.data = slices.Clone(t.data[len(t.data)-maxStderr:])
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.ToValidUTF8(string(t.data), "\ufffd") }

// traced runs the command once more, by this program under strace, which traces
// from outside the boundary. It reads the calls that failed with an errno of a denial.
func (k *checker) traced(ctx context.Context, l *launch, name string, argv []string) (denied []string, source string) {
	const get = "install strace, and the denied paths are listed here"
	none := []string{}
	strace, err := exec.LookPath("strace")
	if err != nil {
		return none, get + "; or [linux] audit = true and `journalctl -k` (from Landlock ABI 7 on)"
	}
	self, err := os.Executable()
	if err != nil {
		return none, get
	}
	r, w, err := os.Pipe()
	if err != nil {
		return none, err.Error()
	}
	defer r.Close()
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	args := []string{"-f", "-qq", "-y", "-s", "4096", "-e", "trace=%file,connect", "-e", "signal=none", "-o", "/proc/self/fd/3", self, "exec"}
	for _, dir := range l.dirs {
		args = append(args, "--profile-dir", dir)
	}
	if l.permitPath != "" {
		args = append(args, "--permit-path", l.permitPath)
	}
	cmd := exec.CommandContext(ctx, strace, append(append(args, name, "--"), argv...)...)
	cmd.Env, cmd.ExtraFiles, cmd.WaitDelay = k.cli.env, []*os.File{w}, time.Second
	started := cmd.Start()
	w.Close()
	if started != nil {
		return none, strace + ": " + started.Error()
	}
	found := make(chan []string)
	go func() { found <- denials(r) }()
	_ = cmd.Wait() // the status of the command is known
	select {
	case denied = <-found:
	case <-time.After(time.Second):
		r.Close()
		denied = <-found
	}
	if len(denied) == 0 {
		return none, "strace saw no path that was denied"
	}
	return denied, "strace"
}

// neverDenied are calls that no boundary denies: file permissions did.
var neverDenied = []string{"access", "faccessat", "faccessat2", "readlink", "readlinkat", "chdir", "getcwd",
	"getxattr", "lgetxattr", "listxattr", "llistxattr"}

// denials reads the output of strace to its end, and keeps the first denied paths.
func denials(r io.Reader) []string {
	found := []string{}
	data, _ := io.ReadAll(io.LimitReader(r, 64<<20))
	for l := range strings.Lines(string(data)) {
		call, path, errno := tracedDenial(l)
		if call == "" || len(found) >= maxDenied || strings.Contains(call, "stat") || slices.Contains(neverDenied, call) {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, os.ErrPermission) {
			continue // likewise
		}
		if text := path + " (" + call + ": " + errno + ")"; !slices.Contains(found, text) {
			found = append(found, text)
		}
	}
	return found
}

// tracedDenial takes a line of strace apart, "123 openat(3</dir>, "file", O_RDONLY) = -1
// EACCES (Permission denied)": the call, the first path in it, and why it failed. call is
// empty where the line tells of no denied path.
func tracedDenial(line string) (call, path, errno string) {
	line, result, _ := cutLast(line, ") ") // a path may have any of these
	result, failed := strings.CutPrefix(strings.TrimLeft(result, " "), "= -1 ")
	errno, _, _ = strings.Cut(result, " ")
	call, args, _ := strings.Cut(strings.TrimLeft(line, "0123456789 "), "(")
	before, quoted, found := strings.Cut(args, `"`)
	if !failed || errno != "EACCES" && errno != "EPERM" && errno != "EXDEV" || !found {
		return "", "", ""
	}
	end := 0
	for end < len(quoted) && quoted[end] != '"' {
		if quoted[end] == '\\' {
			end++
		}
		end++
	}
	path, err := strconv.Unquote(`"` + quoted[:min(end, len(quoted))] + `"`)
	if err != nil {
		path = quoted[:min(end, len(quoted))]
	}
	if !strings.HasPrefix(path, "/") && strings.HasSuffix(before, ">, ") { // relative to a descriptor
		_, dir, _ := cutLast(before[:len(before)-len(">, ")], "<")
		path = dir + "/" + path
	}
	return call, path, errno
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// audit is the kernel's log from a point in time on, where the boundary asks for
// records and the caller may read them.
type audit struct{ files []*os.File }

func openAudit(plan *enforce.Plan) *audit {
	a := &audit{}
	if !plan.Boundary().Audit().On {
		return a
	}
	for _, name := range []string{"/dev/kmsg", "/var/log/audit/audit.log"} {
		fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		f := os.NewFile(uintptr(fd), name)
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			f.Close()
			continue
		}
		a.files = append(a.files, f)
	}
	return a
}

func (a *audit) denied() []string {
	found := []string{}
	for _, f := range a.files {
		buf := make([]byte, 8192)
		for range 100000 {
			n, err := syscall.Read(int(f.Fd()), buf)
			if n <= 0 || err != nil {
				break
			}
			for record := range strings.Lines(string(buf[:n])) {
				if text := auditedDenial(record); text != "" && len(found) < maxDenied && !slices.Contains(found, text) {
					found = append(found, text)
				}
			}
		}
		f.Close()
	}
	a.files = nil
	return found
}

// auditedDenial takes a record AUDIT_LANDLOCK_ACCESS apart, "… blockers=fs.read_file
// path="/file" …"; empty for any other.
func auditedDenial(record string) string {
	_, blockers, _ := strings.Cut(record, "blockers=")
	blockers, path, found := strings.Cut(blockers, ` path="`)
	path, _, closed := strings.Cut(path, `"`)
	if !found || !closed || strings.Contains(blockers, " ") {
		return ""
	}
	return path + " (" + blockers + ")"
}

// commandLines is the comparison for people.
func commandLines(c *commandJSON) (list []line) {
	if c == nil {
		return nil
	}
	status := func(r runJSON) string {
		if r.Error != "" {
			return strconv.Itoa(r.Status) + " (" + r.Error + ")"
		}
		return strconv.Itoa(r.Status)
	}
	list = append(list, line{"command", strings.Join(c.Argv, " ") + ": status " + status(c.Unconfined) + " unconfined, " + status(c.Confined) + " confined"})
	if c.Same {
		return list
	}
	for _, d := range c.Denied {
		list = append(list, line{"denied", d})
	}
	if len(c.Denied) == 0 {
		list = append(list, line{"hint", c.Source})
	}
	for l := range strings.Lines(c.Confined.Stderr) {
		list = append(list, line{"its stderr", strings.TrimRight(l, "\n")})
	}
	return list
}
