package escapes

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// fixture is one fresh directory tree for one launch:
//
//	in       the permit path
//	out      outside; everything in it belongs to the caller
//	ro       a read path
//	in-evil  outside, and shares a string prefix with the permit path
//	in-prof  the profile directory
//	dev      device nodes, outside
//
// Everything belongs to the caller of confinectl, so that ordinary permissions
// never decide; out/rootonly alone belongs to root.
type fixture struct {
	h                *harness
	row              *row
	user             int
	dir              string
	permit           string   // what the profile permits
	floor            int      // min_abi, if it is to be written out
	binary, profiles string   // confinectl and its profile directory
	env              []string // for the attempt

	confined bool       // how it was launched last
	stdin    *os.File   // instead of the pipe that answers steps
	tty      bool       // stdin is to be the controlling terminal
	files    []*os.File // inherited by confinectl as 3, 4, ...
	flags    []string   // for confinectl exec
	pid      int        // the bystander
	ask      func(question string) (string, error)
	undo     []func()
	kept     *os.File // between a row's hooks
}

func (fx *fixture) in(name string) string  { return fx.dir + "/in/" + name }
func (fx *fixture) out(name string) string { return fx.dir + "/out/" + name }
func (fx *fixture) ro(name string) string  { return fx.dir + "/ro/" + name }

func (fx *fixture) uid() int {
	if fx.user == asUser && fx.h.root {
		return unprivileged
	}
	return os.Getuid()
}

func (fx *fixture) gid() int {
	if fx.user == asUser && fx.h.root {
		return unprivileged
	}
	return os.Getgid()
}

// later registers what must be undone, last first.
func (fx *fixture) later(undo func()) { fx.undo = append(fx.undo, undo) }

func (fx *fixture) setenv(name, value string) { fx.env = append(fx.env, name+"="+value) }

// own gives paths to the caller.
func (fx *fixture) own(paths ...string) error {
	for _, p := range paths {
		if err := os.Lchown(p, fx.uid(), fx.gid()); err != nil {
			return err
		}
	}
	return nil
}

// newFixture builds the tree and runs the row's own preparation. close must be
// called in any case.
func (h *harness) newFixture(r *row, user int) (*fixture, error) {
	h.serial++
	fx := &fixture{h: h, row: r, user: user, dir: filepath.Join(h.base, strconv.Itoa(h.serial)), flags: r.flags}
	fx.permit, fx.profiles, fx.binary = fx.dir+"/in", fx.dir+"/in-prof", filepath.Join(h.bin, "confinectl")
	if h.abi < 3 {
		fx.floor = h.abi // below the default, only a profile that says so is accepted
	}
	if err := fx.build(); err != nil {
		return fx, fmt.Errorf("fixture: %w", err)
	}
	if r.prepare != nil {
		if err := r.prepare(fx); err != nil {
			return fx, err
		}
	}
	profile := fx.profile()
	if r.profile != nil {
		profile = r.profile(fx)
	}
	name := fx.dir + "/in-prof/p.toml"
	if err := os.WriteFile(name, []byte(fx.withFloor(profile)), 0o644); err != nil {
		return fx, err
	}
	return fx, fx.own(name)
}

// profile is the text of an ordinary profile over the fixture.
func (fx *fixture) profile() string {
	return fmt.Sprintf("permit_path = %q\nread_paths = [%q, %q]\n", fx.permit, fx.dir+"/ro", fx.h.bin)
}

// withFloor adds the table that comes last in a profile.
func (fx *fixture) withFloor(profile string) string {
	if fx.floor == 0 {
		return profile
	}
	return profile + fmt.Sprintf("[linux]\nmin_abi = %d\n", fx.floor)
}

