package escapes

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func pause() { time.Sleep(5 * time.Millisecond) }

func ioctlPointer(fd int, request uint, p *byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(p)))
	runtime.KeepAlive(p)
	if errno != 0 {
		return errno
	}
	return nil
}

var needsAdmin = [2]blocked{asUser: {"EPERM", "needs CAP_SYS_ADMIN"}}

// detached is a new mount of a file system that is attached nowhere.
func detached(fstype, source string) (int, error) {
	f, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if source != "" {
		if err := unix.FsconfigSetString(f, "source", source); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(f); err != nil {
		return -1, err
	}
	return unix.Fsmount(f, unix.FSMOUNT_CLOEXEC, 0)
}

// mountRows change what a path means.
func mountRows() []*row {
	bind := func(a *attempt) error {
		if err := unix.Mount(a.out(""), a.in("mp"), "", unix.MS_BIND, ""); err != nil {
			return err
		}
		return write(a.in("mp/f"), 0)
	}
	tmpfs := func(a *attempt) error {
		if err := unix.Mount("t", a.in("mp"), "tmpfs", 0, ""); err != nil {
			return err
		}
		return write(a.in("mp/made"), unix.O_CREAT)
	}
	detachedTmpfs := func(*attempt) error {
		m, err := detached("tmpfs", "")
		if err != nil {
			return err
		}
		return writeAt(m, "made", unix.O_CREAT)
	}
	outsideMount := func(fx *fixture) error { return fx.mount("t", fx.out("mnt"), "tmpfs", 0, "") }
	readOnly := func(fx *fixture) (bool, error) {
		var st unix.Statfs_t
		err := unix.Statfs(fx.out("mnt"), &st)
		return st.Flags&unix.ST_RDONLY != 0, err
	}
	rs := []*row{
		{name: "mount/bind-in", about: "bind the outside into the permit path and write", kind: held, want: eperm, changes: content, blocked: needsAdmin, try: bind},
		{name: "mount/bind-out", about: "bind the permit path over the outside", kind: held, want: eperm, blocked: needsAdmin,
			try: func(a *attempt) error { return unix.Mount(a.in(""), a.out("mp"), "", unix.MS_BIND, "") }},
		{name: "mount/tmpfs", about: "mount a tmpfs inside", kind: held, want: eperm, blocked: needsAdmin, try: tmpfs},
		{name: "mount/proc", about: "mount proc inside", kind: held, want: eperm, blocked: needsAdmin,
			try: func(a *attempt) error { return unix.Mount("proc", a.in("mp"), "proc", 0, "") }},
		{name: "mount/overlay", about: "mount an overlay of the outside inside", kind: held, want: eperm,
			blocked: [2]blocked{{"ENODEV EINVAL", "no overlayfs here"}, {"EPERM", "needs CAP_SYS_ADMIN"}},
			try: func(a *attempt) error {
				return unix.Mount("o", a.in("mp"), "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", a.out(""), a.in("ou"), a.in("ow")))
			}},
		{name: "mount/remount", about: "remount the file system of the fixture", kind: held, want: eperm, blocked: needsAdmin,
			try: func(a *attempt) error {
				return unix.Mount("", filepath.Dir(a.dir), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
			}},
		{name: "mount/propagation", about: "change the propagation of /", kind: held, want: eperm, blocked: needsAdmin,
			try: func(a *attempt) error { return unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "") }},
		{name: "mount/umount", about: "unmount a file system outside", kind: held, want: eperm, blocked: needsAdmin, prepare: outsideMount, rootFixture: true,
			try: func(a *attempt) error { return unix.Unmount(a.out("mnt"), unix.MNT_DETACH) }},
		{name: "mount/move", about: "move a mount from outside into the permit path", kind: held, want: eperm, blocked: needsAdmin, prepare: outsideMount, rootFixture: true,
			try: func(a *attempt) error { return unix.Mount(a.out("mnt"), a.in("mp"), "", unix.MS_MOVE, "") }},
		{name: "mount/open-tree-write", about: "open_tree(CLONE) of the outside, write in it", kind: held, want: eaccesOr1, changes: content, blocked: needsAdmin,
			try: func(a *attempt) error {
				tree, err := unix.OpenTree(unix.AT_FDCWD, a.out(""), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
				if err != nil {
					return err
				}
				return writeAt(tree, "f", 0)
			}},
		{name: "mount/move-mount", about: "open_tree(CLONE) of the outside, attached inside, write", kind: held, want: eperm, changes: content, blocked: needsAdmin,
			try: func(a *attempt) error {
				tree, err := unix.OpenTree(unix.AT_FDCWD, a.out(""), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
				if err != nil {
					return err
				}
				if err := unix.MoveMount(tree, "", unix.AT_FDCWD, a.in("mp"), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
					return err
				}
				return write(a.in("mp/f"), 0)
			}},
		{name: "mount/detached-tmpfs", about: "fsopen, fsmount of a tmpfs, write in it", kind: held, want: eaccesOr1, blocked: needsAdmin, try: detachedTmpfs},
		{name: "mount/detached-device", id: "E16", about: "fsmount of a block device outside: the kernel writes to the image, metadata can change", kind: closed, want: eperm, changes: content, rootFixture: true,
			blocked: [2]blocked{{"ENODEV ENOENT", "no ext4 or no loop devices in this kernel"}, {"EPERM ENODEV ENOENT", "needs CAP_SYS_ADMIN"}},
			prepare: func(fx *fixture) error { return fx.loop(smallExt2(fx.uid())) },
			try: func(a *attempt) error {
				m, err := detached("ext4", os.Getenv(envDevice))
				if err != nil {
					return err
				}
				return unix.Fchmodat(m, ".", 0o777, 0)
			}},
		{name: "mount/fspick", about: "make a mount outside read-only with fspick", kind: held, want: eperm, blocked: needsAdmin, prepare: outsideMount, rootFixture: true, effect: readOnly,
			try: func(a *attempt) error {
				f, err := unix.Fspick(unix.AT_FDCWD, a.out("mnt"), 0)
				if err != nil {
					return err
				}
				if err := unix.FsconfigSetFlag(f, "ro"); err != nil {
					return err
				}
				return unix.FsconfigReconfigure(f)
			}},
		{name: "mount/setattr", id: "E15", about: "make a mount outside read-only with mount_setattr", kind: closed, want: eperm, blocked: needsAdmin, prepare: outsideMount, rootFixture: true, effect: readOnly,
			try: func(a *attempt) error {
				return unix.MountSetattr(unix.AT_FDCWD, a.out("mnt"), 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
			}},
		{name: "mount/pivot-root", about: "pivot_root into the permit path", kind: held, want: eperm, blocked: needsAdmin, ownMounts: true,
			try: func(a *attempt) error {
				if !confined() { // pivot_root wants a mount point
					if err := unix.Mount(a.in(""), a.in(""), "", unix.MS_BIND, ""); err != nil {
						return err
					}
				}
				return unix.PivotRoot(a.in(""), a.in("mp"))
			}},
		{name: "mount/unshare", about: "a new mount namespace, then bind the outside inside and write", kind: held, want: eperm, changes: content, blocked: needsAdmin,
			try: func(a *attempt) error {
				if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
					return err
				}
				return bind(a)
			}},
		{name: "userns/bind", about: "a new user and mount namespace, then bind the outside inside and write", kind: held, want: eperm, changes: content, inner: bind},
		{name: "userns/tmpfs", about: "the same with a tmpfs", kind: held, want: eperm, inner: tmpfs},
		{name: "userns/detached-tmpfs", about: "the same with fsopen and fsmount", kind: held, want: eacces, inner: detachedTmpfs},
		{name: "userns/chroot", about: "a new user namespace, chroot outside, write", kind: held, want: eacces, changes: content,
			inner: func(a *attempt) error { return chrootWrite(a.out(""), "/f") }},
		{name: "userns/map", about: "write the uid map of a new user namespace", kind: held, want: eacces,
			inner: func(*attempt) error { return nil },
			try: func(a *attempt) error {
				cmd := self()
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags:  unix.CLONE_NEWUSER,
					UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				}
				return a.child(cmd)
			}},
		{name: "chroot/outside", about: "chroot outside, write", kind: held, want: eacces, changes: content,
			blocked: [2]blocked{asUser: {"EPERM", "needs CAP_SYS_CHROOT"}},
			try:     func(a *attempt) error { return chrootWrite(a.out(""), "/f") }},
		{name: "chroot/kept-directory", about: "chroot inside, leave it by a kept descriptor of /, write", kind: held, want: eacces, changes: content,
			blocked: [2]blocked{asUser: {"EPERM", "needs CAP_SYS_CHROOT"}},
			try: func(a *attempt) error {
				root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY, 0)
				if err != nil {
					return err
				}
				if err := unix.Chroot(a.in("")); err != nil {
					return err
				}
				if err := unix.Fchdir(root); err != nil {
					return err
				}
				return write(strings.TrimPrefix(a.out("f"), "/"), 0)
			}},
		{name: "chroot/inside", about: "chroot into the permit path, write there", kind: works, want: allowed,
			blocked: [2]blocked{asUser: {"EPERM", "needs CAP_SYS_CHROOT"}},
			try:     func(a *attempt) error { return chrootWrite(a.in(""), "/f") }},
	}
	for _, r := range rs {
		section, _, _ := strings.Cut(r.name, "/")
		if section == "mount" && r.effect == nil {
			r.ownMounts = true
		}
		if section == "userns" && r.try == nil {
			r.try = func(a *attempt) error { return a.inNamespace(unix.CLONE_NEWNS) }
		}
		if section == "userns" {
			r.blocked = sameBlock("EPERM ENOSPC EUSERS EINVAL EACCES", "this host permits no user namespaces to the caller")
		}
		if r.kind != works && section == "chroot" {
			r.want[asUser] = always("denied EPERM")
		}
	}
	rs[len(rs)-1].want[asUser] = always("denied EPERM")
	return rs
}

