package loader

import (
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// userTmp is a fact of macOS.
func userTmp(*resolve.Facts) string { return "" }

// terminals names the terminals behind descriptors 0 to 2 by their device files.
func terminals() []string {
	var found []string
	for fd := range 3 {
		var st syscall.Stat_t
		if syscall.Fstat(fd, &st) != nil || st.Mode&syscall.S_IFMT != syscall.S_IFCHR {
			continue
		}
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
			continue
		}
		buf := make([]byte, 256)
		n, err := syscall.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
		if err != nil || n == len(buf) {
			continue // without /proc the terminal still works, but cannot be opened again
		}
		path := string(buf[:n])
		var named syscall.Stat_t
		if !strings.HasPrefix(path, "/dev/") || slices.Contains(found, path) || syscall.Stat(path, &named) != nil || named.Dev != st.Dev || named.Ino != st.Ino {
			continue // a terminal of another mount namespace: its name here is somebody else's
		}
		found = append(found, path)
	}
	return found
}
