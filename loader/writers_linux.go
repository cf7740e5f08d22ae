package loader

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// keepWritersOut takes a read lease on an open file (fcntl(2), F_SETLEASE):
// EAGAIN says that somebody has it open for writing. Until fd is closed, whoever
// opens it for writing waits, so that what is read is not half of a file that is
// truncated and written again. Any other error says nothing: leases are for the owner
// of a file and for root, and not every file system has them.
func keepWritersOut(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, syscall.F_RDLCK)
	return err
}