func chrootWrite(root, name string) error {
	if err := unix.Chroot(root); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	return write(name, 0)
}

// dropped are the capabilities that confinectl takes from root, because each
// changes files without opening them.
var dropped = map[int]string{
	unix.CAP_SYS_ADMIN: "CAP_SYS_ADMIN", unix.CAP_MKNOD: "CAP_MKNOD", unix.CAP_SYS_RAWIO: "CAP_SYS_RAWIO",
	unix.CAP_SYS_MODULE: "CAP_SYS_MODULE", unix.CAP_SYS_PTRACE: "CAP_SYS_PTRACE", unix.CAP_PERFMON: "CAP_PERFMON",
	unix.CAP_BPF: "CAP_BPF", unix.CAP_LINUX_IMMUTABLE: "CAP_LINUX_IMMUTABLE",
	unix.CAP_DAC_READ_SEARCH: "CAP_DAC_READ_SEARCH", unix.CAP_SYS_BOOT: "CAP_SYS_BOOT",
}

// capabilities returns the effective and permitted sets, joined.
func capabilities() (uint64, error) {
	var data [2]unix.CapUserData
	err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
	set := uint64(data[0].Effective|data[0].Permitted) | uint64(data[1].Effective|data[1].Permitted)<<32
	return set, err
}

