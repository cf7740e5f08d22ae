package loader

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// terminals names the terminals behind descriptors 0 to 2 by their device
// files (fcntl F_GETPATH; not measured).
func terminals() []string {
	var found []string
	for fd := range 3 {
		if _, err := unix.IoctlGetTermios(fd, unix.TIOCGETA); err != nil {
			continue
		}
		buf := make([]byte, 1024) // PATH_MAX
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETPATH, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
			continue // the terminal still works, but cannot be opened again
		}
		name, _, _ := bytes.Cut(buf, []byte{0})
		if path := string(name); strings.HasPrefix(path, "/dev/") && !slices.Contains(found, path) {
			found = append(found, path)
		}
	}
	return found
}

// userTmp is confstr(3)'s DARWIN_USER_TEMP_DIR without cgo. TMPDIR is believed
// where it has the form of one, because every login session exports that;
// otherwise getconf(1) is asked, by its absolute path. Whatever it says is
// judged like every temp root: a real directory that the user owns.
func userTmp(f *resolve.Facts) string {
	if v, _ := f.Getenv("TMPDIR"); darwinTmp(v) {
		return v
	}
	cmd := exec.Command("/usr/bin/getconf", "DARWIN_USER_TEMP_DIR")
	cmd.Env = []string{}
	out, err := cmd.Output()
	if v := strings.TrimSpace(string(out)); err == nil && darwinTmp(v) {
		return v
	}
	return ""
}
