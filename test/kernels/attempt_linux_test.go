package kernels

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Environment of an attempt.
const (
	envDir   = "KERNELS_DIR"   // the fixture
	envAlias = "KERNELS_ALIAS" // the fixture by its other name; empty where it has none
	envPID   = "KERNELS_PID"   // a process outside
	envPort  = "KERNELS_PORT"  // its TCP port
)

// fixture is one fresh directory tree, and a server outside:
//
//	in    the permit path
//	out   outside
//	prof  the profile directory
//
// Every row has files of its own, named for it, so that all rows are one launch.
type fixture struct {
	dir, alias string
	close      []func()
	signals    chan os.Signal
	port       int
}

func (fx *fixture) path(elem ...string) string {
	return filepath.Join(append([]string{fx.dir}, elem...)...)
}

// build makes the tree below a place.
func build(p place) (fx *fixture, err error) {
	dir, err := os.MkdirTemp(p.dir, "k")
	if err != nil {
		return nil, err
	}
	fx = &fixture{dir: dir, signals: make(chan os.Signal, 16)}
	fx.close = append(fx.close, func() { os.RemoveAll(dir) })
	defer func() {
		if err != nil {
			fx.end()
		}
	}()
	if p.alias != "" {
		fx.alias = filepath.Join(p.alias, filepath.Base(dir))
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, err
	}
	for _, d := range []string{"in", "in/a", "in/b", "out", "prof"} {
		if err := os.Mkdir(fx.path(d), 0o755); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		for _, d := range []string{"in/a", "out"} {
			if err := os.WriteFile(fx.path(d, r.name), []byte("original\n"), 0o644); err != nil {
				return nil, err
			}
		}
	}
	if err := os.Symlink(fx.path("out/symlink"), fx.path("in/link")); err != nil {
		return nil, err
	}
	for network, addresses := range map[string][]string{
		"unix": {fx.path("out/outside.sock"), fx.path("out/listed.sock"), fx.path("in/inside.sock"), "@" + fx.dir},
		"tcp":  {"127.0.0.1:0"},
	} {
		for _, address := range addresses {
			l, err := net.Listen(network, address)
			if err != nil {
				return nil, err
			}
			fx.close = append(fx.close, func() { l.Close() })
			go serve(l)
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				fx.port = a.Port
			}
		}
	}
	signal.Notify(fx.signals, unix.SIGUSR1)
	fx.close = append(fx.close, func() { signal.Stop(fx.signals) })
	return fx, nil
}

func (fx *fixture) end() {
	for i := len(fx.close) - 1; i >= 0; i-- {
		fx.close[i]()
	}
}

// serve answers every connection with one byte.
func serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("X"))
		c.Close()
	}
}

func (fx *fixture) environ() []string {
	return append(os.Environ(), envRole+"=attempt", envDir+"="+fx.dir, envAlias+"="+fx.alias, envPID+"="+strconv.Itoa(os.Getpid()), envPort+"="+strconv.Itoa(fx.port))
}

// attempt is what a row's function gets to work with.
type attempt struct{ dir string }

func (a *attempt) in(name string) string  { return a.dir + "/in/" + name }
func (a *attempt) out(name string) string { return a.dir + "/out/" + name }

// attemptMain is the program that is confined: it tries every row and prints a line
// for each, "VERDICT row ok" or the errno that stopped it.
func attemptMain() int {
	a := &attempt{dir: os.Getenv(envDir)}
	for _, r := range rows {
		if r.alias && os.Getenv(envAlias) == "" {
			continue
		}
		fmt.Println("VERDICT", r.name, verdictOf(r.try(a)))
	}
	return 0
}

func verdictOf(err error) string {
	if errno, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(errno)
	}
	if err != nil {
		return strings.ReplaceAll(err.Error(), " ", "_")
	}
	return "ok"
}

// write appends a byte to a file.
func write(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC|flags, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte("X"))
	return err
}

// read reads a byte of a file, or the names in a directory.
func read(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if flags&unix.O_DIRECTORY != 0 {
		_, err = unix.Getdents(fd, make([]byte, 1024))
	} else {
		_, err = unix.Read(fd, make([]byte, 1))
	}
	return err
}

// ask connects to a server and waits for its byte.
func ask(family int, address unix.Sockaddr) error {
	s, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Connect(s, address); err != nil {
		return err
	}
	n, err := unix.Read(s, make([]byte, 1))
	if err == nil && n == 0 {
		return unix.ECONNRESET
	}
	return err
}

// serveInside makes a server inside the domain and asks it.
func serveInside(path string) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	if err := unix.Bind(s, &unix.SockaddrUnix{Name: path}); err != nil {
		return err
	}
	if err := unix.Listen(s, 1); err != nil {
		return err
	}
	c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(c)
	return unix.Connect(c, &unix.SockaddrUnix{Name: path})
}

// entropy asks /dev/urandom how many bits it has: an ioctl that every user may do.
func entropy() error {
	fd, err := unix.Open("/dev/urandom", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var bits int32
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.RNDGETENTCNT, uintptr(unsafe.Pointer(&bits))); errno != 0 {
		return errno
	}
	return nil
}

// signalChild signals a child of one's own, which ends by it.
func signalChild() error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"child"}
	cmd.Env = append(os.Environ(), envRole+"=child")
	cmd.Stdin = r
	if err := cmd.Start(); err != nil {
		return err
	}
	r.Close()
	err = unix.Kill(cmd.Process.Pid, unix.SIGKILL)
	w.Close()
	_ = cmd.Wait()
	return err
}

// childMain waits until its standard input ends.
func childMain() int {
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// erratumMain puts one thread of itself into a domain with the signal scope, and
// signals another thread of the same process from it. Erratum 2 is that this is denied.
func erratumMain() int {
	other := make(chan int)
	go func() {
		runtime.LockOSThread()
		other <- unix.Gettid()
		select {}
	}()
	target := <-other
	runtime.LockOSThread()
	fd, err := ll.LandlockCreateRuleset(&ll.RulesetAttr{Scoped: unix.LANDLOCK_SCOPE_SIGNAL}, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	}
	if err == nil {
		err = ll.LandlockRestrictSelf(fd, 0)
	}
	if err != nil {
		fmt.Println("VERDICT setup", verdictOf(err))
		return 1
	}
	fmt.Println("VERDICT thread", verdictOf(unix.Tgkill(unix.Getpid(), target, unix.SIGURG)))
	return 0
}
