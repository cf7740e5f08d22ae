package resolve

import (
	"os"
	"runtime"
	"syscall"
	"testing"
)

// asOrdinaryUser runs f with the file permissions of uid 1000 when the test
// runs as root, on a thread of its own that is thrown away afterwards.
func asOrdinaryUser(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread dies with its file system uid
		if _, _, e := syscall.RawSyscall(syscall.SYS_SETFSUID, 1000, 0, 0); int(e) != 0 {
			t.Errorf("setfsuid: %v", e)
			return
		}
		f()
	}()
	<-done
}
