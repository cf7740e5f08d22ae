package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/confinectl/confinectl/enforce"
)

// ruleset is the boundary of `confinectl exec workspace` on this host, as
// `confinectl show --text` prints it: what every other contender is told as well, as
// far as it has words for it.
type ruleset struct {
	abi             int
	handled, scoped uint64
	rules           []rule
}

type rule struct {
	path   string
	rights []string // the kernel's words
	bits   uint64
}

// rightBits and scopeBits are what the kernel's words mean.
var rightBits, scopeBits = func() (rights, scopes map[string]uint64) {
	rights, scopes = map[string]uint64{"none": 0}, map[string]uint64{"none": 0}
	r, s := enforce.Handled(enforce.NewestABI)
	for bit := uint64(1); bit != 0; bit <<= 1 {
		for _, word := range (r & enforce.Rights(bit)).Words() {
			rights[word] = bit
		}
		for _, word := range (s & enforce.Scopes(bit)).Words() {
			scopes[word] = bit
		}
	}
	return rights, scopes
}()

// workspaceRules asks confinectl for the ruleset that it makes of the profile workspace.
func (wb *workbench) workspaceRules() (*ruleset, error) {
	out, err := wb.command(wb.confinectl("show", "--text", "workspace", "--", wb.target)...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("confinectl show: %w: %s", err, firstLine(out))
	}
	return parseRuleset(string(out))
}

func parseRuleset(text string) (*ruleset, error) {
	rs := &ruleset{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ": ")
		var err error
		switch {
		case strings.HasPrefix(line, "landlock ABI "):
			rs.abi, err = strconv.Atoi(strings.TrimPrefix(line, "landlock ABI "))
		case key == "handled_access_fs":
			rs.handled, err = bits(value, rightBits)
		case key == "scoped":
			rs.scoped, err = bits(value, scopeBits)
		case strings.HasPrefix(key, "path_beneath "):
			r := rule{path: strings.TrimPrefix(key, "path_beneath "), rights: strings.Fields(value)}
			if strings.HasPrefix(r.path, `"`) {
				r.path, err = strconv.Unquote(r.path)
			}
			if err == nil {
				r.bits, err = bits(value, rightBits)
			}
			rs.rules = append(rs.rules, r)
		}
		if err != nil {
			return nil, fmt.Errorf("confinectl show: %q: %w", line, err)
		}
	}
	if rs.handled == 0 || len(rs.rules) == 0 {
		return nil, fmt.Errorf("confinectl show: no ruleset in %q", firstLine([]byte(text)))
	}
	return rs, nil
}

func bits(words string, table map[string]uint64) (uint64, error) {
	var n uint64
	for _, w := range strings.Fields(words) {
		b, known := table[w]
		if !known {
			return 0, fmt.Errorf("%q is not known here", w)
		}
		n |= b
	}
	return n, nil
}

func (r rule) has(right string) bool { return r.bits&rightBits[right] != 0 }
func (r rule) device() bool          { return strings.HasPrefix(r.path, "/dev/") }
func (r rule) readWrite() bool       { return r.has("make_reg") }

// paths are those of the rules that fit.
func (rs *ruleset) paths(fits func(rule) bool) []string {
	var list []string
	for _, r := range rs.rules {
		if fits(r) {
			list = append(list, r.path)
		}
	}
	return list
}

func executable(r rule) bool { return r.has("execute") && !r.readWrite() }
func readOnly(r rule) bool   { return !r.has("execute") && !r.device() }
func readOnlyDir(r rule) bool {
	return r.has("read_dir") && !r.readWrite()
}
func readOnlyFile(r rule) bool { return readOnly(r) && !r.has("read_dir") }

// The same boundary in the words of each.

func (rs *ruleset) cFloor() []string {
	args := []string{fmt.Sprintf("%x", rs.handled), fmt.Sprintf("%x", rs.scoped)}
	for _, r := range rs.rules {
		args = append(args, fmt.Sprintf("%x:%s", r.bits, r.path))
	}
	return append(args, "--")
}

