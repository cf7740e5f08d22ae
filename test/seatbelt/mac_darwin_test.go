package seatbelt

import (
	"encoding/json"
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

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

// None of this has run yet: no Mac was at hand when it was written. Nothing here skips.

// The test binary is the confined program as well.
func TestMain(m *testing.M) {
	if os.Getenv("SEATBELT_ROLE") == "attempt" {
		for _, line := range os.Args[1:] {
			part := strings.Split(line, "\x1f")
			fmt.Println(try(part[0], part[1], part[2]))
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// try makes one attempt and answers "yes", "no" for a denial, or the error.
func try(op, path, to string) string {
	var err error
	switch op {
	case "read":
		var f *os.File
		if f, err = os.Open(path); err == nil {
			_, _ = f.Read(make([]byte, 1)) // a device may have nothing to read
			f.Close()
		}
	case "list":
		_, err = os.ReadDir(path)
	case "stat":
		_, err = os.Stat(path)
	case "xattr":
		if _, err = unix.Getxattr(path, "confinectl.test", make([]byte, 64)); err == unix.ENOATTR {
			err = nil
		}
	case "write":
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			f.Close()
		}
	case "truncate":
		err = os.Truncate(path, 0)
	case "create":
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			f.Close()
		}
	case "mkdir":
		err = os.Mkdir(path, 0o700)
	case "mkfifo":
		err = syscall.Mkfifo(path, 0o600)
	case "symlink":
		err = os.Symlink("/", path)
	case "remove":
		err = syscall.Unlink(path)
	case "rmdir":
		err = syscall.Rmdir(path)
	case "rename":
		err = os.Rename(path, to)
	case "link":
		err = os.Link(path, to)
	case "clone":
		err = unix.Clonefile(path, to, 0)
	case "chmod":
		var st os.FileInfo
		if st, err = os.Stat(path); err == nil {
			err = os.Chmod(path, st.Mode().Perm())
		}
	case "chown":
		err = os.Chown(path, os.Getuid(), os.Getgid())
	case "touch":
		now := time.Now()
		err = os.Chtimes(path, now, now)
	case "setxattr":
		err = unix.Setxattr(path, "confinectl.test", []byte("x"), 0)
	case "chflags":
		err = unix.Chflags(path, 0)
	case "setuid":
		err = syscall.Chmod(path, 0o4755)
	case "exec":
		var p *os.Process
		if p, err = os.StartProcess(path, []string{path}, &os.ProcAttr{Env: []string{}}); err == nil {
			_, err = p.Wait()
		}
	case "connect":
		var c net.Conn
		if c, err = net.Dial("unix", path); err == nil {
			c.Close()
		}
	case "bind":
		var l net.Listener
		if l, err = net.Listen("unix", path); err == nil {
			l.Close()
		}
	case "tcp", "listen":
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err == nil {
			var c net.Conn
			if c, err = net.Dial("tcp", l.Addr().String()); err == nil {
				c.Close()
			}
			l.Close()
		}
	case "sysctl":
		pid := os.Getppid()
		if path == "self" {
			pid = os.Getpid()
		}
		_, err = unix.SysctlRaw("kern.procargs2", pid)
	case "signal":
		pid := os.Getpid()
		if path == "others" {
			pid, _ = strconv.Atoi(to)
		}
		err = syscall.Kill(pid, 0)
	default:
		return "BUG: no such operation: " + op
	}
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		return "no"
	}
	return err.Error()
}

// mac is a fixture below the home directory, by its real path.
type mac struct {
	*testing.T
	places
	self string
}

func newMac(t *testing.T) *mac {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(home, "confinectl-matrix-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	tmp, err := exec.Command("/usr/bin/getconf", "DARWIN_USER_TEMP_DIR").Output()
	if err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(strings.TrimSpace(string(tmp)))
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := &mac{t, places{dir, strconv.Itoa(os.Getuid()), real}, self}
	scratch := "/private/tmp/matrix-" + m.uid
	t.Cleanup(func() { os.RemoveAll(scratch); os.RemoveAll(real + "/confinectl-" + m.uid + "/matrix") })
	m.fill()
	return m
}

// fill makes the files of files.txt anew. Sockets have a listener that accepts.
func (m *mac) fill() {
	m.Helper()
	entries, _ := os.ReadDir(m.home)
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(m.home, e.Name())); err != nil {
			m.Fatal(err)
		}
	}
	scratch := "/private/tmp/matrix-" + m.uid
	os.RemoveAll(scratch)
	if err := os.Mkdir(scratch, 0o700); err != nil {
		m.Fatal(err)
	}
	for line := range strings.Lines(m.in(filesText)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, target, _ := strings.Cut(rest, " -> ")
		if kind == "#" || kind == "" || !strings.HasPrefix(path, m.home) {
			continue
		}
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		switch kind {
		case "d":
			err = errors.Join(err, os.MkdirAll(path, 0o700))
		case "f":
			err = errors.Join(err, os.WriteFile(path, []byte("text\n"), 0o600))
		case "x":
			err = errors.Join(err, os.WriteFile(path, []byte("#!/usr/bin/true\n"), 0o755))
		case "l":
			err = errors.Join(err, os.Symlink(target, path))
		case "s":
			l, listenErr := listenShort(path)
			if err = errors.Join(err, listenErr); err == nil {
				m.Cleanup(func() { l.Close() })
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						c.Close()
					}
				}()
			}
		}
		if err != nil {
			m.Fatal(err)
		}
	}
}

