package enforce

import (
	"os"
	"runtime"
	"strconv"

	"github.com/confinectl/confinectl/resolve"
	"golang.org/x/sys/unix"
)

// Start runs the command confined, as a child of a Go program that stays unconfined.
// The steps and their order are those of [Plan.Exec].
//
// What holds: the domain, no_new_privs and the dropped capabilities are those
// of one operating system thread, which starts the child and nothing else, and ends
// with it; every other goroutine of the caller keeps its rights, and layers do not add up over many
// starts. The working directory is the one that was judged, by descriptor. The child
// inherits the files of o and no other descriptor.
//
// What does not: the caller's descriptors above 2 are marked close-on-exec, as Go's own
// all are; one that C code or a raw system call opens without the flag while
// Start runs can leak into the child, as it can into any other. The caller's ptrace, signal and /proc
// access to the child is that of any parent. Files that o passes are the caller's grant.
//
// A child that is not waited for is reaped all the same. Refusals and [ExecError] are those of Exec.
func (p *Plan) Start(o StartOptions) (*Process, error) {
	c, err := p.command()
	if err != nil {
		return nil, err
	}
	if c.Missing != "" {
		if err := p.Rehearse(); err != nil {
			return nil, err
		}
		return nil, notFound(c)
	}
	attr, done, err := o.attr(p.b.Environ())
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := p.prepare(!o.MakeNothing)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if s.dir < 0 {
		return nil, &resolve.Refusal{Code: resolve.PathMissing, Subject: p.b.PermitPath(), Detail: "the working directory is still to be made"}
	}
	if err := closeOnExec(nil); err != nil {
		return nil, err
	}
	attr.Dir = "/proc/self/fd/" + strconv.Itoa(s.dir) // the child enters it before it touches its descriptors
	started := make(chan error, 1)
	child := &Process{done: make(chan struct{})}
	onOwnThread(func() {
		if err := s.restrictThread(); err != nil {
			started <- err
			return
		}
		process, err := os.StartProcess(c.Path, c.Argv, attr)
		if err != nil {
			started <- notExecuted(c, err)
			return
		}
		child.Pid, child.process = process.Pid, process
		started <- nil
		// The thread stays for the child's life: a parent-death signal that the
		// command asks for is tied to it.
		child.state, child.err = process.Wait()
		close(child.done)
	})
	if err := <-started; err != nil {
		return nil, err
	}
	return child, nil
}

// onOwnThread runs f in a goroutine on a thread that runs nothing else and
// ends with it. The first thread of a process is never used: it cannot end, and
// /proc/PID shows what it is allowed as if it were the whole process.
func onOwnThread(f func()) {
	go func() {
		runtime.LockOSThread() // never unlocked on the thread that f runs on
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// As long as this goroutine holds the first thread, another gets
		// another one.
		other := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(other)
			f()
		}()
		<-other
		runtime.UnlockOSThread()
	}()
}
