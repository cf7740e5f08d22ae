package kernels

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/test/fakeabi"
)

// What the boot line and the guest put into the environment.
const (
	envRole   = "KERNELS_ROLE"   // guest, attempt, child, erratum or fakeabi; empty in the tests
	envGuest  = "KERNELS_GUEST"  // set on the boot line: this binary is the init
	envLog    = "KERNELS_LOG"    // the terminal that the report goes to
	envMounts = "KERNELS_MOUNTS" // file systems that must be there, separated by commas
	envSkip   = "KERNELS_SKIP"   // tests that a lane leaves out
	envABI    = "KERNELS_ABI"    // what the kernel must offer: a number, N+, off or none
	envPlaces = "KERNELS_PLACES" // NAME=DIRECTORY[=ALIAS] of each file system, separated by commas
	envBinary = "CONFINECTL"     // the binary to test; built where it is unset
)

// unprivileged is the uid and gid of the second run.
const unprivileged = 1000

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	os.Unsetenv(envRole)
	switch {
	case os.Getpid() == 1 && os.Getenv(envGuest) != "":
		initMain()
	case role == "guest":
		os.Exit(guestMain())
	case role == "attempt":
		os.Exit(attemptMain())
	case role == "child":
		os.Exit(childMain())
	case role == "erratum":
		os.Exit(erratumMain())
	case role == "fakeabi":
		fakeabi.Main()
	}
	unix.Umask(0o022) // a profile that others may write is not trusted
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // a second for each attempt under -race
	}
	status := m.Run()
	if os.Getenv(envBinary) == "" {
		if name, _ := built(); name != "" {
			os.RemoveAll(filepath.Dir(name))
		}
	}
	os.Exit(status)
}

// initMain is the first process of a guest. It reaps whatever ends, and powers
// off with the guest's own work done.
func initMain() {
	// Away from the rootfs of the initramfs: pivot_root(2) wants another root.
	if err := errors.Join(unix.Mount("/", "/fs", "", unix.MS_BIND, ""), unix.Chdir("/fs"), unix.Mount(".", "/", "", unix.MS_MOVE, ""), unix.Chroot("."), unix.Chdir("/")); err != nil {
		fmt.Println("init: a root of its own:", err)
	}
	for _, m := range []struct {
		dir, fstype string
		mode        uint32
	}{
		{"/dev", "devtmpfs", 0o755}, {"/proc", "proc", 0o755}, {"/sys", "sysfs", 0o755}, {"/sys/kernel/security", "securityfs", 0o755},
		{"/dev/pts", "devpts", 0o755}, {"/dev/shm", "tmpfs", 0o1777}, {"/tmp", "tmpfs", 0o1777},
	} {
		_ = os.MkdirAll(m.dir, 0o755)
		if err := unix.Mount("none", m.dir, m.fstype, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			fmt.Println("KERNELS-NOMOUNT", m.dir, err)
		}
		_ = unix.Chmod(m.dir, m.mode)
	}
	for link, target := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		_ = os.Symlink("/proc/self/"+target, "/dev/"+link)
	}
	log, err := os.OpenFile(os.Getenv(envLog), os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		fmt.Println("init:", err)
		log = os.Stdout
	}
	p, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{
		Env: append(os.Environ(), envRole+"=guest"), Files: []*os.File{nil, log, log},
	})
	if err != nil {
		fmt.Fprintln(log, "init:", err)
	} else {
		for {
			pid, err := unix.Wait4(-1, nil, 0, nil)
			if pid == p.Pid || err != nil && err != unix.EINTR {
				break
			}
		}
	}
	_ = log.Sync()
	time.Sleep(100 * time.Millisecond) // the serial line is slower than the power switch
	unix.Sync()
	fmt.Println("init:", unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF))
	select {}
}

// guestMain makes the file systems and runs every test binary as root and as uid
// 1000. What it prints in lines that begin with KERNELS- the script run reads.
func guestMain() int {
	unix.Umask(0o022)
	modules, _ := filepath.Glob("/modules/*.ko")
	for _, m := range modules {
		if err := insmod(m); err != nil {
			fmt.Println("KERNELS-NOMOUNT", m, err)
		}
	}
	if err := loopbackUp(); err != nil {
		fmt.Println("guest: the loopback:", err)
	}
	var places []string
	for _, name := range strings.Split(os.Getenv(envMounts), ",") {
		place, err := mountPlace(name)
		if err != nil {
			fmt.Println("KERNELS-NOMOUNT", name, err)
			continue
		}
		places = append(places, name+"="+place)
	}
	abi, errata := kernelSays()
	fmt.Printf("KERNELS-KERNEL %s %s %s\n", release(), abi, errata)
	for _, program := range []string{"kernels", "escapes"} {
		for _, uid := range []int{0, unprivileged} {
			// Without Landlock escapes has nothing to measure, and root's run of it measures both users.
			if program == "escapes" && (uid != 0 || strings.Trim(abi, "0123456789") != "") {
				continue
			}
			fmt.Println("KERNELS-START", program, uid)
			fmt.Println("KERNELS-EXIT", program, uid, runTests(program, uid, places))
		}
	}
	fmt.Println("KERNELS-DONE")
	return 0
}

