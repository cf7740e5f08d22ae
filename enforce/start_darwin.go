package enforce

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// Start runs the command confined, as a child of a Go program that stays
// unconfined. The steps and their order are those of [Plan.Exec].
//
// What holds: the child inherits the files of o and no other descriptor, and the
// process that is started is sandbox-exec, which becomes the command.
//
// What does not: the working directory is entered by its path, a moment after it was
// judged. The child is the command only a little later than Start returns. Files that o
// passes are the caller's grant.
//
// A child that is not waited for is reaped all the same. Refusals and [ExecError] are those of Exec.
func (p *Plan) Start(o StartOptions) (*Process, error) {
	c, err := p.command()
	if err != nil {
		return nil, err
	}
	if err := runnable(p, c); err != nil {
		return nil, err
	}
	attr, done, err := o.attr(p.b.Environ())
	if err != nil {
		return nil, err
	}
	defer done()
	dir, err := p.prepare(!o.MakeNothing)
	if err != nil {
		return nil, err
	}
	if dir < 0 {
		return nil, &resolve.Refusal{Code: resolve.PathMissing, Subject: p.b.PermitPath(), Detail: "the working directory is still to be made"}
	}
	defer unix.Close(dir)
	if err := closeOnExec(nil, dir); err != nil {
		return nil, err
	}
	attr.Dir, _ = p.b.Dir()
	argv := append([]string{sandboxExec}, p.sbpl.args(append([]string{c.Path}, c.Argv[1:]...)...)...)
	process, err := os.StartProcess(sandboxExec, argv, attr)
	if err != nil {
		if errors.Is(err, unix.E2BIG) {
			err = unix.E2BIG
		}
		return nil, notEntered(c, err)
	}
	child := &Process{Pid: process.Pid, process: process, done: make(chan struct{})}
	go func() {
		child.state, child.err = process.Wait()
		close(child.done)
	}()
	return child, nil
}