// leftOver is nil if the process has one of the dropped capabilities.
func leftOver(*attempt) error {
	set, err := capabilities()
	if err != nil {
		return err
	}
	for c := range dropped {
		if set&(1<<c) != 0 {
			return nil
		}
	}
	return unix.EPERM
}

// privilegeRows try to gain rights, or to keep those that root has to lose.
func privilegeRows() []*row {
	rootOnly := func(a *attempt) error {
		if set, err := capabilities(); err != nil || os.Geteuid() != 0 && set&(1<<unix.CAP_DAC_OVERRIDE) == 0 {
			return errors.Join(err, unix.EPERM)
		}
		return write(a.out("rootonly"), 0)
	}
	program := func(change func(path string) error) func(fx *fixture) error {
		return func(fx *fixture) error {
			if err := fx.copyProgram(fx.ro("prog")); err != nil {
				return err
			}
			if err := os.Lchown(fx.ro("prog"), 0, 0); err != nil {
				return err
			}
			return change(fx.ro("prog"))
		}
	}
	run := func(a *attempt) error { return a.child(exec.Command(a.ro("prog"))) }
	gained := [2]expect{always("denied EACCES"), always("denied EPERM")}
	noCapability := [2]blocked{asUser: {"EPERM", "has no capability to lose"}}
	var noGain [2]blocked
	if noNewPrivs() {
		noGain = sameBlock("EPERM", "the harness itself was started with no_new_privs")
	}
	return []*row{
		{name: "privilege/set-uid", about: "a set-uid root program writes a file of root's outside", kind: held, want: gained, changes: content, rootFixture: true, blocked: noGain,
			prepare: program(func(p string) error { return unix.Chmod(p, 0o4755) }), inner: rootOnly, try: run},
		{name: "privilege/file-capability", about: "the same with a file capability (cap_dac_override)", kind: held, want: gained, changes: content, rootFixture: true, blocked: noGain,
			prepare: program(setFileCapability), inner: rootOnly, try: run},
		{name: "privilege/dropped", about: "any of the capabilities that change files without opening them", kind: closed, want: eperm, blocked: noCapability, try: leftOver},
		{name: "privilege/regained", about: "get one back by running a program as root", kind: closed, want: eperm, blocked: noCapability, inner: leftOver,
			try: func(a *attempt) error { return a.child(self()) }},
		{name: "privilege/bounding", about: "any of them in root's bounding set", kind: closed, want: [2]expect{always("denied EPERM"), always("allowed")},
			try: func(*attempt) error {
				for c := range dropped {
					if n, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0); err == nil && n == 1 {
						return nil
					}
				}
				return unix.EPERM
			}},
		{name: "privilege/no-new-privs", about: "start a program without no_new_privs", kind: closed, want: eperm, blocked: noGain, inner: func(*attempt) error {
			if noNewPrivs() {
				return unix.EPERM
			}
			return nil
		}, try: func(a *attempt) error { return a.child(self()) }},
	}
}

