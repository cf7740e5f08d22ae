package enforce

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRightsAreTheKernels(t *testing.T) {
	for _, c := range []struct {
		name string
		got  uint64
		want uint64
	}{
		{"execute", uint64(fsExecute), ll.AccessFSExecute},
		{"write_file", uint64(fsWriteFile), ll.AccessFSWriteFile},
		{"read_file", uint64(fsReadFile), ll.AccessFSReadFile},
		{"read_dir", uint64(fsReadDir), ll.AccessFSReadDir},
		{"remove_dir", uint64(fsRemoveDir), ll.AccessFSRemoveDir},
		{"remove_file", uint64(fsRemoveFile), ll.AccessFSRemoveFile},
		{"make_char", uint64(fsMakeChar), ll.AccessFSMakeChar},
		{"make_dir", uint64(fsMakeDir), ll.AccessFSMakeDir},
		{"make_reg", uint64(fsMakeReg), ll.AccessFSMakeReg},
		{"make_sock", uint64(fsMakeSock), ll.AccessFSMakeSock},
		{"make_fifo", uint64(fsMakeFifo), ll.AccessFSMakeFifo},
		{"make_block", uint64(fsMakeBlock), ll.AccessFSMakeBlock},
		{"make_sym", uint64(fsMakeSym), ll.AccessFSMakeSym},
		{"refer", uint64(fsRefer), ll.AccessFSRefer},
		{"truncate", uint64(fsTruncate), ll.AccessFSTruncate},
		{"ioctl_dev", uint64(fsIoctlDev), ll.AccessFSIoctlDev},
		{"resolve_unix", uint64(fsResolveUnix), ll.AccessFSResolveUnix},
	} {
		if c.got != c.want {
			t.Errorf("%s is %#x, in the library %#x", c.name, c.got, c.want)
		}
		if got := Rights(c.want).String(); got != c.name {
			t.Errorf("%s is printed as %s", c.name, got)
		}
	}
	if scopeAbstractUnixSocket != ll.ScopeAbstractUnixSocket || scopeSignal != ll.ScopeSignal {
		t.Error("the scopes differ from the library's")
	}
	if s := (scopeSignal | scopeAbstractUnixSocket).String(); s != "abstract_unix_socket signal" {
		t.Error(s)
	}
	if s := Rights(0).String(); s != "none" {
		t.Error(s)
	}
	if s := Rights(1 << 40).String(); !strings.HasPrefix(s, "BUG") {
		t.Error(s)
	}
}

// TestHandled compares the table with the library's, which was tested on
// kernels of every ABI.
func TestHandled(t *testing.T) {
	presets := []landlock.Config{{}, landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6,
		landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11}
	if NewestABI != len(presets)-1 {
		t.Fatalf("NewestABI is %d", NewestABI)
	}
	for abi, preset := range presets {
		rights, scopes := Handled(abi)
		if uint64(rights) != uint64(preset.HandledAccessFS) || uint64(scopes) != uint64(preset.Scoped) {
			t.Errorf("ABI %d: %s / %s, the library has %v", abi, rights, scopes, preset)
		}
	}
	newest, scopes := Handled(NewestABI)
	if r, s := Handled(99); r != newest || s != scopes {
		t.Error("an ABI from the future is not the newest one")
	}
	if r, s := Handled(-1); r != 0 || s != 0 {
		t.Error("an ABI below 1 handles something")
	}
	for i, step := range ABISteps() {
		if step.ABI != i+1 || step.Linux == "" || (step.Confines == "") == (step.Note == "") {
			t.Errorf("step %d: %+v", i, step)
		}
	}
}

func TestRightsOf(t *testing.T) {
	for _, c := range []struct {
		kind   resolve.Kind
		access resolve.Access
		want   string
	}{
		// The list of the contract, in the kernel's order.
		{resolve.Directory, resolve.ReadWrite, "execute write_file read_file read_dir remove_dir remove_file make_dir make_reg make_sock make_fifo make_sym refer truncate resolve_unix"},
		{resolve.Directory, resolve.Read, "read_file read_dir"},
		{resolve.Directory, resolve.Read | resolve.Execute, "execute read_file read_dir"},
		{resolve.Directory, resolve.Read | resolve.Write | resolve.Ioctl, "write_file read_file read_dir truncate ioctl_dev"},
		{resolve.Directory, resolve.Connect, "resolve_unix"},
		{resolve.RegularFile, resolve.Read | resolve.Execute, "execute read_file"},
		{resolve.RegularFile, resolve.Read | resolve.Write, "write_file read_file truncate"},
		{resolve.RegularFile, resolve.ReadWrite, "execute write_file read_file truncate"},
		{resolve.RegularFile, resolve.Names, "none"},
		{resolve.Device, resolve.Read | resolve.Write, "write_file read_file"},
		{resolve.Device, resolve.Read | resolve.Write | resolve.Ioctl, "write_file read_file ioctl_dev"},
		{resolve.Device, resolve.Execute, "none"},
		{resolve.Socket, resolve.Connect, "resolve_unix"},
		{resolve.Socket, resolve.ReadWrite, "resolve_unix"},
		{0, resolve.ReadWrite, "none"},
		{resolve.Directory, 0, "none"},
	} {
		if got := rightsOf(c.kind, c.access).String(); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.kind, c.access, got, c.want)
		}
	}
}

