package examples_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	examples "github.com/confinectl/confinectl/examples/profiles"
	"github.com/confinectl/confinectl/test/testenv"
)

// The agents' profiles are run by test/agents, with the agents themselves, which takes
// more than Go. Here each profile is resolved, and the two that need no agent
// are run.

// A host is a home directory and a directory apart, for a program built once.
type host struct {
	t         *testing.T
	bin, home string
	env       []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, bin: filepath.Join(t.TempDir(), "confinectl"), home: t.TempDir()}
	build := exec.Command("go", "build", "-o", h.bin, "github.com/confinectl/confinectl/cmd/confinectl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	h.env = []string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH")}
	return h
}

// run runs a command in a directory and gives its exit status and output.
func (h *host) run(dir string, argv ...string) (status int, out string) {
	h.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, h.env
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		h.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// confined runs a command under a profile. On a host that cannot confine it
// ends the test, and under CI it fails it.
func (h *host) confined(dir string, args ...string) (status int, out string) {
	h.t.Helper()
	status, out = h.run(dir, append([]string{h.bin, "exec"}, args...)...)
	cannot := status == 125 && (strings.Contains(out, "refused: arm-missing:") || strings.Contains(out, "refused: abi-below-floor:"))
	testenv.Need(h.t, !cannot, "Landlock that is new enough: "+out)
	return status, out
}

func (h *host) mkdir(path ...string) string {
	h.t.Helper()
	dir := filepath.Join(path...)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	return dir
}

func TestProfilesResolve(t *testing.T) {
	h := newHost(t)
	project := h.mkdir(h.home, "project")
	for _, dir := range []string{".cache", ".config", ".local/share", ".local/state"} {
		h.mkdir(h.home, dir) // opencode-cli asks for these
	}
	files, err := fs.Glob(examples.FS, "*.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 9 {
		t.Fatalf("built in are only %v", files)
	}
	templates := []string{"agent-base", "tenant"}
	for _, file := range files {
		name := strings.TrimSuffix(file, ".toml")
		t.Run(name, func(t *testing.T) {
			args := []string{h.bin, "show", name}
			if slices.Contains(templates, name) {
				args = append(args, "--permit-path", project)
			}
			if status, out := h.run(project, args...); status != 0 {
				t.Errorf("ends with %d:\n%s", status, out)
			}
			text, err := fs.ReadFile(examples.FS, file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.HasPrefix(text, []byte("# ")) {
				t.Error("does not begin with a comment that says what it is for")
			}
		})
	}
}

const breach = `echo changed >inside; cat ../beside; echo changed >../beside; : >"$(mktemp)" && echo temporary`

func TestWorkspace(t *testing.T) {
	h := newHost(t)
	project := h.mkdir(h.home, "project")
	beside := filepath.Join(h.home, "beside")
	for _, want := range []struct {
		confined bool
		beside   string
		out      []string
	}{
		{false, "changed\n", []string{"secret", "temporary"}}, // the control
		{true, "secret\n", []string{"Permission denied", "temporary"}},
	} {
		os.Remove(filepath.Join(project, "inside"))
		if err := os.WriteFile(beside, []byte("secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		run := h.run
		args := []string{"sh", "-c", breach}
		if want.confined {
			run, args = h.confined, append([]string{"workspace", "--"}, args...)
		}
		_, out := run(project, args...)
		if text, err := os.ReadFile(beside); err != nil || string(text) != want.beside {
			t.Errorf("confined=%v: the file beside is %q (%v), not %q", want.confined, text, err, want.beside)
		}
		if _, err := os.Stat(filepath.Join(project, "inside")); err != nil {
			t.Errorf("confined=%v: %v", want.confined, err)
		}
		for _, w := range want.out {
			if !strings.Contains(out, w) {
				t.Errorf("confined=%v: %q is not in %q", want.confined, w, out)
			}
		}
	}
}

func TestTenant(t *testing.T) {
	h := newHost(t)
	blue, green := h.mkdir(h.home, "blue"), h.mkdir(h.home, "green")
	secret := filepath.Join(green, "secret")
	if err := os.WriteFile(secret, []byte("green\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out := h.run(blue, h.bin, "exec", "tenant", "--", "true"); status != 125 || !strings.Contains(out, "refused: permit-missing:") {
		t.Errorf("without --permit-path it ends with %d: %s", status, out)
	}
	read := []string{"sh", "-c", "echo mine >mine && cat " + secret}
	if status, out := h.run(blue, read...); status != 0 || out != "green\n" {
		t.Fatalf("control: unconfined it ends with %d: %s", status, out)
	}
	if status, out := h.confined(h.home, append([]string{"--permit-path", blue, "tenant", "--"}, read...)...); status == 0 || strings.Contains(out, "green\n") {
		t.Errorf("BREACHED: the tenant blue reads what is green's: %d, %s", status, out)
	}
	if text, err := os.ReadFile(filepath.Join(blue, "mine")); err != nil || string(text) != "mine\n" {
		t.Errorf("in its own storage it wrote %q (%v)", text, err)
	}
	// The profile that serves both gives each its own.
	if status, out := h.confined(h.home, "--permit-path", green, "tenant", "--", "cat", "secret"); status != 0 || out != "green\n" {
		t.Errorf("green reads its own: %d, %s", status, out)
	}
}
