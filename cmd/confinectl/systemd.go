package main

import (
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

// systemd tells the service manager what state the service is in, by the
// protocol of sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. The
// empty systemd tells nobody. What cannot be sent is left unsaid: the manager
// has a time limit of its own.
type systemd string

func newSystemd(f *resolve.Facts) systemd {
	path, _ := f.Getenv("NOTIFY_SOCKET")
	if path != "" && path[0] != '/' && path[0] != '@' {
		path = "" // vsock: and the like are for virtual machines
	}
	return systemd(path)
}

func (s systemd) ready()    { s.send("READY=1\nSTATUS=watching") }
func (s systemd) stopping() { s.send("STOPPING=1") }

// reloading carries the time, or the manager could take an older READY for
// the answer (Type=notify-reload, systemd.service(5)).
func (s systemd) reloading() {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
		s.send("RELOADING=1\nMONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/int64(time.Microsecond), 10))
	}
}

func (s systemd) send(state string) {
	if s == "" {
		return
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		return
	}
	defer syscall.Close(fd)
	syscall.CloseOnExec(fd)
	_ = syscall.Sendto(fd, []byte(state), 0, &syscall.SockaddrUnix{Name: string(s)}) // "@" is the abstract namespace
}