func (fx *fixture) build() error {
	dirs := []string{
		"", "in", "in/sub", "in/d1", "in/d1/dd", "in/d2", "in/mp", "in/ou", "in/ow",
		"out", "out/emptydir", "out/mp", "out/mnt", "out/sub", "ro", "dev", "in_empty", "in-evil", "in-prof",
	}
	for _, d := range dirs {
		if err := os.Mkdir(filepath.Join(fx.dir, d), 0o755); err != nil {
			return err
		}
	}
	files := []string{
		"in/f", "in/r1", "in/r2", "in/d1/a", "in/sub/keep", "out/f", "out/t", "out/victim", "out/victim2", "out/victim3",
		"out/hl_target", "out/meta", "out/fan", "out/acct", "out/held", "out/held_ro", "out/rootonly", "out/sub/f", "ro/f", "in-evil/f",
	}
	for _, f := range files {
		if err := os.WriteFile(filepath.Join(fx.dir, f), []byte("original\n"), 0o644); err != nil {
			return err
		}
	}
	for link, target := range map[string]string{"in/link_out": fx.out("f"), "in/dlink_out": fx.dir + "/out", "out/dangling": "nowhere"} {
		if err := os.Symlink(target, filepath.Join(fx.dir, link)); err != nil {
			return err
		}
	}
	if err := os.Link(fx.out("hl_target"), fx.in("hl")); err != nil {
		return err
	}
	if err := filepath.WalkDir(fx.dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return fx.own(p)
	}); err != nil {
		return err
	}
	if fx.h.root {
		if err := os.Lchown(fx.out("rootonly"), 0, 0); err != nil {
			return err
		}
	}
	return os.Chmod(fx.out("rootonly"), 0o600)
}

// close undoes everything that was set up and removes the tree.
func (fx *fixture) close() error {
	for i := len(fx.undo) - 1; i >= 0; i-- {
		fx.undo[i]()
	}
	for _, f := range fx.files {
		f.Close()
	}
	clearFlags(fx.ro("f"))
	return removeTree(fx.dir)
}

// removeTree removes a directory, unless something is still mounted in it: what
// is seen through a mount is not ours to remove.
func removeTree(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == dir || strings.HasPrefix(f[4], dir+"/")) {
			return fmt.Errorf("%s is still mounted", f[4])
		}
	}
	return os.RemoveAll(dir)
}

// state is what the outside looks like: one fingerprint of content and names,
// one of metadata.
type state struct{ content, metadata string }

// look takes the state of everything outside the permit path.
func (fx *fixture) look() (state, error) {
	var content, metadata []string
	for _, top := range []string{"out", "ro", "in-evil", "in-prof", "in_empty"} {
		err := filepath.WalkDir(filepath.Join(fx.dir, top), func(p string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // the fixture directory itself was renamed away: a change all the same
			}
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			name := strings.TrimPrefix(p, fx.dir)
			sum := ""
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				b, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				sum = fmt.Sprintf("%x", sha256.Sum256(b))
			case unix.S_IFLNK:
				if sum, err = os.Readlink(p); err != nil {
					return err
				}
			}
			content = append(content, fmt.Sprintf("%s %o %s", name, st.Mode&unix.S_IFMT, sum))
			mtime := int64(0) // that of a directory follows from its content
			if st.Mode&unix.S_IFMT == unix.S_IFREG {
				mtime = st.Mtim.Nano()
			}
			metadata = append(metadata, fmt.Sprintf("%s %o %d:%d %d %s %x", name, st.Mode, st.Uid, st.Gid, mtime, attributes(p), flagsOf(p, st.Mode)))
			return nil
		})
		if err != nil {
			return state{}, err
		}
	}
	sort.Strings(content)
	sort.Strings(metadata)
	return state{strings.Join(content, "\n"), strings.Join(metadata, "\n")}, nil
}

func attributes(path string) string {
	buf := make([]byte, 1024)
	n, err := unix.Llistxattr(path, buf)
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(buf[:n]), "\x00", ",")
}

func flagsOf(path string, mode uint32) uint32 {
	if m := mode & unix.S_IFMT; m != unix.S_IFREG && m != unix.S_IFDIR {
		return 0
	}
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return 0
	}
	return flags
}