// setFileCapability gives a program cap_dac_override, in version 2 of the format.
func setFileCapability(path string) error {
	value := make([]byte, 20)
	binary.LittleEndian.PutUint32(value, 0x02000001) // effective
	binary.LittleEndian.PutUint32(value[4:], 1<<unix.CAP_DAC_OVERRIDE)
	return unix.Setxattr(path, "security.capability", value, 0)
}

// deviceRows reach the outside through a device node.
func deviceRows() []*row {
	blank := func(fx *fixture) error { return fx.loop(make([]byte, 65536)) }
	noLoop := sameBlock("ENOENT ENXIO", "no loop devices in this kernel")
	device := func(path func(a *attempt) string) func(a *attempt) error {
		return func(a *attempt) error {
			fd, err := unix.Open(path(a), unix.O_WRONLY|unix.O_SYNC|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if _, err := unix.Write(fd, bytes.Repeat([]byte("X"), 4096)); err != nil {
				return err
			}
			return unix.Fsync(fd)
		}
	}
	outside := func(*attempt) string { return os.Getenv(envDevice) }
	node := func(path string) *row {
		return &row{name: "device" + strings.TrimPrefix(path, "/dev"), about: "open " + path + " for writing", kind: held, want: eacces,
			blocked: [2]blocked{{"ENOENT ENXIO ENODEV EPERM", "no such device here"}, {"EACCES ENOENT ENXIO ENODEV EPERM", "the device belongs to root"}},
			try:     func(*attempt) error { return opens(path, unix.O_RDWR) }}
	}
	needsMknod := [2]blocked{{"ENOENT ENXIO", "no loop devices in this kernel"}, {"EPERM ENOENT ENXIO", "needs CAP_MKNOD"}}
	return []*row{
		{name: "device/block-outside", about: "write to a block device by a node outside", kind: held, want: eacces, changes: content, blocked: noLoop, prepare: blank, rootFixture: true, try: device(outside)},
		{name: "device/block-new", about: "make a node for it inside and write", kind: held, want: [2]expect{always("denied EACCES|denied EPERM"), always("denied EACCES|denied EPERM")}, changes: content, blocked: needsMknod, prepare: blank, rootFixture: true,
			try: func(a *attempt) error {
				var st unix.Stat_t
				if err := unix.Stat(outside(a), &st); err != nil {
					return err
				}
				if err := unix.Mknod(a.in("blk"), unix.S_IFBLK|0o600, int(st.Rdev)); err != nil {
					return err
				}
				return device(func(*attempt) string { return a.in("blk") })(a)
			}},
		{name: "device/char-new", about: "make a character device node inside", kind: held, want: eaccesOr1,
			blocked: [2]blocked{asUser: {"EPERM", "needs CAP_MKNOD"}},
			try:     func(a *attempt) error { return unix.Mknod(a.in("null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }},
		{name: "device/block-before-launch", about: "write to a block device by a node that was in the permit path before", kind: limit, want: allowed, changes: content, blocked: noLoop, rootFixture: true,
			prepare: func(fx *fixture) error {
				if err := blank(fx); err != nil {
					return err
				}
				var st unix.Stat_t
				if err := unix.Stat(fx.dir+"/dev/blk", &st); err != nil {
					return err
				}
				return fx.mknod(fx.in("blk"), unix.S_IFBLK|0o600, st.Rdev)
			},
			try: device(func(a *attempt) string { return a.in("blk") })},
		{name: "device/block-ioctl", about: "change the read-only switch of a block device by a node in a read path (BLKROSET)", kind: held, want: eacces, blocked: [2]blocked{{"ENOENT ENXIO", "no loop devices in this kernel"}, {"EACCES ENOENT ENXIO", "needs CAP_SYS_ADMIN"}}, rootFixture: true,
			prepare: func(fx *fixture) error {
				if err := blank(fx); err != nil {
					return err
				}
				var st unix.Stat_t
				if err := unix.Stat(fx.dir+"/dev/blk", &st); err != nil {
					return err
				}
				return fx.mknod(fx.ro("blk"), unix.S_IFBLK|0o600, st.Rdev)
			},
			try: func(a *attempt) error {
				fd, err := unix.Open(a.ro("blk"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
				if err != nil {
					return err
				}
				on, off := []byte{1, 1, 1, 1}, make([]byte, 4)
				if err := ioctlPointer(fd, unix.BLKROSET, &on[0]); err != nil {
					return err
				}
				return ioctlPointer(fd, unix.BLKROSET, &off[0]) // the device keeps it
			}},
		node("/dev/kmsg"), node("/dev/loop-control"), node("/dev/fuse"), node("/dev/kvm"), node("/dev/mem"), node("/dev/port"),
	}
}

// firstOf is the first of several files that exists on this host.
func firstOf(paths ...string) string {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	return paths[0]
}

// kernelRows have the kernel do the writing.
func kernelRows() []*row {
	needsRoot := func(errnos, why string) [2]blocked { return [2]blocked{asUser: {errnos, why}} }
	return []*row{
		{name: "kernel/sysctl", about: "/proc/sys/kernel/core_pattern, open for writing", kind: held, want: eacces, blocked: needsRoot("EACCES", "belongs to root"),
			try: func(*attempt) error { return opens("/proc/sys/kernel/core_pattern", unix.O_WRONLY) }},
		{name: "kernel/sysfs", about: "a file of /sys, open for writing", kind: held, want: eacces, blocked: [2]blocked{{"ENOENT EROFS", "no writable sysfs here"}, {"EACCES ENOENT EROFS", "belongs to root"}},
			try: func(*attempt) error { return opens("/sys/devices/virtual/mem/null/uevent", unix.O_WRONLY) }},
		{name: "kernel/cgroup", about: "cgroup.procs, open for writing", kind: held, want: eacces, blocked: [2]blocked{{"ENOENT EROFS", "no writable cgroup hierarchy here"}, {"EACCES ENOENT EROFS", "belongs to root"}},
			try: func(*attempt) error {
				return opens(firstOf("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs"), unix.O_WRONLY)
			}},
		{name: "kernel/swapon", about: "swap into an outside file", kind: held, want: eaccesOr1,
			blocked: [2]blocked{{"EINVAL ENOSYS", "no swap files on this file system or kernel"}, {"EPERM ENOSYS", "needs CAP_SYS_ADMIN"}},
			prepare: func(fx *fixture) error {
				img := bytes.Repeat([]byte{0}, 16*os.Getpagesize())
				copy(img[os.Getpagesize()-10:], "SWAPSPACE2")
				binary.NativeEndian.PutUint32(img[1024:], 1)
				binary.NativeEndian.PutUint32(img[1028:], 15)
				if err := os.WriteFile(fx.out("swap"), img, 0o600); err != nil {
					return err
				}
				f, err := os.Open(fx.out("swap"))
				if err != nil {
					return err
				}
				defer f.Close()
				if err := f.Sync(); err != nil { // swapon wants blocks, not promises
					return err
				}
				return fx.own(fx.out("swap"))
			},
			try: func(a *attempt) error {
				name, err := unix.BytePtrFromString(a.out("swap"))
				if err != nil {
					return err
				}
				if _, _, errno := unix.Syscall(unix.SYS_SWAPON, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
					return errno
				}
				if _, _, errno := unix.Syscall(unix.SYS_SWAPOFF, uintptr(unsafe.Pointer(name)), 0, 0); errno != 0 {
					return fmt.Errorf("swapoff: %v", errno)
				}
				return nil
			}},
		{name: "kernel/acct", about: "process accounting into an outside file", kind: held, want: [2]expect{always("denied EACCES"), always("denied EPERM")},
			blocked: [2]blocked{{"ENOSYS", "no process accounting in this kernel"}, {"EPERM ENOSYS", "needs CAP_SYS_PACCT"}},
			inner:   func(a *attempt) error { return unix.Acct(a.out("acct")) },
			try: func(a *attempt) error {
				// In a process namespace of its own, where nobody else's accounting can be disturbed.
				cmd := self()
				cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
				err := a.child(cmd)
				if errors.Is(err, unix.EPERM) && confined() {
					err = a.row.inner(a)
				}
				return err
			}},
		{name: "kernel/core-dump", about: "core dump into an outside working directory", kind: held, want: eacces, changes: content,
			blocked: sameBlock("ENOTSUP", "kernel.core_pattern sends core dumps elsewhere"),
			prepare: func(*fixture) error {
				if p := sysctl("kernel.core_pattern"); p != "core" && p != "core.%p" {
					return unix.EOPNOTSUPP // what is set up there is not for us to feed
				}
				return nil
			},
			inner: func(a *attempt) error {
				if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}); err != nil {
					return err
				}
				if err := unix.Chdir(a.out("")); err != nil {
					return err
				}
				if err := unix.Kill(os.Getpid(), unix.SIGABRT); err != nil {
					return err
				}
				select {}
			},
			try: func(a *attempt) error {
				cmd := self()
				cmd.Env = append(os.Environ(), envRole+"=inner", "GOTRACEBACK=crash")
				_ = cmd.Run()
				if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
					return fmt.Errorf("did not crash: %v", cmd.ProcessState)
				}
				for _, name := range []string{"core", fmt.Sprintf("core.%d", cmd.ProcessState.Pid())} {
					if unix.Access(a.out(name), unix.F_OK) == nil {
						return nil
					}
				}
				return unix.EACCES
			}},
		{name: "kernel/mqueue", about: "open a new POSIX message queue", kind: held, want: eacces, blocked: noQueues,
			try: func(*attempt) error {
				err := queue()
				_ = unlinkQueue()
				return err
			}},
		{name: "kernel/mqueue-name", about: "make the name of a message queue: the kernel makes it before Landlock is asked", kind: limit, want: allowed, blocked: noQueues,
			try: func(*attempt) error {
				_ = queue()
				return unlinkQueue()
			}},
		{name: "kernel/mqueue-unlink", about: "remove the name of a message queue made outside", kind: limit, want: allowed, blocked: noQueues,
			prepare: func(fx *fixture) error {
				fx.later(func() { _ = unlinkQueue() })
				if err := queue(); err != nil {
					return err
				}
				name := []byte(queueName)
				fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_RDWR, 0, 0, 0, 0)
				if errno != 0 {
					return errno
				}
				defer unix.Close(int(fd))
				return unix.Fchown(int(fd), fx.uid(), fx.gid())
			},
			try: func(*attempt) error { return unlinkQueue() }},
		{name: "kernel/fanotify", about: "take a writable descriptor of an outside file from a fanotify event", kind: held, want: eaccesOr1, changes: content,
			blocked: [2]blocked{{"ENOSYS", "no fanotify in this kernel"}, {"EPERM ENOSYS", "needs CAP_SYS_ADMIN"}},
			step:    func(fx *fixture) error { return read(fx.out("fan")) },
			try: func(a *attempt) error {
				group, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK, unix.O_RDWR)
				if err != nil {
					return err
				}
				if err := unix.FanotifyMark(group, unix.FAN_MARK_ADD, unix.FAN_OPEN|unix.FAN_EVENT_ON_CHILD, unix.AT_FDCWD, a.out("")); err != nil {
					return err
				}
				if err := a.ask(); err != nil {
					return err
				}
				buf := make([]byte, 4096)
				n, err := unix.Read(group, buf)
				if err != nil {
					return err
				}
				event := (*unix.FanotifyEventMetadata)(unsafe.Pointer(&buf[0]))
				if n == 0 || event.Fd < 0 {
					return unix.EACCES
				}
				_, err = unix.Write(int(event.Fd), []byte("X"))
				return err
			}},
		{name: "kernel/bpf", about: "load a BPF program that needs CAP_BPF", kind: closed, want: eperm,
			blocked: [2]blocked{{"ENOSYS", "no BPF in this kernel"}, {"EPERM ENOSYS", "needs CAP_BPF"}},
			try: func(*attempt) error {
				code := []uint64{0xb7, 0x95} // r0 = 0; exit
				license := []byte("GPL\x00")
				const progLoad, schedCls = 5, 3
				attr := struct {
					kind, count   uint32
					code, license uint64
					_             [12]uint64
				}{kind: schedCls, count: uint32(len(code)), code: uint64(uintptr(unsafe.Pointer(&code[0]))), license: uint64(uintptr(unsafe.Pointer(&license[0])))}
				_, _, errno := unix.Syscall(unix.SYS_BPF, progLoad, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
				runtime.KeepAlive(code)
				runtime.KeepAlive(license)
				if errno != 0 {
					return errno
				}
				return nil
			}},
		{name: "kernel/module", about: "load a kernel module (a bad one: past the permission check is enough)", kind: closed, want: both(always("denied EPERM|denied ENOSYS")),
			blocked: [2]blocked{{"ENOSYS EPERM", "no loadable modules in this kernel"}, {"EPERM ENOSYS", "needs CAP_SYS_MODULE"}},
			try:     func(*attempt) error { return pastPermission(unix.InitModule([]byte("no module"), "")) }},
		{name: "kernel/kexec", about: "load another kernel (none: past the permission check is enough)", kind: closed, want: both(always("denied EPERM|denied ENOSYS")),
			blocked: [2]blocked{{"ENOSYS EPERM", "no kexec in this kernel"}, {"EPERM ENOSYS", "needs CAP_SYS_BOOT"}},
			try: func(*attempt) error {
				_, _, errno := unix.Syscall6(unix.SYS_KEXEC_LOAD, 0, 1<<20, 0, 0, 0, 0) // too many segments
				return pastPermission(errno)
			}},
		{name: "kernel/reboot", about: "reboot(2) with a bad magic number: past the permission check is enough", kind: closed, want: eperm,
			blocked: needsRoot("EPERM", "needs CAP_SYS_BOOT"),
			try: func(*attempt) error {
				_, _, errno := unix.Syscall6(unix.SYS_REBOOT, 0, 0, 0, 0, 0, 0)
				return pastPermission(errno)
			}},
	}
}

const queueName = "confinectl-escapes\x00"

var noQueues = sameBlock("ENOSYS", "no message queues in this kernel")

// queue makes and opens a message queue.
func queue() error {
	name := []byte(queueName)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func unlinkQueue() error {
	name := []byte(queueName)
	if _, _, errno := unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// pastPermission takes whatever comes only after the permission check for a success.
func pastPermission(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return err
	}
	return nil
}

// metadataRows change what Landlock has no right for. They are why the claim
// is about content and names only.
func metadataRows() []*row {
	flag := func(bit uint32, undo bool) func(a *attempt) error {
		return func(a *attempt) error {
			f, err := os.Open(a.ro("f"))
			if err != nil {
				return err
			}
			defer f.Close()
			flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
			if err != nil {
				return err
			}
			if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|bit)); err != nil {
				return err
			}
			if undo {
				return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags))
			}
			return nil
		}
	}
	noFlags := blocked{"ENOTTY ENOTSUP", "this file system has no inode flags"}
	noAttributes := sameBlock("ENOTSUP", "this file system has no user attributes")
	opened := func(use func(fd int) error) func(a *attempt) error {
		return func(a *attempt) error {
			fd, err := unix.Open(a.ro("f"), unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			return use(fd)
		}
	}
	return []*row{
		{name: "metadata/chmod", id: "E9", about: "chmod of an outside file", kind: limit, want: allowed, changes: metadata,
			try: func(a *attempt) error { return unix.Chmod(a.out("meta"), 0o600) }},
		{name: "metadata/set-uid", id: "E9", about: "set the set-uid bit of an outside file", kind: limit, want: allowed, changes: metadata,
			try: func(a *attempt) error { return unix.Chmod(a.out("meta"), 0o4755) }},
		{name: "metadata/chmod-o-path", id: "E9", about: "chmod through an O_PATH descriptor", kind: limit, want: allowed, changes: metadata,
			try: func(a *attempt) error {
				fd, err := unix.Open(a.out("meta"), unix.O_PATH, 0)
				if err != nil {
					return err
				}
				return unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o600)
			}},
		{name: "metadata/chown", id: "E9", about: "chown of an outside file (uid 1000: to itself)", kind: limit, want: allowed,
			try: func(a *attempt) error {
				if os.Geteuid() != 0 {
					return unix.Chown(a.out("meta"), -1, os.Getgid())
				}
				return unix.Chown(a.out("meta"), 12345, 12345)
			}},
		{name: "metadata/utimes", id: "E9", about: "times of an outside file", kind: limit, want: allowed, changes: metadata,
			try: func(a *attempt) error {
				return unix.UtimesNano(a.out("meta"), []unix.Timespec{{Sec: 1}, {Sec: 1}})
			}},
		{name: "metadata/setxattr", id: "E9", about: "extended attribute of an outside file", kind: limit, want: allowed, changes: metadata, blocked: noAttributes,
			try: func(a *attempt) error { return unix.Setxattr(a.out("meta"), "user.x", []byte("x"), 0) }},
		{name: "metadata/removexattr", id: "E9", about: "remove one", kind: limit, want: allowed, changes: metadata, blocked: noAttributes,
			prepare: func(fx *fixture) error { return unix.Setxattr(fx.out("meta"), "user.x", []byte("x"), 0) },
			try:     func(a *attempt) error { return unix.Removexattr(a.out("meta"), "user.x") }},
		{name: "metadata/file-capability", id: "E9", about: "give an outside file a capability", kind: limit, want: [2]expect{always("allowed"), always("denied EPERM")}, changes: metadata,
			blocked: [2]blocked{{"ENOTSUP", "this file system has no attributes"}, {"EPERM ENOTSUP", "needs CAP_SETFCAP"}},
			try:     func(a *attempt) error { return setFileCapability(a.out("meta")) }},
		{name: "metadata/flags", id: "E10", about: "inode flag of a file in a read path (FS_IOC_SETFLAGS nodump)", kind: limit, want: allowed, changes: metadata,
			blocked: [2]blocked{noFlags, noFlags}, try: flag(0x40, false)},
		{name: "metadata/immutable", id: "E10", about: "immutable flag of a file in a read path", kind: closed, want: eperm,
			blocked: [2]blocked{noFlags, {"EPERM ENOTTY ENOTSUP", "needs CAP_LINUX_IMMUTABLE"}}, try: flag(immutable, true)},
		{name: "metadata/flock", id: "E10", about: "lock a file in a read path", kind: limit, want: allowed,
			try: opened(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })},
		{name: "metadata/lease", id: "E10", about: "lease on a file in a read path: writers outside have to wait", kind: limit, want: allowed,
			try: opened(func(fd int) error {
				_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
				return err
			})},
		{name: "metadata/fchmod", id: "E10", about: "fchmod of a file in a read path", kind: limit, want: allowed, changes: metadata,
			try: opened(func(fd int) error { return unix.Fchmod(fd, 0o600) })},
		{name: "metadata/fsetxattr", id: "E10", about: "extended attribute of a file in a read path", kind: limit, want: allowed, changes: metadata, blocked: noAttributes,
			try: opened(func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("x"), 0) })},
	}
}

