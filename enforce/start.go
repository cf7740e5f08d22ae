package enforce

import (
	"os"
	"syscall"
)

// StartOptions are what [Plan.Start] passes to the command beside what the
// boundary says. Nothing here can widen the boundary, except that an open file
// is a grant of the caller's.
type StartOptions struct {
	Stdin, Stdout, Stderr *os.File   // nil: the null device
	ExtraFiles            []*os.File // become descriptors 3, 4, …; none may be nil

	Setpgid    bool // put the command into a process group of its own
	Foreground bool // and make that the foreground group of the terminal Ctty; implies Setpgid
	Ctty       int  // descriptor of the caller's terminal, for Foreground

	// MakeNothing leaves out of the boundary the directories that the launcher would have to
	// make, where they do not exist. The boundary gets narrower by it, and
	// nothing is made: it is there for measuring, and not for running a command.
	MakeNothing bool
}

// attr is what a child is started with, but for its directory. done closes the null
// device that stands in for streams that the caller did not give.
func (o *StartOptions) attr(environ []string) (attr *os.ProcAttr, done func(), err error) {
	attr = &os.ProcAttr{
		Env: environ, Files: append([]*os.File{o.Stdin, o.Stdout, o.Stderr}, o.ExtraFiles...),
		Sys: &syscall.SysProcAttr{Setpgid: o.Setpgid, Foreground: o.Foreground, Ctty: o.Ctty},
	}
	var null *os.File
	for i, f := range attr.Files[:3] {
		if f != nil {
			continue
		}
		if null == nil {
			if null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
				return nil, nil, applyFailed("open "+os.DevNull, err)
			}
		}
		attr.Files[i] = null
	}
	return attr, func() { null.Close() }, nil
}

// Process is a confined command that [Plan.Start] started.
type Process struct {
	Pid int

	process *os.Process
	done    chan struct{} // closed when state and err are there
	state   *os.ProcessState
	err     error
}

// Wait waits until the command has ended. It may be called any number of times,
// by any goroutine. The command is reaped whether or not anybody waits.
func (p *Process) Wait() (*os.ProcessState, error) {
	<-p.done
	return p.state, p.err
}

// Done is closed when the command has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal to the command; os.ErrProcessDone after it has ended.
func (p *Process) Signal(sig os.Signal) error { return p.process.Signal(sig) }