// immutable is FS_IMMUTABLE_FL, which the unix package does not have.
const immutable = 0x10

// clearFlags takes the immutable flag off again, so that the file can be removed.
func clearFlags(path string) {
	if f, err := os.Open(path); err == nil {
		defer f.Close()
		if flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS); err == nil && flags&immutable != 0 {
			_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags&^immutable))
		}
	}
}

// mount mounts until the fixture is closed. The harness is in a mount namespace
// of its own, so that nothing is left behind even if it is killed.
func (fx *fixture) mount(source, target, fstype string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		return fmt.Errorf("mount %s: %w", fstype, err)
	}
	fx.later(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	return nil
}

// bind shows a directory at a second place.
func (fx *fixture) bind(source, target string) error {
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return fx.mount(source, target, "bind", unix.MS_BIND, "")
}

// copyProgram puts a copy of the attempt's program somewhere.
func (fx *fixture) copyProgram(target string) error {
	src, err := os.Open(filepath.Join(fx.h.bin, "attempt"))
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(dst, src); err != nil {
		return err
	}
	if err := dst.Close(); err != nil {
		return err
	}
	return fx.own(target)
}

// outsideFiles are descriptors of outside files that confinectl inherits: read
// and write, a directory, read only.
func (fx *fixture) outsideFiles() error {
	rw, err := os.OpenFile(fx.out("held"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	dir, err := os.Open(fx.dir + "/out")
	if err != nil {
		return err
	}
	ro, err := os.Open(fx.out("held_ro"))
	if err != nil {
		return err
	}
	fx.files = append(fx.files, rw, dir, ro)
	return nil
}

// bystander starts a process of the same user outside, to be attacked. It ends
// when its standard input does.
func bystander(fx *fixture) error {
	cmd := exec.Command(filepath.Join(fx.h.bin, "attempt"))
	cmd.Dir = fx.dir + "/out"
	cmd.Env = append(os.Environ(), envRole+"=bystander", "ESCAPES_SECRET=secret")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: fx.h.credential(fx.user)}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	fx.later(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	answers := bufio.NewReader(stdout)
	fx.ask = func(question string) (string, error) {
		if _, err := io.WriteString(stdin, question+"\n"); err != nil {
			return "", err
		}
		line, err := answers.ReadString('\n')
		return strings.TrimSpace(line), err
	}
	line, err := fx.ask("where")
	if err != nil {
		return fmt.Errorf("bystander: %w", err)
	}
	where := strings.Fields(line)
	if len(where) != 2 {
		return fmt.Errorf("bystander: %q", line)
	}
	fx.pid = cmd.Process.Pid
	fx.setenv(envPID, strconv.Itoa(fx.pid))
	fx.setenv(envAddr, where[0])
	fx.setenv(envFD, where[1])
	return nil
}

// broker listens outside, as a daemon of the same machine would, and writes for
// whoever asks: on out/sock and on an abstract name.
func broker(fx *fixture) error {
	fx.h.serial++
	abstract := fmt.Sprintf("escapes.%d.%d", os.Getpid(), fx.h.serial)
	fx.setenv(envSocket, abstract)
	for _, name := range []string{fx.out("sock"), "@" + abstract} {
		if _, err := fx.listen("unix", name); err != nil {
			return err
		}
	}
	for _, name := range []string{fx.out("dgram"), "@" + abstract + ".dgram"} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			return fmt.Errorf("broker: %w", err)
		}
		fx.later(func() { c.Close() })
		go func() {
			buf := make([]byte, 1)
			if n, err := c.Read(buf); err == nil && n == 1 {
				_ = os.WriteFile(fx.out("by_broker"), buf, 0o644)
			}
		}()
	}
	for _, s := range []string{fx.out("sock"), fx.out("dgram")} {
		if err := os.Chmod(s, 0o777); err != nil {
			return err
		}
	}
	return nil
}