// Requests of btrfs that take a directory, however it was opened.
const (
	btrfsCreate  = 0x5000940e
	btrfsDestroy = 0x5000940f
	btrfsFlags   = 0x4008941a
)

func subvolume(dir string, request uint, name string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	arg := make([]byte, 4096)
	if request == btrfsFlags {
		arg[0] = 2 // read-only
	}
	copy(arg[8:], name)
	return ioctlPointer(fd, request, &arg[0])
}

// subvolumeRows show that an ioctl needs no right to write: btrfs makes,
// removes and locks whole subvolumes by a directory that was opened for reading.
func subvolumeRows() []*row {
	on := func(request uint, dir, name string) func(a *attempt) error {
		return func(a *attempt) error { return subvolume(a.dir+"/btrfs"+dir, request, name) }
	}
	rs := []*row{
		{name: "btrfs/create", about: "create a subvolume in a read path", kind: limit, want: allowed, try: on(btrfsCreate, "", "made"), effect: appeared("btrfs/made")},
		{name: "btrfs/delete", about: "delete a subvolume in a read path (mounted with user_subvol_rm_allowed)", kind: limit, want: allowed, try: on(btrfsDestroy, "", "there"),
			effect: func(fx *fixture) (bool, error) { return gone(fx.dir + "/btrfs/there") }},
		{name: "btrfs/read-only", about: "make a subvolume in a read path read-only for everybody", kind: limit, want: allowed, try: on(btrfsFlags, "/there", ""),
			effect: func(fx *fixture) (bool, error) {
				err := os.WriteFile(fx.dir+"/btrfs/there/f", nil, 0o644)
				if errors.Is(err, unix.EROFS) {
					return true, nil
				}
				return false, err
			}},
		{name: "btrfs/outside", about: "create a subvolume outside", kind: held, want: eacces, try: on(btrfsCreate, "", "made"), effect: appeared("btrfs/made"),
			profile: (*fixture).profile},
	}
	for _, r := range rs {
		r.rootFixture = true
		r.blocked = sameBlock("ENODEV ENOENT ENXIO", "no btrfs or no loop devices in this kernel")
		r.prepare = func(fx *fixture) error { return fx.btrfs("user_subvol_rm_allowed") }
		if r.profile == nil {
			r.profile = func(fx *fixture) string {
				return fmt.Sprintf("permit_path = %q\nread_paths = [%q, %q]\n", fx.permit, fx.h.bin, fx.dir+"/btrfs")
			}
		}
	}
	return rs
}

