package main

import (
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/enforce"
)

// terminalFD is the descriptor by which a command line program knows its terminal.
const terminalFD = 0

// terminal lends the terminal of supervise to the command, which has a process
// group of its own. Without a terminal it does nothing.
type terminal struct{}

// ours reports whether supervise, or the child that has the terminal from it,
// is in the foreground.
func (terminal) ours(child *enforce.Process) bool {
	group, err := unix.IoctlGetInt(terminalFD, unix.TIOCGPGRP)
	return err == nil && (group == unix.Getpgrp() || child != nil && group == child.Pid)
}

// move gives the foreground from one process group to another, if that one has it.
func (terminal) move(from, to int) {
	if group, err := unix.IoctlGetInt(terminalFD, unix.TIOCGPGRP); err != nil || group != from {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// Who sets the foreground from the background is stopped by SIGTTOU, unless
	// it is blocked. It must not be ignored: the command would inherit that.
	var block, before unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before) == nil {
		_ = unix.IoctlSetPointerInt(terminalFD, unix.TIOCSPGRP, to)
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
	}
}

func (t terminal) takeBack(child *enforce.Process) { t.move(child.Pid, unix.Getpgrp()) }

// follow stops supervise when the command is stopped, as the shell that waits
// expects on Ctrl-Z, and lets the command go on when supervise does. Where no
// shell waits, the kernel does not let supervise be stopped, and the command goes on.
func (t terminal) follow(child *enforce.Process) {
	if _, err := unix.IoctlGetInt(terminalFD, unix.TIOCGPGRP); err != nil {
		return
	}
	go func() {
		runtime.LockOSThread() // a signal to this very thread acts before the call returns
		defer runtime.UnlockOSThread()
		for {
			err := unix.Waitid(unix.P_PID, child.Pid, nil, unix.WSTOPPED, nil)
			if err == unix.EINTR {
				continue
			}
			if err != nil { // it has ended, and was reaped
				return
			}
			t.takeBack(child)
			_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGTSTP)
			t.move(unix.Getpgrp(), child.Pid)
			_ = unix.Kill(-child.Pid, unix.SIGCONT)
		}
	}()
}