// listenShort makes a socket by a path that may be longer than sockaddr_un takes.
func listenShort(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp("/private/tmp", "s")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", dir+"/s")
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	return l, os.Rename(dir+"/s", path)
}

// facts are this Mac's, with another home directory.
func (m *mac) facts() *resolve.Facts {
	env := append(os.Environ(), "SEATBELT_ROLE=attempt")
	f := loader.HostFacts(env)
	f.Home, f.Terminals = m.home, nil
	return f
}

// plan compiles the matrix' policy, or another one, for attempts.
func (m *mac) plan(policy string, attempts ...[3]string) (*enforce.Plan, error) {
	m.Helper()
	argv := []string{m.self}
	for _, a := range attempts {
		argv = append(argv, strings.Join(a[:], "\x1f"))
	}
	text, err := json.Marshal(m.home)
	if err != nil {
		m.Fatal(err)
	}
	p, err := resolve.DecodePolicy([]byte(strings.ReplaceAll(policy, "$H", strings.Trim(string(text), `"`))))
	if err != nil {
		m.Fatal(err)
	}
	b, err := resolve.Resolve(p, m.facts(), resolve.Request{Command: argv})
	if err != nil {
		return nil, err
	}
	return enforce.Compile(b)
}

// confined makes attempts inside the boundary of a policy, through [enforce.Plan.Start].
func (m *mac) confined(policy string, attempts ...[3]string) []string {
	m.Helper()
	plan, err := m.plan(policy, attempts...)
	if err != nil {
		m.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		m.Fatal(err)
	}
	defer r.Close()
	child, err := plan.Start(enforce.StartOptions{Stdout: w, Stderr: os.Stderr})
	w.Close()
	if err != nil {
		m.Fatal(err)
	}
	out := make([]byte, 0, 1<<16)
	buf := make([]byte, 1<<12)
	for {
		n, err := r.Read(buf)
		out = append(out, buf[:n]...)
		if err != nil {
			break
		}
	}
	state, err := child.Wait()
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if err != nil || !state.Success() || len(lines) != len(attempts) {
		m.Fatalf("the confined program: %v %v: %q; a profile that kills it confines nothing", err, state, out)
	}
	return lines
}

// free makes one attempt unconfined, in a process of its own.
func (m *mac) free(a [3]string) string {
	m.Helper()
	cmd := exec.Command(m.self, strings.Join(a[:], "\x1f"))
	cmd.Env = append(os.Environ(), "SEATBELT_ROLE=attempt")
	out, err := cmd.Output()
	if err != nil {
		m.Fatal(err)
	}
	return strings.TrimSuffix(string(out), "\n")
}