// runTests gives the status of a test binary run by a user.
func runTests(program string, uid int, places []string) string {
	home := "/home/" + strconv.Itoa(uid)
	if err := errors.Join(os.MkdirAll(home, 0o755), os.Chown(home, uid, uid)); err != nil {
		return err.Error()
	}
	tmp := "/tmp"
	if program == "escapes" {
		tmp = "/fs/ext4" // what a user's files lie on: with attributes and flags on every kernel
	}
	cmd := exec.Command("/t/"+program+".test", "-test.v", "-test.timeout=30m")
	if os.Getenv(envSkip) != "" {
		cmd.Args = append(cmd.Args, "-test.skip="+os.Getenv(envSkip))
	}
	cmd.Dir = "/t"
	cmd.Env = []string{"PATH=/bin", "HOME=" + home, "TMPDIR=" + tmp, envBinary + "=/bin/confinectl", envABI + "=" + os.Getenv(envABI), envPlaces + "=" + strings.Join(places, ",")}
	if uid == 0 {
		cmd.Env = append(cmd.Env, "CI=true") // nothing may be passed over
	}
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	if err := cmd.Run(); err != nil {
		return err.Error()
	}
	return "ok"
}

// mountPlace makes a file system at /fs/NAME and gives its directory, and after
// a = the other name of that directory where it has one.
func mountPlace(name string) (place string, err error) {
	dir := "/fs/" + name
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	place = dir
	switch name {
	case "tmpfs":
		err = unix.Mount("none", dir, "tmpfs", 0, "")
	case "ext4":
		var disk string
		if disk, err = findDisk(); err == nil {
			err = unix.Mount(disk, dir, "ext4", 0, "")
		}
	case "bind":
		source := "/fs/tmpfs/source"
		if err = os.MkdirAll(source, 0o755); err == nil {
			err = unix.Mount(source, dir, "", unix.MS_BIND, "")
		}
		place += "=" + source
	case "overlay":
		lower, upper, work := "/fs/ext4/lower", "/fs/tmpfs/upper", "/fs/tmpfs/work"
		if err = errors.Join(os.MkdirAll(lower, 0o755), os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err == nil {
			err = unix.Mount("none", dir, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work)
		}
		place += "=" + upper
	case "loop":
		var device string
		if device, err = loopDevice("/disk.img"); err == nil {
			err = unix.Mount(device, dir, "ext4", 0, "")
		}
	default:
		err = errors.New("no such file system here")
	}
	if err != nil {
		return "", err
	}
	return place, unix.Chmod(dir, 0o1777)
}

// findDisk waits for the disk with the ext4 image: an nvme namespace, which
// comes up when it likes, or the block device of a user-mode kernel.
func findDisk() (string, error) {
	for range 600 {
		for _, pattern := range []string{"/sys/block/nvme*n*", "/sys/block/ubda"} {
			if found, _ := filepath.Glob(pattern); len(found) > 0 {
				node := "/dev/" + filepath.Base(found[0])
				if _, err := os.Stat(node); err == nil {
					return node, nil
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", errors.New("the disk did not come up")
}

func loopDevice(image string) (string, error) {
	backing, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer backing.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("/dev/loop%d", n)
	device, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer device.Close()
	return name, unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(backing.Fd())})
}

func insmod(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// loopbackUp brings the loopback up, for the rows that use the network.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request); err != nil {
		return err
	}
	_, err = net.InterfaceByName("lo")
	return err
}

func release() string {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return unix.ByteSliceToString(u.Release[:])
}

// kernelSays is the kernel's answer to the two questions of
// landlock_create_ruleset(2): the ABI, or none or off, and the fixed errata, or -.
func kernelSays() (abi, errata string) {
	n, err := landlockABI()
	switch err {
	case 0:
		abi = strconv.Itoa(n)
	case unix.ENOSYS:
		abi = "none"
	case unix.EOPNOTSUPP:
		abi = "off"
	default:
		abi = unix.ErrnoName(err)
	}
	if e, err := landlockErrata(); err == 0 {
		return abi, fmt.Sprintf("%#x", e)
	}
	return abi, "-"
}

func landlockABI() (int, unix.Errno) {
	n, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	return int(n), err
}

func landlockErrata() (int, unix.Errno) {
	n, _, err := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	return int(n), err
}