// TestRightsOfNever holds for every access at every kind: no device nodes, and nothing that
// the kernel would refuse on a file.
func TestRightsOfNever(t *testing.T) {
	const onFiles = fsExecute | fsWriteFile | fsReadFile | fsTruncate | fsIoctlDev | fsResolveUnix
	for kind := resolve.Kind(0); kind < 8; kind++ {
		for a := range 256 {
			r := rightsOf(kind, resolve.Access(a))
			if r&(fsMakeChar|fsMakeBlock) != 0 {
				t.Errorf("%s %s: %s", kind, resolve.Access(a), r)
			}
			if kind != resolve.Directory && r&^onFiles != 0 {
				t.Errorf("%s %s: %s", kind, resolve.Access(a), r)
			}
		}
	}
}

var sampleRules = []resolve.Rule{
	{Path: "/dev/null", Kind: resolve.Device, Access: resolve.Read | resolve.Write},
	{Path: "/dev/pts", Kind: resolve.Directory, Access: resolve.Read | resolve.Write | resolve.Ioctl},
	{Path: "/dev/tty", Kind: resolve.Device, Access: resolve.Read | resolve.Write | resolve.Ioctl},
	{Path: "/etc", Kind: resolve.Directory, Access: resolve.Read},
	{Path: "/home/u/.claude.json", Kind: resolve.RegularFile, Access: resolve.Read | resolve.Write},
	{Path: "/home/u/a project: \"x\"", Kind: resolve.Directory, Access: resolve.ReadWrite},
	{Path: "/run/user/1000/agent.sock", Kind: resolve.Socket, Access: resolve.Connect},
	{Path: "/usr", Kind: resolve.Directory, Access: resolve.Read | resolve.Execute},
	{Path: "/usr/local/bin/claude", Kind: resolve.RegularFile, Access: resolve.Read | resolve.Execute},
}

// TestTextGolden prints one boundary at every ABI. `go test -update` writes the files.
func TestTextGolden(t *testing.T) {
	for abi := 1; abi <= NewestABI; abi++ {
		got := newRuleset(sampleRules, abi, abi >= 10).Text()
		name := fmt.Sprintf("testdata/landlock-abi-%02d.golden", abi)
		if *update {
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs; got:\n%s", name, got)
		}
	}
}

// TestRulesetMasks holds that no rule ever has a right that the ABI does not
// handle, and that what is left out is reported.
func TestRulesetMasks(t *testing.T) {
	for abi := 1; abi <= NewestABI; abi++ {
		s := newRuleset(sampleRules, abi, false)
		if len(s.Rules)+len(s.Omitted) != len(sampleRules) {
			t.Errorf("ABI %d: %d rules and %d left out", abi, len(s.Rules), len(s.Omitted))
		}
		for _, r := range s.Rules {
			if r.Rights == 0 || r.Rights&^s.Handled != 0 {
				t.Errorf("ABI %d: %s: %s", abi, r.Path, r.Rights)
			}
		}
		sock := slices.IndexFunc(s.Omitted, func(o Omission) bool { return o.Path == "/run/user/1000/agent.sock" })
		if (sock >= 0) != (abi < 9) {
			t.Errorf("ABI %d: left out %v", abi, s.Omitted)
		}
		if sock >= 0 && (s.Omitted[sock].ABI != 9 || s.Omitted[sock].Rights != fsResolveUnix) {
			t.Errorf("ABI %d: %+v", abi, s.Omitted[sock])
		}
	}
}

func TestGuarantees(t *testing.T) {
	has := func(list []string, part string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, part) })
	}
	for abi := 1; abi <= NewestABI; abi++ {
		g := Guarantees(abi)
		for _, c := range []struct {
			part string
			from int
		}{{"reading, listing", 1}, {"truncate(2) outside the roots", 3}, {"ioctl(2)", 5}, {"signals", 6}, {"pathname Unix sockets", 9}} {
			if has(g.Confined, c.part) != (abi >= c.from) || has(g.Open, c.part) != (abi < c.from) {
				t.Errorf("ABI %d, %s: %+v", abi, c.part, g)
			}
		}
		if lost := map[int]int{1: 2, 2: 1}[abi]; len(g.Lost) != lost {
			t.Errorf("ABI %d: lost %q", abi, g.Lost)
		}
	}
	if !has(Guarantees(3).Confined, "truncate(2) outside the roots is confined (ABI 3)") {
		t.Error(Guarantees(3).Confined)
	}
}
