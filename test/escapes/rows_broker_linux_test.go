package escapes

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// brokerRows ask a process outside to do the writing.
func brokerRows() []*row {
	dial := func(address unix.Sockaddr, family, kind int) (int, error) {
		s, err := unix.Socket(family, kind, 0)
		if err != nil {
			return -1, err
		}
		return s, unix.Connect(s, address)
	}
	request := func(s int, err error) error {
		if err != nil {
			return err
		}
		if _, err := unix.Write(s, []byte("W")); err != nil {
			return err
		}
		n, err := unix.Read(s, make([]byte, 1))
		if err == nil && n == 0 {
			err = unix.ECONNRESET
		}
		return err
	}
	pathname := func(a *attempt) unix.Sockaddr { return &unix.SockaddrUnix{Name: a.out("sock")} }
	abstract := func() *unix.SockaddrUnix { return &unix.SockaddrUnix{Name: "@" + os.Getenv(envSocket)} }
	datagram := func(address unix.Sockaddr) func(a *attempt) error {
		return func(a *attempt) error {
			s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			if address == nil {
				address = &unix.SockaddrUnix{Name: a.out("dgram")}
			}
			if err := unix.Sendto(s, []byte("W"), 0, address); err != nil {
				return err
			}
			return a.ask() // the broker needs a moment
		}
	}
	rs := []*row{
		{name: "broker/pathname", id: "E5", about: "pathname Unix socket of a daemon outside (docker.sock, user bus, ssh-agent): have it write", kind: limit, want: both(since(9, "denied EACCES")), changes: content,
			try: func(a *attempt) error { return request(dial(pathname(a), unix.AF_UNIX, unix.SOCK_STREAM)) }},
		{name: "broker/pathname-datagram", id: "E5", about: "the same with a datagram", kind: limit, want: both(since(9, "denied EACCES")), changes: content,
			try: datagram(nil)},
		{name: "broker/scm-rights", id: "E5", about: "take a writable descriptor from it (SCM_RIGHTS) and write", kind: limit, want: both(since(9, "denied EACCES")), changes: content,
			try: func(a *attempt) error {
				s, err := dial(pathname(a), unix.AF_UNIX, unix.SOCK_STREAM)
				if err != nil {
					return err
				}
				if _, err := unix.Write(s, []byte("F")); err != nil {
					return err
				}
				oob := make([]byte, 64)
				_, n, _, _, err := unix.Recvmsg(s, make([]byte, 1), oob, 0)
				if err != nil {
					return err
				}
				messages, err := unix.ParseSocketControlMessage(oob[:n])
				if err != nil {
					return err
				}
				fds, err := unix.ParseUnixRights(&messages[0])
				if err != nil {
					return err
				}
				_, err = unix.Write(fds[0], []byte("X"))
				return err
			}},
		{name: "broker/abstract", id: "E6", about: "abstract Unix socket of a daemon outside", kind: closed, want: both(since(6, "denied EPERM")), changes: content,
			try: func(a *attempt) error { return request(dial(abstract(), unix.AF_UNIX, unix.SOCK_STREAM)) }},
		{name: "broker/abstract-datagram", id: "E6", about: "the same with a datagram", kind: closed, want: both(since(6, "denied EPERM")), changes: content,
			try: func(a *attempt) error {
				address := abstract()
				address.Name += ".dgram"
				return datagram(address)(a)
			}},
		{name: "broker/tcp", id: "E7", about: "a daemon on the loopback: the network passes through", kind: limit, want: allowed, changes: content,
			blocked: sameBlock("EADDRNOTAVAIL ENETUNREACH", "the loopback is down"), prepare: loopbackBroker,
			try: func(a *attempt) error {
				port, _ := strconv.Atoi(os.Getenv(envPort))
				return request(dial(&unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}, unix.AF_INET, unix.SOCK_STREAM))
			}},
	}
	for _, r := range rs {
		if r.prepare == nil {
			r.prepare = broker
		}
		r.step = func(fx *fixture) error {
			_, err := os.Stat(fx.out("by_broker"))
			for range 200 {
				if err == nil {
					break
				}
				pause()
				_, err = os.Stat(fx.out("by_broker"))
			}
			return err
		}
	}
	return rs
}

// sysctl reads a switch of this host; empty if it has none.
func sysctl(name string) string {
	b, _ := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(b))
}

// terminalRows type into a terminal.
func terminalRows() []*row {
	own := func(fx *fixture) error {
		_, slave, err := fx.terminal()
		if err != nil {
			return err
		}
		fx.stdin, fx.tty, fx.kept = slave, true, slave
		return nil
	}
	// typed says whether the next reader of the terminal gets what nobody typed.
	typed := func(fx *fixture) (bool, error) {
		fd := int(fx.kept.Fd())
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return false, err
		}
		t.Lflag &^= unix.ICANON
		t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 0, 1
		if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
			return false, err
		}
		n, err := unix.Read(fd, make([]byte, 8))
		return n > 0, err
	}
	push := func(fd int) error {
		c := []byte("#")
		return ioctlPointer(fd, unix.TIOCSTI, &c[0])
	}
	noTerminals := sameBlock("ENOENT ENODEV", "no pseudo-terminals here")
	injection, noInjection := allowed, noTerminals
	if sysctl("dev.tty.legacy_tiocsti") == "0" {
		// Root loses its exemption with CAP_SYS_ADMIN.
		injection = both(always("denied EIO"))
		noInjection[asUser] = blocked{"EIO ENOENT ENODEV", "dev.tty.legacy_tiocsti is 0"}
	}
	return []*row{
		{name: "terminal/tiocsti", id: "E8", about: "push a character into the inherited terminal (open where dev.tty.legacy_tiocsti is 1)", kind: limit, want: injection, blocked: noInjection,
			prepare: own, effect: typed, try: func(*attempt) error { return push(0) }},
		{name: "terminal/tiocsti-dev-tty", id: "E8", about: "the same through /dev/tty", kind: limit, want: injection, blocked: noInjection,
			prepare: own, effect: typed, try: func(*attempt) error {
				fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
				if err != nil {
					return err
				}
				return push(fd)
			}},
		{name: "terminal/other", about: "write to another terminal of the same user", kind: held, want: eacces, blocked: noTerminals,
			prepare: func(fx *fixture) error {
				master, _, err := fx.terminal()
				if err != nil {
					return err
				}
				fx.kept = master
				return nil
			},
			effect: func(fx *fixture) (bool, error) {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fx.kept.Fd()), Events: unix.POLLIN}}, 50)
				return n > 0, err
			},
			try: func(*attempt) error { return write(os.Getenv(envPTY), unix.O_NOCTTY) }},
		{name: "terminal/new", about: "open a new pseudo-terminal (pty = true permits it)", kind: held, want: eacces, blocked: noTerminals,
			try: func(*attempt) error { return opens("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY) }},
	}
}
