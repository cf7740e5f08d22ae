package probe

import (
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// content is what every outside file has in it, and at the beginning of the script a
// first line.
const content = magic + "\n"

// randomName cannot be guessed by a program that waits for it.
func randomName() (string, error) {
	var b [8]byte
	if _, err := unix.Getrandom(b[:], 0); err != nil {
		return "", err
	}
	return Prefix + hex.EncodeToString(b[:]), nil
}

// dir is a directory that the probe made. It is used by its descriptor, so it
// does not matter what others do to its name.
type dir struct {
	fd     int
	parent int
	name   string
	path   string // real when it was made
}

// makeDir makes a directory of its own, 0700, in an open one.
func makeDir(parent int, parentPath, name string) (*dir, error) {
	if err := unix.Mkdirat(parent, name, 0o700); err != nil {
		return nil, err
	}
	d := &dir{parent: parent, name: name, path: strings.TrimRight(parentPath, "/") + "/" + name}
	var err error
	if d.fd, err = unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0); err != nil {
		_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
		return nil, err
	}
	return d, nil
}

// through is a path to the directory that leads through its descriptor.
func (d *dir) through() string { return "/proc/self/fd/" + strconv.Itoa(d.fd) }

// remove removes the names that the probe makes, and then the directory. What
// somebody else put there stays, and the directory with it: that is the error.
func (d *dir) remove() error {
	if d == nil {
		return nil
	}
	for _, c := range cases {
		for _, suffix := range []string{"", ".new", ".in", ".in.control"} {
			_ = unix.Unlinkat(d.fd, c.Key+suffix, 0)
		}
	}
	unix.Close(d.fd)
	if err := unix.Unlinkat(d.parent, d.name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return errors.New(d.path + " is left behind: " + err.Error())
	}
	return nil
}

// file makes a file that was not there.
func (d *dir) file(name, text string, mode uint32) (ino, dev uint64, err error) {
	fd, err := unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode)
	if err != nil {
		return 0, 0, err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		return 0, 0, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Ino, st.Dev, err
}

// open opens one of its files.
func (d *dir) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), d.path+"/"+name), nil
}

// targets makes the outside files of all rows in a directory, and a socket that
// listens there.
func (d *dir) targets(interpreter string) (inodes map[string]uint64, dev uint64, socket int, err error) {
	inodes = map[string]uint64{}
	for _, c := range cases {
		text, mode := content, uint32(0o600)
		switch c.Key {
		case "create", "rename-out", "link-out", "tmpfile", "tmpfile-link", "list", "socket":
			continue // these have no file
		case "execute":
			text, mode = "#!"+interpreter+"\n", 0o700
		}
		if inodes[c.Key], dev, err = d.file(c.Key, text, mode); err != nil {
			return nil, 0, -1, err
		}
	}
	// A path that is too long for an address shows in the control.
	socket, _ = listen(d.through() + "/socket")
	return inodes, dev, socket, nil
}

// changed reports whether an outside file of a row is not what it was, or a
// new name has appeared for it.
func (d *dir) changed(c *Case, inodes map[string]uint64) bool {
	var st unix.Stat_t
	if unix.Fstatat(d.fd, c.Key+".new", &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
		return true
	}
	ino, made := inodes[c.Key]
	if !made {
		return false
	}
	err := unix.Fstatat(d.fd, c.Key, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err != nil || st.Ino != ino || st.Size != int64(len(content)) || c.Key == "link-in" && st.Nlink > 1
}

// listen makes a socket that others can connect to. Nobody has to accept: a
// connection waits in the queue.
func listen(name string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: name}); err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// place is where the outside targets lie: base, and in it "out", what the attempts
// aim at; "control", what the controls aim at; "in", for controls that
// need a directory inside and follow a link in it.
type place struct {
	above              int
	base               *dir
	out, control, in   *dir
	sockets            []int
	inodes, forControl map[string]uint64
	dev                uint64
}

// makePlace makes a place in an open directory, and takes over the descriptor.
func makePlace(above int, path, interpreter string) (p *place, err error) {
	name, err := randomName()
	if err != nil {
		unix.Close(above)
		return nil, err
	}
	p = &place{above: above}
	defer func() {
		if err != nil {
			_ = p.remove()
		}
	}()
	if p.base, err = makeDir(above, path, name); err != nil {
		return p, err
	}
	for name, d := range map[string]**dir{"out": &p.out, "control": &p.control, "in": &p.in} {
		if *d, err = makeDir(p.base.fd, p.base.path, name); err != nil {
			return p, err
		}
	}
	var s1, s2 int
	if p.inodes, p.dev, s1, err = p.out.targets(interpreter); err != nil {
		return p, err
	}
	if p.forControl, _, s2, err = p.control.targets(interpreter); err != nil {
		return p, err
	}
	p.sockets = []int{s1, s2}
	return p, unix.Symlinkat("../control/symlink-before", p.in.fd, "symlink-before")
}

func (p *place) remove() error {
	if p == nil {
		return nil
	}
	for _, s := range p.sockets {
		if s >= 0 {
			unix.Close(s)
		}
	}
	err := errors.Join(p.out.remove(), p.control.remove(), p.in.remove(), p.base.remove())
	unix.Close(p.above)
	return err
}

// openDir opens a directory by its real path, and no symlink on the way.
func openDir(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// openReal opens a directory by its real path if it is the one that was resolved.
func openReal(path string, id resolve.FileID) (int, error) {
	fd, err := openDir(path)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || (resolve.FileID{Dev: st.Dev, Ino: st.Ino}) != id {
		unix.Close(fd)
		return -1, errors.New("it is another directory by now")
	}
	return fd, nil
}

// outside makes a place that no rule of the boundary reaches, by any name: on
// the device dev if there is one, because a link cannot cross devices. why says
// of each directory that was looked at why it is not taken.
func (p *Prober) outside(b *resolve.Boundary, dev uint64) (found *place, why string) {
	var reasons []string
	places := append(append([]string{}, p.o.Places...), above(b.PermitPath()))
	w, rules := resolve.NewWalker(), b.Rules()
	for _, same := range []bool{true, false} {
		for i, path := range places {
			if path == "" || path == "/" {
				continue
			}
			t, err := w.Walk(path)
			if err != nil || t.Rest != "" || !t.Stat.Mode.IsDir() {
				places[i] = ""
				continue
			}
			if (t.Stat.ID.Dev == dev) != same {
				continue
			}
			places[i] = ""
			if r := reaches(rules, t); r != nil {
				reasons = append(reasons, t.Real+" lies in "+r.Path+", which is granted")
				continue
			}
			fd, err := openReal(t.Real, t.Stat.ID)
			if err == nil {
				found, err = makePlace(fd, t.Real, p.program[0])
			}
			if err == nil {
				return found, ""
			}
			reasons = append(reasons, t.Real+": "+err.Error())
		}
	}
	if len(reasons) == 0 {
		return nil, "no directory outside is there"
	}
	return nil, "no directory outside the boundary can be written: " + strings.Join(reasons, "; ")
}

// reaches finds a rule that holds for what lies at the end of a walk, compared by
// device and inode: a bind mount is another name for the same directory.
func reaches(rules []resolve.Rule, t *resolve.Trail) *resolve.Rule {
	for i, r := range rules {
		if r.Kind == resolve.Directory && (r.ID != (resolve.FileID{}) && t.Passes(r.ID) || strings.HasPrefix(t.Real+"/", strings.TrimRight(r.Path, "/")+"/")) {
			return &rules[i]
		}
	}
	return nil
}

func above(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return ""
}
