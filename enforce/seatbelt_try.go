//go:build linux || darwin

package enforce

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/confinectl/confinectl/resolve"
)

// tryTimeout is how long sandbox-exec may take with /usr/bin/true: nested runs
// were reported to hang (Homebrew).
const tryTimeout = 5 * time.Second

// try runs sandbox-exec, given by its absolute path, and waits for its answer. Only
// macOS has one; the tests of every other system run stand-ins.
func try(path string, args []string) answer {
	r, w, err := os.Pipe()
	if err != nil {
		return answer{err: err}
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		w.Close()
		return answer{err: err}
	}
	defer null.Close()
	process, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{Dir: "/", Env: []string{}, Files: []*os.File{null, null, w}})
	w.Close()
	if err != nil {
		return answer{err: err}
	}
	timer := time.AfterFunc(tryTimeout, func() {
		process.Kill()
		r.Close() // a grandchild may hold the other end
	})
	text, _ := io.ReadAll(io.LimitReader(r, 800))
	io.Copy(io.Discard, r) // one that talks more must not wait for a reader
	state, err := process.Wait()
	if !timer.Stop() {
		return answer{err: fmt.Errorf("no answer in %v: %w", tryTimeout, os.ErrDeadlineExceeded)}
	}
	if err != nil {
		return answer{err: err}
	}
	a := answer{status: state.ExitCode(), stderr: string(text)}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		a.status = 128 + int(ws.Signal())
	}
	return a
}

// missingSandboxExec is why there is nothing to run at the one path where sandbox-exec may
// be; nil where there is.
func missingSandboxExec(path string) *resolve.Refusal {
	st, err := os.Stat(path)
	r := &resolve.Refusal{Code: resolve.ArmMissing, Subject: "seatbelt", Cause: err}
	switch {
	case errors.Is(err, os.ErrNotExist):
		r.Detail = path + " does not exist; one of another path is never used"
	case err != nil:
		r.Detail = path + ": " + errno(err)
	case !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0:
		r.Detail = path + " is not an executable file"
	default:
		return nil
	}
	if runtime.GOOS == "darwin" {
		r.Hints = []string{"it is part of every macOS: `ls -lO " + path + "`"}
	}
	return r
}

// trySeatbelt asks sandbox-exec at a path to take a profile.
func trySeatbelt(path string, s *SBPL) *resolve.Refusal {
	if r := missingSandboxExec(path); r != nil {
		return r
	}
	return judgeAnswer(try(path, s.args("/usr/bin/true")), s.mayExecute("/usr/bin/true"))
}
