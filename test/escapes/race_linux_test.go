package escapes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// swapWhile exchanges the permit path and a symlink without a pause while
// confinectl starts n times, and returns what came of it. A launch that ran is
// judged by ran; refusals are counted by code.
func (h *harness) swapWhile(t *testing.T, r *row, user, n int, target string, ran func(fx *fixture, res result) error) {
	t.Helper()
	fx, err := h.newFixture(r, user)
	defer func() {
		if err := fx.close(); err != nil {
			t.Error(err)
		}
	}()
	if err != nil {
		t.Fatal(err)
	}
	in, swap := fx.dir+"/in", fx.dir+"/swap"
	if err := errors.Join(os.Symlink(fx.dir+target, swap), fx.own(swap)); err != nil {
		t.Fatal(err)
	}
	fx.permit = "." // wherever confinectl says that the permit path is
	stop, stopped := make(chan bool), make(chan int)
	go func() {
		for turns := 0; ; turns++ {
			select {
			case <-stop:
				if turns%2 == 1 {
					_ = unix.Renameat2(unix.AT_FDCWD, in, unix.AT_FDCWD, swap, unix.RENAME_EXCHANGE)
				}
				stopped <- turns
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, in, unix.AT_FDCWD, swap, unix.RENAME_EXCHANGE); err != nil {
					turns--
				}
			}
		}
	}()
	counts := map[string]int{}
	for range n {
		res := fx.launch(true)
		if !strings.HasPrefix(res.verdict, "refused ") {
			if err := ran(fx, res); err != nil {
				t.Errorf("%v: %s", err, res)
			}
		}
		counts[res.verdict]++
	}
	close(stop)
	turns := <-stopped
	keys := []string{}
	for k, n := range counts {
		keys = append(keys, fmt.Sprintf("%s: %d", k, n))
	}
	sort.Strings(keys)
	t.Logf("%d launches, %d swaps: %s", n, turns, strings.Join(keys, ", "))
	if len(counts) < 2 {
		t.Errorf("every launch ended in the same way: the race was not run")
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// raceRow is the attempt of race: create a file outside under every name
// that the swap may have made ours.
func raceRow() *row {
	return &row{name: "race", changes: content, try: func(a *attempt) (err error) {
		for _, name := range []string{a.out("raced"), a.in("out/raced"), a.dir + "/swap/out/raced", "../out/raced", "out/raced"} {
			if err = write(name, unix.O_CREAT); err == nil {
				return nil
			}
		}
		return unix.EACCES
	}}
}

// race swaps the permit path for a symlink to a directory that confinectl
// has to refuse (it contains the profile directory) while it starts, over and
// over: whatever the launch saw, it must never write outside.
func (h *harness) race(t *testing.T) {
	for _, user := range h.users() {
		t.Run(userName(user), func(t *testing.T) {
			if res := h.measure(raceRow(), user, false); res.verdict != "allowed" {
				t.Fatalf("control: %s", res)
			}
			h.swapWhile(t, raceRow(), user, 150, "", func(fx *fixture, res result) error {
				if exists(fx.out("raced")) {
					return errors.New("BREACHED: wrote outside")
				}
				if res.verdict != "denied EACCES" {
					return errors.New("want denied EACCES or a refusal")
				}
				return nil
			})
		})
	}
}

// swapRow is the attempt of swappedTarget: say where we are, then create a
// file in both directories under every name.
func swapRow() *row {
	return &row{name: "swap", try: func(a *attempt) error {
		where := "in"
		var here, out unix.Stat_t
		if err := errors.Join(unix.Stat(".", &here), unix.Stat(a.out(""), &out)); err != nil {
			return err
		}
		if here.Ino == out.Ino && here.Dev == out.Dev {
			where = "out"
		}
		for _, name := range []string{"raced", a.out("raced"), a.in("raced"), a.dir + "/swap/raced", "../out/raced"} {
			_ = write(name, unix.O_CREAT)
		}
		return outcome{"harmless " + where, ""}
	}}
}

// swappedTarget does the same with a symlink to a directory that a profile
// may well name. Then either directory may be the one that is permitted, but it
// is the one that confinectl starts the command in, and never both.
func (h *harness) swappedTarget(t *testing.T) {
	for _, user := range h.users() {
		t.Run(userName(user), func(t *testing.T) {
			r := swapRow()
			r.prepare = func(fx *fixture) (err error) {
				fx.kept, err = os.Open(fx.dir + "/in")
				fx.later(func() { fx.kept.Close() })
				return err
			}
			h.swapWhile(t, r, user, 100, "/out", func(fx *fixture, res result) error {
				out := os.Remove(fx.out("raced")) == nil
				inside := unix.Unlinkat(int(fx.kept.Fd()), "raced", 0) == nil // by neither name, they are being swapped
				switch {
				case inside && out:
					return errors.New("BREACHED: wrote in both directories")
				case res.verdict == "harmless in" && out, res.verdict == "harmless out" && inside:
					return errors.New("BREACHED: wrote in the directory that is not the working directory")
				case res.verdict != "harmless in" && res.verdict != "harmless out":
					return errors.New("want a run or a refusal")
				}
				return nil
			})
		})
	}
}

// layersRow starts confinectl inside confinectl until no layers are left to go.
func layersRow() *row {
	next := func(a *attempt) error {
		depth, err := strconv.Atoi(os.Getenv(envDepth))
		if err != nil || depth <= 1 {
			return err
		}
		bin := filepath.Dir(must(os.Readlink("/proc/self/exe")))
		if err := os.Setenv(envDepth, strconv.Itoa(depth-1)); err != nil {
			return err
		}
		return a.child(exec.Command(bin+"/confinectl", "exec", "--profile-dir", a.ro(""), "same", "--", bin+"/attempt"))
	}
	return &row{name: "layers", try: next, inner: next, prepare: func(fx *fixture) error {
		name := fx.ro("same.toml")
		return errors.Join(os.WriteFile(name, []byte(fx.withFloor(fx.profile())), 0o644), fx.own(name))
	}}
}

// layers nests boundaries up to the kernel's limit of 16; the next one is
// refused by name.
func (h *harness) layers(t *testing.T) {
	for depth, want := range map[int]string{16: "allowed", 17: "refused layer-limit"} {
		r := layersRow()
		prepare := r.prepare
		r.prepare = func(fx *fixture) error {
			fx.setenv(envDepth, strconv.Itoa(depth))
			return prepare(fx)
		}
		if res := h.measure(r, h.users()[0], true); res.verdict != want {
			t.Errorf("%d layers: %s, want %s", depth, res, want)
		}
	}
}

// stdioRow leaves its word in a file.
func stdioRow() *row {
	return &row{name: "stdio", try: func(a *attempt) error { return os.WriteFile(a.in("word"), []byte("ran"), 0o644) }}
}

// stdio starts confinectl with each standard descriptor closed, or made of
// something odd. The command runs, and no file of ours is ever opened in their place.
func (h *harness) stdio(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, peer := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "peer")
	defer socket.Close()
	defer peer.Close()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, given := range []struct {
		name string
		file *os.File
	}{{"closed", nil}, {"pipe", write}, {"socket", socket}, {"full", full}} {
		for fd := range 3 {
			t.Run(fmt.Sprintf("%s-%d", given.name, fd), func(t *testing.T) {
				fx, err := h.newFixture(stdioRow(), asUser)
				defer func() {
					if err := fx.close(); err != nil {
						t.Error(err)
					}
				}()
				if err != nil {
					t.Fatal(err)
				}
				before, err := fx.look()
				if err != nil {
					t.Fatal(err)
				}
				files := []*os.File{null, null, null}
				files[fd] = given.file
				argv, environ := fx.command(true)
				p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Dir: fx.out(""), Env: environ, Files: files, Sys: fx.sys()})
				if err != nil {
					t.Fatal(err)
				}
				state, err := p.Wait()
				if err != nil || !state.Success() {
					t.Errorf("%v %v", state, err)
				}
				if word, err := os.ReadFile(fx.in("word")); string(word) != "ran" {
					t.Errorf("%q %v", word, err)
				}
				if after, err := fx.look(); err != nil || after != before {
					t.Errorf("something outside changed: %v", err)
				}
			})
		}
	}
}
