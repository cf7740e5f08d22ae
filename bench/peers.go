package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// contender is a way to start a command.
type contender struct {
	name     string
	boundary string   // what it was told to confine
	prefix   []string // what comes before the command
	free     bool     // confines nothing, and is not expected to
	confines string   // what the control saw
}

// peer is a program of somebody else.
type peer struct {
	name, boundary, program string
	args                    func(path string) ([]string, error)
}

func (wb *workbench) peers(rs *ruleset) []peer {
	args := func(list ...string) func(string) ([]string, error) {
		return func(string) ([]string, error) { return list, nil }
	}
	return []peer{
		{"setpriv", "the same rules, without ioctl and scopes", "setpriv", args(rs.setpriv()...)},
		{"landlock-restrict (go-landlock)", "the same rules, every read rule with execute; TCP and scopes as well", "landlock-restrict", args(rs.landlockRestrict()...)},
		{"landrun", "the same rules; TCP and scopes as well, empty environment", "landrun", args(rs.landrun()...)},
		{"bwrap --unshare-all", "the same paths as mounts, new namespaces, no network", "bwrap", args(rs.bwrap()...)},
		{"bwrap --unshare-all, all readable", "/ read-only, one directory read-write, new namespaces, no network", "bwrap",
			args("--ro-bind", "/", "/", "--bind", wb.work(), wb.work(), "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--")},
		{"bwrap, mounts only", "/ read-only, one directory read-write", "bwrap", args("--ro-bind", "/", "/", "--bind", wb.work(), wb.work(), "--")},
		{"firejail --noprofile", "/ read-only, one directory read-write, new namespaces", "firejail",
			args("--quiet", "--noprofile", "--read-only=/", "--read-write="+wb.work(), "--")},
		{"codex sandbox", "the same paths as mounts, new namespaces, seccomp, no network", "codex", func(path string) ([]string, error) {
			return []string{"sandbox", "--"}, wb.codexHome(rs, path)
		}},
		{"srt", "the same paths as mounts, new namespaces, seccomp, network through proxies", "srt", func(path string) ([]string, error) {
			file, err := wb.srtSettings(rs, path)
			return []string{"-s", file, "--"}, err
		}},
	}
}

// find looks for a program in the directory of the peers and in PATH. Of codex
// it takes the native program, not the script in JavaScript that npm puts before it.
func (wb *workbench) find(program string) (string, error) {
	if wb.peerDir != "" {
		native, _ := filepath.Glob(filepath.Join(wb.peerDir, "node_modules/@openai/codex-*/vendor/*/bin", program))
		for _, file := range append(native, filepath.Join(wb.peerDir, program), filepath.Join(wb.peerDir, "node_modules/.bin", program)) {
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
				return file, nil
			}
		}
	}
	return exec.LookPath(program)
}

// contenders finds the peers and lets each show that it confines. Those that
// cannot be timed come back as lines that say why.
func (wb *workbench) contenders(rs *ruleset) (list []contender, missing []string) {
	for _, p := range wb.peers(rs) {
		path, err := wb.find(p.program)
		if err != nil {
			missing = append(missing, p.name+": not on this machine")
			continue
		}
		if filepath.Dir(path) == wb.peerDir { // built, and not installed
			if path, err = wb.install(path); err != nil {
				missing = append(missing, fmt.Sprintf("%s: %v", p.name, err))
				continue
			}
		}
		args, err := p.args(path)
		c := contender{name: p.name, boundary: p.boundary, prefix: append([]string{path}, args...)}
		if err == nil {
			c.confines, err = wb.control(c.prefix)
		}
		if err == nil && c.confines == nothing {
			err = fmt.Errorf("does not confine here: a write outside worked")
		}
		if err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", p.name, err))
			continue
		}
		list = append(list, c)
	}
	return list, missing
}

const nothing = "nothing"

// control shows what a contender confines: a shell under it writes inside,
// writes outside and reads outside, and what came of it is looked at from out here.
func (wb *workbench) control(prefix []string) (string, error) {
	inside, outside, secret := wb.path("work/control"), wb.path("out/control"), wb.path("out/secret")
	if err := os.WriteFile(secret, []byte("readable\n"), 0o644); err != nil {
		return "", err
	}
	attempt := func(script string) (string, error) {
		os.Remove(inside)
		os.Remove(outside)
		out, err := wb.command(slices.Concat(prefix, []string{"/bin/sh", "-c", script})...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	there := func(file string) bool {
		_, err := os.Lstat(file)
		os.Remove(file)
		return err == nil
	}
	if out, err := attempt("echo x >" + inside); err != nil || !there(inside) {
		return "", fmt.Errorf("the control, a write inside, failed: %v: %s", err, firstLine([]byte(out)))
	}
	if attempt("echo x >" + outside); there(outside) {
		return nothing, nil
	}
	if out, _ := attempt("cat " + secret); out == "readable" {
		return "writes", nil
	}
	return "reads and writes", nil
}

// What -fetch installs, at the versions that docs/benchmarks.md has figures of.
var fetched = []struct {
	program string
	command []string
}{
	{"landrun", []string{"go", "install", "github.com/zouuup/landrun/cmd/landrun@v0.1.18"}},
	{"landlock-restrict", []string{"go", "install", "github.com/landlock-lsm/go-landlock/cmd/landlock-restrict@v0.11.2"}},
	{"codex", []string{"npm", "install", "--no-fund", "--no-audit", "@openai/codex@0.171.0"}},
	{"srt", []string{"npm", "install", "--no-fund", "--no-audit", "@anthropic-ai/sandbox-runtime@0.0.83"}},
}

// fetchPeers installs what is missing and says what came of it. What needs
// root and a package manager is only named.
func (wb *workbench) fetchPeers() error {
	if err := os.MkdirAll(wb.peerDir, 0o755); err != nil {
		return err
	}
	for _, f := range fetched {
		if path, err := wb.find(f.program); err == nil {
			fmt.Printf("%s: %s\n", f.program, path)
			continue
		}
		cmd := exec.Command(f.command[0], f.command[1:]...)
		cmd.Dir, cmd.Env = wb.peerDir, append(os.Environ(), "GOBIN="+wb.peerDir, "CGO_ENABLED=0", "npm_config_prefix=")
		if f.command[0] == "npm" {
			cmd.Args = append(cmd.Args, "--prefix", wb.peerDir)
		}
		fmt.Printf("%s: %s\n", f.program, strings.Join(cmd.Args, " "))
		if out, err := cmd.CombinedOutput(); err != nil {
			fmt.Printf("%s: not installed: %v: %s\n", f.program, err, firstLine(out))
		}
	}
	var packages []string
	for _, p := range [][2]string{{"bwrap", "bubblewrap"}, {"firejail", "firejail"}, {"socat", "socat"}, {"rg", "ripgrep"}} {
		if _, err := wb.find(p[0]); err != nil {
			packages = append(packages, p[1])
		}
	}
	if len(packages) > 0 {
		fmt.Println("missing, and not installed here: apt-get install " + strings.Join(packages, " "))
	}
	fmt.Println()
	return nil
}