// loopbackBroker listens on the loopback.
func loopbackBroker(fx *fixture) error {
	l, err := fx.listen("tcp", "127.0.0.1:0")
	if err == nil {
		fx.setenv(envPort, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return err
}

func (fx *fixture) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, fmt.Errorf("broker: %w", err)
	}
	fx.later(func() { l.Close() })
	go fx.serve(l)
	return l, nil
}

// serve answers one request a connection: W writes a file, F hands out a
// writable descriptor.
func (fx *fixture) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		request := make([]byte, 1)
		if n, err := c.Read(request); err != nil || n != 1 {
			c.Close()
			continue
		}
		if request[0] == 'F' {
			if f, err := os.OpenFile(fx.out("held"), os.O_RDWR, 0); err == nil {
				_, _, _ = c.(*net.UnixConn).WriteMsgUnix([]byte("f"), unix.UnixRights(int(f.Fd())), nil)
				f.Close()
			}
		} else if err := os.WriteFile(fx.out("by_broker"), []byte("X"), 0o644); err == nil {
			_, _ = c.Write([]byte("o"))
		}
		c.Close()
	}
}

// runBystander is main for the role bystander.
func runBystander() int {
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0) // where Yama is in force, the control needs it
	held, err := os.OpenFile("held", os.O_RDWR, 0)
	if err != nil {
		return 1
	}
	defer held.Close()
	secret := []byte("secret")
	signals := countSignals()
	questions := bufio.NewScanner(os.Stdin)
	for questions.Scan() {
		switch questions.Text() {
		case "where":
			fmt.Printf("%x %d\n", addressOf(secret), held.Fd())
		case "state":
			var cpu unix.CPUSet
			_ = unix.SchedGetaffinity(0, &cpu)
			var files unix.Rlimit
			_ = unix.Getrlimit(unix.RLIMIT_CORE, &files)
			fmt.Printf("%s %d %d %d\n", secret, signals(), cpu.Count(), files.Cur)
		}
	}
	return 0
}

// bystanderChanged asks the bystander whether anything happened to it. What is
// to be seen after a control may take a moment.
func bystanderChanged(fx *fixture) (bool, error) {
	patience := 200
	if fx.confined {
		patience = 4
	}
	for range patience {
		now, err := fx.ask("state")
		if err != nil {
			return true, nil // it is gone
		}
		if now != fx.h.quiet {
			return true, nil
		}
		pause()
	}
	return false, nil
}

// loop attaches an image outside to a free loop device until the fixture is
// closed, and puts a node for it into dev, which belongs to the caller.
func (fx *fixture) loop(image []byte) error {
	if err := os.WriteFile(fx.out("loop.img"), image, 0o644); err != nil {
		return err
	}
	return fx.attach()
}

// btrfsBlocks are the blocks of 4 KiB that are not zero, each after its number,
// of a file of 16 MiB that mkfs.btrfs -M -d single -m single was run on.
//
//go:embed testdata/btrfs.gz
var btrfsBlocks []byte

