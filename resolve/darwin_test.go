package resolve

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// paper is a resolver's host that is a Mac nobody can look at.
func paper(uid int) *Facts {
	return &Facts{OS: "darwin", UID: uid, OnPaper: true, Home: "/Users/me", Cwd: "/Users/me/work", TmpRoot: "/private/tmp",
		UserTmp: func() string { return "/private/var/folders/xx/y/T" }}
}

func onPaper(t *testing.T, f *Facts, policy string, r Request) (*Boundary, error) {
	t.Helper()
	p, err := DecodePolicy([]byte(policy))
	if err != nil {
		t.Fatal(err)
	}
	return Resolve(p, f, r)
}

func TestOnPaper(t *testing.T) {
	b, err := onPaper(t, paper(501), `{"name":"p","permit_path":"${cwd}/../work/","permit_extra_subpaths":["+~/.claude"],"read_paths":["-~/.gitconfig"],
		"permit_files":["-~/.claude.json"],"unix_sockets":["/private/tmp/s"],"agent_scratch":{"agent":"claude"},"private_tmp":true}`, Request{Command: []string{"claude", "-p"}})
	if err != nil {
		t.Fatal(err)
	}
	if !b.OnPaper() || len(b.Skipped()) != 0 || b.PermitPath() != "/Users/me/work" || b.Command().Path != "claude" {
		t.Errorf("%+v", b)
	}
	want := map[string]Rule{
		"/Users/me/work":                      {Kind: Directory, Access: ReadWrite},
		"/Users/me/.claude":                   {Kind: Directory, Access: ReadWrite},
		"/Users/me/.gitconfig":                {Kind: Directory, Access: Read | Execute},
		"/Users/me/.claude.json":              {Kind: RegularFile, Access: Read | Write},
		"/private/tmp/s":                      {Kind: Socket, Access: Connect},
		"/private/tmp/claude-501":             {Kind: Directory, Access: ReadWrite, Unprovisioned: true},
		"/usr":                                {Kind: Directory, Access: Read | Execute},
		"/dev/dtracehelper":                   {Kind: Device, Access: Read | Write | Ioctl},
		"/private/etc":                        {Kind: Directory, Access: Read},
		"/System/Library":                     {Kind: Directory, Access: Read | Execute},
		"/Library/Developer/CommandLineTools": {Kind: Directory, Access: Read | Execute},
		"/private/var/folders/xx/y/T/confinectl-501/p": {Kind: Directory, Access: ReadWrite, Make: true},
		"/private/var/run/resolv.conf":                 {Kind: RegularFile, Access: Read},
	}
	for _, r := range b.Rules() {
		if w, ok := want[r.Path]; ok {
			delete(want, r.Path)
			if r.Kind != w.Kind || r.Access != w.Access || r.Make != w.Make || r.Unprovisioned != w.Unprovisioned {
				t.Errorf("%s: %s %s make %t unprovisioned %t", r.Path, r.Kind, r.Access, r.Make, r.Unprovisioned)
			}
		}
		if r.Path == "/dev/ptmx" || r.Path == "/System" || r.Path == xcodeLink {
			t.Errorf("%s is granted", r.Path)
		}
	}
	for path := range want {
		t.Errorf("%s is not granted", path)
	}
}

func TestDarwinRuntime(t *testing.T) {
	paths := func(b *Boundary) (list []string) {
		for _, r := range b.Rules() {
			list = append(list, r.Path)
		}
		return list
	}
	user, err := onPaper(t, paper(501), `{"permit_path":"/Users/me/w","pty":true}`, Request{})
	root, err2 := onPaper(t, paper(0), `{"permit_path":"/Users/me/w"}`, Request{})
	none, err3 := onPaper(t, paper(501), `{"permit_path":"/Users/me/w","runtime":"none"}`, Request{})
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	if p := paths(user); !slices.Contains(p, "/private/etc") || !slices.Contains(p, "/dev/ptmx") {
		t.Errorf("a user with pty: %q", p)
	}
	if p := paths(root); slices.Contains(p, "/private/etc") || !slices.Contains(p, "/private/etc/hosts") || slices.Contains(p, "/dev/ptmx") {
		t.Errorf("root, whom file permissions hide nothing: %q", p)
	}
	if p := paths(none); !slices.Equal(p, []string{"/Users/me/w"}) {
		t.Errorf("runtime none: %q", p)
	}
	for _, group := range darwinRuntime {
		for _, e := range group.entries {
			path, _, _ := strings.Cut(e.text, ": ")
			for _, link := range []string{"/tmp", "/var", "/etc", "/System/Volumes/Data"} {
				if within(path, link) || within("/System/Volumes/Data", path) || strings.HasSuffix(path, "/") {
					t.Errorf("%s is no name that the kernel compares, or covers the data volume", path)
				}
			}
			if (group.kind == Device) != (strings.HasPrefix(path, "/dev/") && path != "/dev/fd") || e.access.Has(Ioctl) && group.kind != Device {
				t.Errorf("%s is no %s", path, group.kind)
			}
		}
	}
}

