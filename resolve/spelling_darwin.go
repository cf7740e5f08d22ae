package resolve

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"unsafe"
)

// spelling gives a path that the walk arrived at the spelling that is on disk:
// APFS finds a file by any letter case and any Unicode normalization, and
// Seatbelt compares the name that the kernel knows (facts of others; that a
// rule in another case does not match was not measured).
//
// A directory or a regular file is opened and asked for its path (fcntl F_GETPATH, which also
// translates firmlinks). Everything else, and what may not be read, must not be or
// cannot be opened: a device has side effects, a socket refuses. There the name is looked for in the
// directory above it. Where neither is possible the error is the system's own, and the
// path is refused: a rule in a wrong spelling would grant nothing.
func (w *Walker) spelling(real string, st Stat) (string, error) {
	if real == "/" {
		return real, nil
	}
	var path string
	err := error(syscall.EACCES)
	if st.Mode.IsDir() || st.Mode.IsRegular() {
		path, err = fileName(real)
	}
	if err != nil {
		path, err = w.listed(real, st)
	}
	if err != nil {
		return real, err
	}
	return unfirm(path, func(a, b string) bool {
		x, err := w.lstat(a)
		y, err2 := w.lstat(b)
		return err == nil && err2 == nil && x.ID == y.ID
	}), nil
}

// fileName opens a file and asks the kernel what it is called.
func fileName(path string) (string, error) {
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return "", err
	}
	defer syscall.Close(fd)
	buf := make([]byte, maxDarwinPath)
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETPATH, uintptr(unsafe.Pointer(&buf[0]))); errno != 0 {
		return "", errno
	}
	name, _, _ := bytes.Cut(buf, []byte{0})
	return string(name), nil
}

// listed finds the spelling of a file that is not opened: that of its
// directory, and the entry there that is the same file.
func (w *Walker) listed(real string, st Stat) (string, error) {
	up := parent(real)
	upStat, err := w.lstat(up)
	if err != nil {
		return "", err
	}
	dir, err := w.spelling(up, *upStat)
	if err != nil {
		return "", err
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", syscall.EACCES
	}
	names, err := d.Readdirnames(-1)
	d.Close()
	if err != nil {
		return "", syscall.EIO
	}
	written := real[strings.LastIndexByte(real, '/')+1:]
	other := ""
	for _, name := range names {
		if name == written {
			return below(dir, name), nil
		}
		// Compared by file, not by letter case: the file system's idea of case is its own.
		if s, err := w.lstat(below(dir, name)); err == nil && s.ID == st.ID {
			other = name
		}
	}
	if other == "" {
		return "", syscall.ENOENT
	}
	return below(dir, other), nil
}
