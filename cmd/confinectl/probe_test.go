package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// probes are what scripts need and a shell cannot do. Each takes its arguments and
// ends with status 1 and the system's own words when it fails.
var probes = map[string]func(args []string) error{
	// rename(2), link(2) and truncate(2), each by its own name: mv falls back on
	// copying, and truncate(1) opens the file first and proves nothing.
	"rename":   func(a []string) error { return os.Rename(a[0], a[1]) },
	"link":     func(a []string) error { return os.Link(a[0], a[1]) },
	"truncate": func(a []string) error { return os.Truncate(a[0], 0) },

	// args prints argv, one quoted word a line.
	"args": func(a []string) error {
		for _, s := range append([]string{os.Args[0]}, a...) {
			fmt.Printf("%q\n", s)
		}
		return nil
	},

	// ids prints the real and the effective user.
	"ids": func([]string) error {
		_, err := fmt.Println(os.Getuid(), os.Geteuid())
		return err
	},

	// fds writes to a file which descriptors below 64 are open, and what each leads to.
	"fds": func(a []string) error {
		var b strings.Builder
		for fd := range 64 {
			if target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil {
				fmt.Fprintln(&b, fd, target)
			}
		}
		return os.WriteFile(a[0], []byte(b.String()), 0o644)
	},

	// read N prints what can be read from descriptor N.
	"read": func(a []string) error {
		fd, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, os.NewFile(uintptr(fd), "descriptor "+a[0]))
		return err
	},

	// stdio CMD… runs it with a socket as descriptors 0 and 1.
	"stdio": func(a []string) error {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		cmd := exec.Command(a[0], a[1:]...)
		end := os.NewFile(uintptr(pair[1]), "socket")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, os.Stderr
		return cmd.Run()
	},

	// broker SOCKET FILE appends to FILE whatever line it is sent: a helper outside
	// that writes on behalf of whoever may connect to it.
	"broker": func(a []string) error {
		l, err := net.Listen("unix", a[0])
		if err != nil {
			return err
		}
		if len(a) > 2 { // an abstract socket cannot be seen
			if err := os.WriteFile(a[2], nil, 0o644); err != nil {
				return err
			}
		}
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil {
				return err
			}
			f, err := os.OpenFile(a[1], os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			fmt.Fprint(f, line)
			f.Close()
			fmt.Fprintln(c, "written")
			c.Close()
		}
	},

	// poke SOCKET LINE asks the broker and waits for its answer.
	"poke": func(a []string) error {
		c, err := net.Dial("unix", a[0])
		if err != nil {
			return err
		}
		fmt.Fprintln(c, a[1])
		_, err = io.ReadAll(c)
		return err
	},

	// interp FROM TO PATH copies a program and gives the copy another ELF interpreter.
	"interp": func(a []string) error {
		data, err := os.ReadFile(a[0])
		if err != nil {
			return err
		}
		f, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return err
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP && uint64(len(a[2])) < p.Filesz {
				copy(data[p.Off:p.Off+p.Filesz], append([]byte(a[2]), make([]byte, p.Filesz)...))
				return os.WriteFile(a[1], data, 0o755)
			}
		}
		return fmt.Errorf("%s has no ELF interpreter, or a shorter one", a[0])
	},

	// loader FROM prints the ELF interpreter of a program.
	"loader": func(a []string) error {
		f, err := elf.Open(a[0])
		if err != nil {
			return err
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				name, err := io.ReadAll(p.Open())
				fmt.Println(strings.TrimRight(string(name), "\x00"))
				return err
			}
		}
		return fmt.Errorf("%s has no ELF interpreter", a[0])
	},

	// tree DIR N makes N directories below DIR and prints the policy that grants them all.
	"tree": func(a []string) error {
		n, err := strconv.Atoi(a[1])
		if err != nil {
			return err
		}
		fmt.Printf(`{"permit_path":%q,"permit_extra_subpaths":[`, a[0])
		for i := range n {
			dir := fmt.Sprintf("%s/%d", a[0]+".d", i)
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if i > 0 {
				fmt.Print(",")
			}
			fmt.Printf("%q", dir)
		}
		fmt.Println("]}")
		return nil
	},

	// spec FILE spawns the command of a launch spec, as a dispatcher would.
	"spec": func(a []string) error {
		data, err := os.ReadFile(a[0])
		if err != nil {
			return err
		}
		var spec struct {
			Cmd  string
			Args []string
			Env  map[string]string
			Cd   string
		}
		if err := json.Unmarshal(data, &spec); err != nil {
			return err
		}
		cmd := exec.Command(spec.Cmd, spec.Args...)
		cmd.Dir, cmd.Env = spec.Cd, os.Environ()
		for name, value := range spec.Env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err = cmd.Run()
		if exit, ok := err.(*exec.ExitError); ok {
			os.Exit(exit.ExitCode())
		}
		return err
	},

	// reasons FILE looks through what `show --json` wrote for a rule that nobody asked for.
	"reasons": func(a []string) error {
		data, err := os.ReadFile(a[0])
		if err != nil {
			return err
		}
		var show struct {
			Rules []struct {
				Path    string
				Reasons []struct{ File, Key string }
			}
		}
		if err := json.Unmarshal(data, &show); err != nil {
			return err
		}
		for _, rule := range show.Rules {
			for _, r := range rule.Reasons {
				if r.File != "runtime" && (r.File == "" || r.Key == "") {
					return fmt.Errorf("%s is granted for no reason", rule.Path)
				}
			}
			if len(rule.Reasons) == 0 {
				return fmt.Errorf("%s is granted for no reason", rule.Path)
			}
		}
		return nil
	},

	// as UID CMD… becomes another user first.
	"as": func(a []string) error {
		uid, err := strconv.Atoi(a[0])
		if err != nil {
			return err
		}
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
		if err := syscall.Setgid(uid); err != nil {
			return err
		}
		if err := syscall.Setuid(uid); err != nil {
			return err
		}
		return become(a[1:])
	},

	// deleted COPY CMD… starts COPY, a program that is removed at that moment,
	// under the name and with the arguments of CMD.
	"deleted": func(a []string) error {
		fd, err := syscall.Open(a[0], syscall.O_RDONLY, 0)
		if err != nil {
			return err
		}
		if err := os.Remove(a[0]); err != nil {
			return err
		}
		return syscall.Exec(fmt.Sprintf("/proc/self/fd/%d", fd), a[1:], os.Environ())
	},
}

func become(argv []string) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	return syscall.Exec(path, argv, os.Environ())
}

// probeMain is the program probe.
func probeMain() {
	if len(os.Args) < 2 || probes[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "probe: no such probe:", os.Args[1:])
		os.Exit(99)
	}
	if err := probes[os.Args[1]](os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}