// private_tmp lies in the user's own temporary directory, and is refused where that is not known.
func TestDarwinPrivateTmp(t *testing.T) {
	f := paper(501)
	f.UserTmp = nil
	if _, err := onPaper(t, f, `{"name":"p","permit_path":"/Users/me/w","private_tmp":true}`, Request{}); !errors.Is(err, ScratchUnresolved) {
		t.Error(err)
	}
	h := newHost(t)
	h.f.OS, h.f.UserTmp = "darwin", func() string { return h.R + "/tmp/" }
	h.f.TmpRoot = "/nowhere"
	b := h.mustResolve(`{"name":"p","permit_path":"$R/in","private_tmp":true}`, Request{})
	if h.access(b, "$R/tmp/confinectl-"+strconv.Itoa(h.f.UID)+"/p") != ReadWrite {
		t.Errorf("%+v", b.Rules())
	}
}

func TestUnfirm(t *testing.T) {
	same := func(a, b string) bool { return a == "/System/Volumes/Data/Users/me" && b == "/Users/me" }
	for path, want := range map[string]string{
		"/System/Volumes/Data/Users/me": "/Users/me", "/System/Volumes/Data/home": "/System/Volumes/Data/home", "/System/Volumes/Data": "/System/Volumes/Data",
		"/System/Volumes/Database/x": "/System/Volumes/Database/x", "/Users/me": "/Users/me",
	} {
		if got := unfirm(path, same); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestDeveloperRoot(t *testing.T) {
	for dir, want := range map[string]string{
		"/Applications/Xcode.app/Contents/Developer":      "/Applications/Xcode.app",
		"/Applications/Xcode-16.2.app/Contents/Developer": "/Applications/Xcode-16.2.app",
		"/Library/Developer/CommandLineTools":             "/Library/Developer/CommandLineTools",
	} {
		if got := developerRoot(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

// On macOS a command keeps the path it was found by, a Mach-O file gets the
// one loader there is, and a file of another format is doubted instead of handed to a shell.
func TestDarwinCommand(t *testing.T) {
	h := newHost(t)
	h.f.OS = "darwin"
	h.file("bin/thin", "\xcf\xfa\xed\xfe\x07\x00\x00\x01", 0o755)
	h.file("bin/fat", "\xca\xfe\xba\xbe\x00\x00\x00\x02", 0o755)
	h.file("bin/elf", "\x7fELF\x02\x01\x01", 0o755)
	h.file("bin/text", "echo hello\n", 0o755)
	h.file("bin/script", "#!"+h.R+"/bin/thin -x\n", 0o755)
	h.file("bin/lost", "#!/nowhere/x\n", 0o755)
	h.file("bin/plain", "\xcf\xfa\xed\xfe", 0o644)
	h.symlink("thin", "bin/name")
	for _, c := range []struct{ name, path, doubt, missing string }{
		{"thin", "$R/bin/thin", "", ""},
		{"fat", "$R/bin/fat", "", ""},
		{"name", "$R/bin/name", "", ""},
		{"script", "$R/bin/script", "", ""},
		{"elf", "$R/bin/elf", "no format that macOS runs", ""},
		{"text", "$R/bin/text", "no format that macOS runs", ""},
		{"lost", "$R/bin/lost", "/nowhere/x does not exist", ""},
		{"plain", "$R/bin/plain", "is not executable", ""},
		{"none", "", "", "not found in PATH"},
		{"$R/out", "$R/out", "is a directory", ""},
	} {
		b := h.mustResolve(`{"permit_path":"$R/in"}`, Request{Command: []string{strings.ReplaceAll(c.name, "$R", h.R)}})
		cmd := b.Command()
		if cmd.Path != strings.ReplaceAll(c.path, "$R", h.R) || !strings.Contains(cmd.Doubt, c.doubt) || (cmd.Doubt == "") != (c.doubt == "") || cmd.Missing != c.missing {
			t.Errorf("%s: %+v", c.name, cmd)
		}
	}
	b := h.mustResolve(`{"permit_path":"$R/in","runtime":"none"}`, Request{Command: []string{"script"}})
	for _, path := range []string{"$R/bin/script", "$R/bin/thin"} {
		if h.access(b, path) != Read|Execute {
			t.Errorf("%s: %s", path, h.access(b, path))
		}
	}
}