// btrfs mounts a btrfs at btrfs, which belongs to the caller, with a file and a
// subvolume in it.
func (fx *fixture) btrfs(options string) error {
	img, err := os.OpenFile(fx.out("loop.img"), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer img.Close()
	if err := img.Truncate(16 << 20); err != nil {
		return err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(btrfsBlocks))
	if err != nil {
		return err
	}
	for block := make([]byte, 4+4096); ; {
		if _, err := io.ReadFull(unpacked, block); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if _, err := img.WriteAt(block[4:], 4096*int64(binary.LittleEndian.Uint32(block))); err != nil {
			return err
		}
	}
	if err := fx.attach(); err != nil {
		return err
	}
	dir := fx.dir + "/btrfs"
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := fx.mount(fx.dir+"/dev/blk", dir, "btrfs", 0, options); err != nil {
		return err
	}
	if err := subvolume(dir, btrfsCreate, "there"); err != nil {
		return err
	}
	return fx.own(dir, dir+"/there")
}

// attach makes a loop device of out/loop.img.
func (fx *fixture) attach() error {
	if err := fx.own(fx.out("loop.img")); err != nil {
		return err
	}
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("loop: %w", err)
	}
	defer control.Close()
	backing, err := os.OpenFile(fx.out("loop.img"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer backing.Close()
	for range 16 { // another user of loop devices may be faster
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("loop: %w", err)
		}
		dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("loop: %w", err)
		}
		err = unix.IoctlLoopConfigure(int(dev.Fd()), &unix.LoopConfig{
			Fd: uint32(backing.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR},
		})
		if errors.Is(err, unix.EBUSY) {
			dev.Close()
			continue
		}
		if err != nil {
			dev.Close()
			return fmt.Errorf("loop: %w", err)
		}
		fx.later(func() { dev.Close() }) // the last close detaches it
		node := fx.dir + "/dev/blk"
		fx.setenv(envDevice, node)
		return fx.mknod(node, unix.S_IFBLK|0o600, unix.Mkdev(7, uint32(n)))
	}
	return fmt.Errorf("loop: %w", unix.EBUSY)
}

func (fx *fixture) mknod(path string, mode uint32, dev uint64) error {
	if err := unix.Mknod(path, mode, int(dev)); err != nil {
		return fmt.Errorf("mknod: %w", err)
	}
	return fx.own(path)
}

// smallExt2 is an empty ext2 file system of 64 KiB, whose root directory
// belongs to uid: no host needs mkfs for this.
func smallExt2(uid int) []byte {
	const block, blocks, inodes, firstFree = 1024, 64, 16, 8
	img := make([]byte, block*blocks)
	le := binary.LittleEndian
	super := img[1*block:]
	for offset, value := range map[int]uint32{
		0: inodes, 4: blocks, 12: blocks - firstFree, 16: inodes - 10, 20: 1,
		32: 8192, 36: 8192, 40: inodes,
	} {
		le.PutUint32(super[offset:], value)
	}
	le.PutUint16(super[54:], 0xffff) // no forced check
	le.PutUint16(super[56:], 0xef53)
	le.PutUint16(super[58:], 1) // clean
	le.PutUint16(super[60:], 1) // go on after errors
	group := img[2*block:]
	le.PutUint32(group[0:], 3) // block bitmap, inode bitmap, inode table
	le.PutUint32(group[4:], 4)
	le.PutUint32(group[8:], 5)
	le.PutUint16(group[12:], blocks-firstFree)
	le.PutUint16(group[14:], inodes-10)
	le.PutUint16(group[16:], 1)
	for i := range block * 8 { // bit 0 is block 1
		if b := i + 1; b < firstFree || b >= blocks {
			img[3*block+i/8] |= 1 << (i % 8)
		}
		if i < 10 || i >= inodes {
			img[4*block+i/8] |= 1 << (i % 8)
		}
	}
	root := img[5*block+128:] // inode 2
	le.PutUint16(root[0:], unix.S_IFDIR|0o755)
	le.PutUint16(root[2:], uint16(uid))
	le.PutUint32(root[4:], block)
	le.PutUint16(root[26:], 2)
	le.PutUint32(root[28:], block/512)
	le.PutUint32(root[40:], 7)
	dir := img[7*block:]
	le.PutUint32(dir[0:], 2)
	le.PutUint16(dir[4:], 12)
	le.PutUint16(dir[6:], 1)
	dir[8] = '.'
	le.PutUint32(dir[12:], 2)
	le.PutUint16(dir[16:], block-12)
	le.PutUint16(dir[18:], 2)
	copy(dir[20:], "..")
	return img
}

// terminal opens a new pseudo-terminal that belongs to the caller.
func (fx *fixture) terminal() (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fx.later(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	n, err := unix.IoctlGetUint32(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("terminal: %w", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	slave, err = os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	fx.later(func() { slave.Close() })
	fx.setenv(envPTY, name)
	return master, slave, fx.own(name)
}
