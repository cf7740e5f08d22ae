package loader

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/confinectl/confinectl/test/testenv"
)

// TestKernelWatchLimit reaches the kernel's own limit, in a user namespace where only its
// watches count, and sees changes all the same.
func TestKernelWatchLimit(t *testing.T) {
	const inside = "LOADER_TEST_WATCH_LIMIT"
	if os.Getenv(inside) == "" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self, "-test.run=^TestKernelWatchLimit$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		id := func(host int) []syscall.SysProcIDMap {
			return []syscall.SysProcIDMap{{ContainerID: 0, HostID: host, Size: 1}}
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: id(os.Getuid()), GidMappings: id(os.Getgid())}
		out, err := cmd.CombinedOutput()
		testenv.Need(t, !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.ENOSPC), fmt.Sprint("user namespaces: ", err))
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var root syscall.Stat_t
	if err := syscall.Stat("/", &root); err != nil {
		t.Fatal(err)
	}
	// Our own files are root's in here, and the host's root is nobody.
	tr := &tree{t, dir, &Loader{Layers: []Layer{{Dir: dir}}, UID: int(root.Uid)}}
	tr.write("p.toml", permit("/a"))
	if err := os.WriteFile("/proc/sys/user/max_inotify_watches", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
	s := tr.open(StoreOptions{Names: []string{"p"}})
	go s.Watch(t.Context())
	changes := s.Changes(t.Context())
	polling := false
	for deadline := time.After(10 * time.Second); has(s, "p") != "/b"; {
		select {
		case batch := <-changes:
			for _, c := range batch {
				if c.Kind == WatchPolling {
					if polling || !errors.Is(c.Err, syscall.ENOSPC) {
						t.Errorf("said again, or for another reason: %v", c.Err)
					}
					polling = true
					tr.write("p.toml", permit("/b"))
				}
			}
		case <-deadline:
			t.Fatalf("not seen; polling: %v", s.Health().Polling)
		}
	}
	if !polling {
		t.Error("the limit was not reached, or not said")
	}
}