func (rs *ruleset) setpriv() []string {
	args := []string{"--no-new-privs", "--landlock-access", "fs"}
	for _, r := range rs.rules {
		var words []string
		for _, w := range r.rights {
			if w != "ioctl_dev" && w != "resolve_unix" { // younger than its list
				words = append(words, strings.ReplaceAll(w, "_", "-"))
			}
		}
		args = append(args, "--landlock-rule", "path-beneath:"+strings.Join(words, ",")+":"+r.path)
	}
	return append(args, "--")
}

func (rs *ruleset) landlockRestrict() []string {
	args := []string{fmt.Sprintf("-%d", rs.abi), "-strict", "-ro"}
	args = append(append(args, rs.paths(readOnlyDir)...), "-rofiles")
	args = append(append(args, rs.paths(readOnlyFile)...), "-rwfiles")
	args = append(append(args, rs.paths(rule.device)...), "-rw", "+refer")
	return append(append(args, rs.paths(rule.readWrite)...), "--")
}

func (rs *ruleset) landrun() []string {
	list := func(fits func(rule) bool) string { return strings.Join(rs.paths(fits), ",") }
	return []string{"--best-effort", "--rox", list(executable), "--ro", list(readOnly), "--rw", list(rule.device), "--rwx", list(rule.readWrite), "--"}
}

func (rs *ruleset) bwrap() []string {
	args := []string{"--unshare-all", "--dev", "/dev", "--proc", "/proc"}
	for _, name := range []string{"bin", "lib", "lib32", "lib64", "sbin"} {
		if to, err := os.Readlink("/" + name); err == nil {
			args = append(args, "--symlink", to, "/"+name)
		}
	}
	for _, r := range rs.rules {
		switch {
		case r.device() || r.path == "/proc":
		case r.readWrite():
			args = append(args, "--bind", r.path, r.path)
		default:
			args = append(args, "--ro-bind", r.path, r.path)
		}
	}
	return append(args, "--")
}

// codexHome writes the permission profile that `codex sandbox` runs with. The
// program starts itself again inside, so it must see its own files.
func (wb *workbench) codexHome(rs *ruleset, program string) error {
	text := "default_permissions = \"bench\"\n[permissions.bench.filesystem]\n\":minimal\" = \"read\"\n"
	for _, own := range []string{wb.path("codex"), filepath.Dir(filepath.Dir(program))} {
		text += fmt.Sprintf("%q = \"read\"\n", own)
	}
	for _, r := range rs.rules {
		switch {
		case r.device() || r.path == "/proc":
		case r.readWrite():
			text += fmt.Sprintf("%q = \"write\"\n", r.path)
		default:
			text += fmt.Sprintf("%q = \"read\"\n", r.path)
		}
	}
	return os.WriteFile(wb.path("codex/config.toml"), []byte(text), 0o644)
}

// srtSettings writes the settings file of srt.
func (wb *workbench) srtSettings(rs *ruleset, program string) (string, error) {
	quote := func(list []string) string {
		var q []string
		for _, p := range list {
			q = append(q, strconv.Quote(p))
		}
		return strings.Join(q, ",")
	}
	read := append(rs.paths(func(r rule) bool { return !r.device() }), "/bin", "/lib", "/lib64", "/sbin")
	if real, err := filepath.EvalSymlinks(program); err == nil {
		read = append(read, filepath.Dir(filepath.Dir(real))) // srt has a program of its own that it runs inside
	}
	file := wb.path("srt.json")
	return file, os.WriteFile(file, fmt.Appendf(nil, `{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":["/"],"allowRead":[%s],"allowWrite":[%s],"denyWrite":[]}}`+"\n",
		quote(read), quote(rs.paths(rule.readWrite))), 0o644)
}
