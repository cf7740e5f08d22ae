package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/test/testenv"
)

// What systemd hears: ready after the first look, reloading with the time and
// ready again on SIGHUP, stopping at the end.
func TestWatchNotifiesSystemd(t *testing.T) {
	if m := enforce.Probe().Missing; m != nil {
		testenv.Need(t, false, "an arm: "+m.Error())
	}
	dir := t.TempDir()
	for _, name := range []string{"in", "cfg"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cfg/p.toml"), []byte("permit_path = '"+dir+"/in'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, address := range map[string]string{"a path": filepath.Join(t.TempDir(), "notify"), "an abstract name": "@confinectl-test-" + strconv.Itoa(os.Getpid())} {
		t.Run(name, func(t *testing.T) {
			socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer socket.Close()
			hear := func() string {
				buf := make([]byte, 4096)
				socket.SetReadDeadline(time.Now().Add(10 * time.Second))
				n, err := socket.Read(buf)
				if err != nil {
					t.Fatal(err)
				}
				return string(buf[:n])
			}
			var out strings.Builder
			c := &cli{args: []string{"confinectl"}, env: []string{"HOME=" + dir, "NOTIFY_SOCKET=" + address}, stdout: &out, stderr: os.Stderr}
			w := &watcher{cli: c, facts: c.facts(), now: time.Now}
			w.launch.dirs = []string{filepath.Join(dir, "cfg")}
			w.loader = w.launch.loader(w.facts)
			store, err := loader.Open(w.loader, loader.StoreOptions{Judge: w.judge})
			if err != nil {
				t.Fatal(err)
			}
			signals := make(chan os.Signal, 1)
			done := make(chan error)
			go func() { done <- w.run(store, signals) }()
			if got := hear(); !strings.HasPrefix(got, "READY=1\n") {
				t.Errorf("%q", got)
			}
			signals <- syscall.SIGHUP
			reloading := hear()
			usec, ok := strings.CutPrefix(reloading, "RELOADING=1\nMONOTONIC_USEC=")
			said, err := strconv.ParseInt(usec, 10, 64)
			var now unix.Timespec
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
			if age := now.Nano()/1000 - said; !ok || err != nil || age < 0 || age > 10e6 {
				t.Errorf("%q, %d µs ago", reloading, age)
			}
			if got := hear(); !strings.HasPrefix(got, "READY=1\n") {
				t.Errorf("%q", got)
			}
			signals <- syscall.SIGTERM
			if got := hear(); got != "STOPPING=1" {
				t.Errorf("%q", got)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if !strings.Contains(out.String(), "loaded  p  ") {
				t.Errorf("%q", out.String())
			}
		})
	}
}

// Nobody listening, or an address of another kind, keeps nobody from watching.
func TestSystemdIsAbsent(t *testing.T) {
	for _, address := range []string{"", "relative", "vsock:2:1", "/nonexistent/socket", "@" + strings.Repeat("x", 200)} {
		c := &cli{env: []string{"NOTIFY_SOCKET=" + address}}
		s := newSystemd(c.facts())
		s.ready()
		s.reloading()
		s.stopping()
	}
}