// readRows look at the outside. Content is held; existence and metadata are not.
func readRows() []*row {
	return []*row{
		{name: "read/file", about: "read an outside file", kind: held, want: eacces, try: func(a *attempt) error { return read(a.out("f")) }},
		{name: "read/list", about: "list an outside directory", kind: held, want: eacces, try: func(a *attempt) error { return list(a.out("")) }},
		{name: "read/symlink", about: "read through a link to the outside", kind: held, want: eacces, try: func(a *attempt) error { return read(a.in("link_out")) }},
		{name: "read/stat", about: "stat of an outside file", kind: limit, want: allowed,
			try: func(a *attempt) error { return unix.Stat(a.out("f"), new(unix.Stat_t)) }},
		{name: "read/readlink", about: "readlink outside", kind: limit, want: allowed,
			try: func(a *attempt) error {
				_, err := unix.Readlink(a.out("dangling"), make([]byte, 64))
				return err
			}},
		{name: "read/access", about: "access(2) outside", kind: limit, want: allowed,
			try: func(a *attempt) error { return unix.Access(a.out("f"), unix.W_OK) }},
		{name: "read/getxattr", about: "list extended attributes outside", kind: limit, want: allowed, blocked: sameBlock("ENOTSUP", "this file system has no attributes"),
			try: func(a *attempt) error {
				_, err := unix.Listxattr(a.out("f"), make([]byte, 256))
				return err
			}},
		{name: "read/chdir", about: "chdir outside", kind: limit, want: allowed, try: func(a *attempt) error { return unix.Chdir(a.out("")) }},
		{name: "read/inotify", about: "watch an outside directory", kind: limit, want: allowed,
			try: func(a *attempt) error {
				n, err := unix.InotifyInit()
				if err != nil {
					return err
				}
				_, err = unix.InotifyAddWatch(n, a.out(""), unix.IN_ALL_EVENTS)
				return err
			}},
	}
}
