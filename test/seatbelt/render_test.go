package seatbelt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/sbpleval"
	"github.com/confinectl/confinectl/resolve"
)

// value is one entry of a policy that was written in Go, which no reader of
// documents has judged.
func value(s string) resolve.Value {
	return resolve.Value{Text: s, Origin: resolve.Origin{File: "policy", Key: "key"}}
}

func values(list ...string) []resolve.Value {
	var out []resolve.Value
	for _, s := range list {
		out = append(out, value(s))
	}
	return out
}

func bare(permit string) *resolve.Policy {
	p := &resolve.Policy{Name: "p"}
	p.Common.PermitPath, p.Common.Runtime = value(permit), value("none")
	return p
}

// TestRefusals is the bad input: each is refused by its own code, and nothing is
// rendered of the rest.
func TestRefusals(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("/Users/me/projects/number-%04d", i)
	}
	with := func(change func(*resolve.Keys)) *resolve.Policy {
		p := bare("/Users/me/repo")
		change(&p.Common)
		return p
	}
	for _, c := range []struct {
		name   string
		policy *resolve.Policy
		want   resolve.Code
		detail string
	}{
		{"control character", bare("/Users/me/a\nb"), resolve.PathEncoding, "control character"},
		{"escape sequence", bare("/Users/me/a\x1b[0m"), resolve.PathEncoding, "control character"},
		{"C1 control character", bare("/Users/me/a\u0085"), resolve.PathEncoding, "control character"},
		{"not UTF-8", bare("/Users/me/a\xff"), resolve.PathEncoding, "UTF-8"},
		{"NUL", bare("/Users/me/a\x00b"), resolve.PathUnreadable, ""},
		{"longer than PATH_MAX", bare("/Users/me/" + strings.Repeat("a/", 507)), resolve.PathMissing, "longer than any path"},
		{"longer than any PATH_MAX", bare("/Users/me/" + strings.Repeat("a/", 5000)), resolve.PathMissing, "longer than any path"},
		{"5,000 extra subpaths", with(func(k *resolve.Keys) { k.PermitExtraSubpaths = values(many...) }), resolve.ProfileTooLarge, "bytes of SBPL with parameters, and more than 49152"},
		{"1,000 single files", with(func(k *resolve.Keys) { k.PermitFiles = values(many[:1000]...) }), resolve.ProfileTooLarge, "1001 paths make"},
		{"the data volume", bare("/System/Volumes/Data/mine"), resolve.Inexpressible, "which name the kernel compares"},
		{"above the data volume", with(func(k *resolve.Keys) { k.ReadPaths = values("/System") }), resolve.Inexpressible, "another name of everything"},
		{"the data volume itself", with(func(k *resolve.Keys) { k.ReadPaths = values("/System/Volumes/Data") }), resolve.Inexpressible, "data volume"},
		{"the root, to read", with(func(k *resolve.Keys) { k.ReadPaths = values("/") }), resolve.Inexpressible, "root directory"},
		{"the root, to write", bare("/"), resolve.PermitRoot, "root directory"},
		{"Launch Services", with(func(k *resolve.Keys) { k.MachLookup = values("com.apple.coreservices.launchservicesd") }), resolve.Inexpressible, "outside the boundary"},
		{"Launch Services in another case", with(func(k *resolve.Keys) { k.MachLookup = values("com.apple.CoreServices.LaunchServicesd") }), resolve.Inexpressible, "outside the boundary"},
		{"opening by Launch Services", with(func(k *resolve.Keys) { k.MachLookup = values("com.apple.lsd.openurl") }), resolve.Inexpressible, "outside the boundary"},
		{"Mach name with a quote", with(func(k *resolve.Keys) { k.MachLookup = values(`x") (global-name "y`) }), resolve.Inexpressible, "not the name of a Mach service"},
		{"Mach name with a blank", with(func(k *resolve.Keys) { k.MachLookup = values("a b") }), resolve.Inexpressible, "not the name of a Mach service"},
		{"Mach name that is empty", with(func(k *resolve.Keys) { k.MachLookup = values("") }), resolve.Inexpressible, "not the name of a Mach service"},
		{"Mach name in another script", with(func(k *resolve.Keys) { k.MachLookup = values("com.аpple.x") }), resolve.Inexpressible, "not the name of a Mach service"},
		{"a floor", with(func(k *resolve.Keys) { k.MinABI = resolve.Floor{N: 6} }), resolve.MinABINotApplicable, "macOS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := resolve.Resolve(c.policy, paperFacts(), resolve.Request{})
			if err == nil {
				var s *enforce.SBPL
				if s, err = enforce.Seatbelt(b); s != nil {
					t.Error("a text beside the refusal")
				}
			}
			var r *resolve.Refusal
			if !errors.Is(err, c.want) || !errors.As(err, &r) || !strings.Contains(r.Detail, c.detail) {
				t.Errorf("%v, want %s with %q", err, c.want, c.detail)
			}
		})
	}
	for _, text := range []string{`{"permit_path":"/a","darwin":{"min_abi":3}}`, `{"permit_path":"/a","darwin":{"audit":true}}`} {
		if _, err := resolve.DecodePolicy([]byte(text)); !errors.Is(err, resolve.PolicyKey) {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := resolve.DecodePolicy([]byte(`{"permit_path":"/a","darwin":{"mach_lookup":["a b"]}}`)); !errors.Is(err, resolve.PolicyValue) {
		t.Error(err)
	}
	// All problems of one boundary come together.
	p := with(func(k *resolve.Keys) {
		k.ReadPaths, k.PermitExtraSubpaths = values("/System"), values("/System/Volumes/Data/x")
		k.MachLookup = values("a b", "com.apple.lsd.modifydb")
	})
	b, err := resolve.Resolve(p, paperFacts(), resolve.Request{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = enforce.Seatbelt(b)
	var all resolve.Refusals
	if !errors.As(err, &all) || len(all) != 4 {
		t.Errorf("%v, want four refusals", err)
	}
}

// baseFacts are what the text states about paths whatever the boundary is.
// Written by hand, like the matrix.
var baseFacts = []sbpleval.Fact{
	{Op: "file-read*", Filter: "literal", Path: "/"}, {Op: "file-read*", Filter: "literal", Path: "/dev"}, {Op: "file-read*", Filter: "literal", Path: "/etc"},
	{Op: "file-read*", Filter: "literal", Path: "/private"}, {Op: "file-read*", Filter: "literal", Path: "/private/var"},
	{Op: "file-read*", Filter: "literal", Path: "/private/var/db/xcode_select_link"},
	{Op: "file-read*", Filter: "literal", Path: "/tmp"}, {Op: "file-read*", Filter: "literal", Path: "/var"},
	{Op: "network-outbound", Filter: "literal", Path: "/private/var/run/mDNSResponder"}, {Op: "network-outbound", Filter: "literal", Path: "/var/run/mDNSResponder"},
	{Op: "network-outbound", Filter: "literal", Path: "/private/var/run/syslog"}, {Op: "network-outbound", Filter: "literal", Path: "/var/run/syslog"},
}

// stated are the facts of one read-write directory, read path, file and socket.
func stated(write, read, file, socket string) []sbpleval.Fact {
	facts := slices.Clone(baseFacts)
	add := func(filter, path string, ops ...string) {
		for _, op := range ops {
			facts = append(facts, sbpleval.Fact{Op: op, Filter: filter, Path: path})
		}
	}
	add("subpath", write, "file-read*", "process-exec*", "file-map-executable", "network-bind", "network-outbound")
	add("require-all subpath", write, "file-write*")
	add("require-all require-not literal", write, "file-write*")
	add("literal", write, "file-write-acl", "file-write-flags", "file-write-mode", "file-write-owner", "file-write-times", "file-write-xattr")
	add("subpath", read, "file-read*", "process-exec*", "file-map-executable")
	add("literal", file, "file-read*", "file-write-data", "file-write-flags", "file-write-mode", "file-write-times", "file-write-xattr")
	add("literal", socket, "network-outbound")
	return facts
}

func sorted(facts []sbpleval.Fact) []sbpleval.Fact {
	slices.SortFunc(facts, func(a, b sbpleval.Fact) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Filter, b.Filter), cmp.Compare(a.Path, b.Path))
	})
	return facts
}

// roundTrip renders one name in every role and reads the text back: the facts
// that it states about paths must be those of the policy, and no other.
func roundTrip(t *testing.T, name string) {
	paths := []string{"/Users/me/w/" + name, "/Users/me/r/" + name, "/Users/me/f/" + name, "/Users/me/s/" + name}
	p := bare(paths[0])
	p.Common.ReadPaths, p.Common.PermitFiles, p.Common.UnixSockets = values(paths[1]), values(paths[2]), values(paths[3])
	b, err := resolve.Resolve(p, paperFacts(), resolve.Request{})
	if err == nil {
		var s *enforce.SBPL
		if s, err = enforce.Seatbelt(b); err == nil {
			profile, err := sbpleval.Parse(s.Profile, params(s))
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			if strings.Contains(s.Profile, name) && len(name) > 6 {
				t.Errorf("%q stands in the text of the profile", name)
			}
			if diff := gocmp.Diff(sorted(stated(paths[0], paths[1], paths[2], paths[3])), sorted(profile.Facts())); diff != "" {
				t.Errorf("%q: -stated +rendered\n%s", name, diff)
			}
			for _, param := range s.Params {
				if !strings.HasPrefix(param.Value, "/Users/me/") || strings.Contains(param.Key, "=") {
					t.Errorf("parameter %+v", param)
				}
			}
			return
		}
	}
	bad := !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool {
		return r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	})
	switch {
	case strings.Contains(name, "\x00"), strings.Contains(name, "${"): // no path can be that
	case bad && errors.Is(err, resolve.PathEncoding):
	case len(paths[0]) >= 1024 && (errors.Is(err, resolve.PathMissing) || bad):
	default:
		t.Errorf("%q is refused: %v", name, err)
	}
}

// names are what quoting mistakes trip over.
var names = []string{
	"plain", `quo"te`, `back\slash`, `\"`, `"\`, `a\`, `(paren`, `paren)`, `")(allow default)("`, `x") (subpath "/y`, "a;b", "; comment", "a#b", `#"raw"`, "a|b", "|sym|",
	"it's", "`tick`", ",@unquote", "a=b", "=", "-D", "--", "$(x)", "%s", "a b", " lead", "trail ", "...", "~", "Caf\u00e9", "Cafe\u0301", "日本語", "🙂", "\u200b",
	strings.Repeat("a", 244) /* 255 with /Users/me/w */, strings.Repeat("a", 245), strings.Repeat("é", 122), strings.Repeat("a/", 490) + "b", strings.Repeat("a", 1000), strings.Repeat(`"`, 300),
	"a\nb", "a\x00b", "a\x7fb", "\xff", "a\xc3", "\u202egnp",
}

func TestRoundTrip(t *testing.T) {
	for _, name := range names {
		roundTrip(t, name)
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for part := range strings.SplitSeq(name, "/") {
			if part == "" || part == "." || part == ".." {
				t.Skip("not a real path as it stands")
			}
		}
		roundTrip(t, name)
	})
}

// tinyscheme reads the same names: a rule matches the path and none beside it.
func TestSchemeReadsNames(t *testing.T) {
	for i, name := range names {
		p := bare("/Users/me/w/" + name)
		b, err := resolve.Resolve(p, paperFacts(), resolve.Request{})
		if err != nil {
			continue // TestRoundTrip says which
		}
		s, err := enforce.Seatbelt(b)
		if err != nil {
			continue
		}
		path := "/Users/me/w/" + name
		got, err := sbpleval.Scheme(t.TempDir(), s.Profile, params(s), []sbpleval.Query{
			{Op: "file-write-data", Path: path + "/f"}, {Op: "file-write-unlink", Path: path}, {Op: "file-write-data", Path: path + "x/f"}, {Op: "file-read-data", Path: "/Users/me/w"}})
		if i == 0 && !needScheme(t, err) {
			return
		}
		if err != nil || !slices.Equal(got, []bool{true, false, false, false}) {
			t.Errorf("%q: %v %v", name, got, err)
		}
	}
}

// The zero value of every type permits nothing.
func TestZero(t *testing.T) {
	for _, b := range []*resolve.Boundary{nil, {}} {
		if s, err := enforce.Seatbelt(b); s != nil || err == nil || !strings.HasPrefix(err.Error(), "BUG") {
			t.Errorf("%v %v", s, err)
		}
	}
	b, err := resolve.Resolve(bare("/Users/me/repo"), paperFacts(), resolve.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enforce.Compile(b); !errors.Is(err, resolve.ArmMissing) {
		t.Errorf("a boundary on paper is compiled: %v", err)
	}
}

// The same boundary gives the same bytes, in ASCII but for the paths, however
// the policy was ordered.
func TestSameBytes(t *testing.T) {
	one, two := bare("/Users/me/repo"), bare("/Users/me/repo")
	one.Common.ReadPaths, two.Common.ReadPaths = values("/Users/me/a", "/Users/me/b", "/Users/me/é"), values("/Users/me/é", "/Users/me/b", "/Users/me/a", "/Users/me/b")
	one.Common.Runtime, two.Common.Runtime = value("default"), value("default")
	a, b := render(t, one, paperFacts(), resolve.Request{}), render(t, two, paperFacts(), resolve.Request{})
	if a.Text() != b.Text() {
		t.Error("two texts for one boundary")
	}
	for i := range len(a.Profile) {
		if c := a.Profile[i]; c > 0x7e || c < ' ' && c != '\n' {
			t.Fatalf("byte %#x at %d of the profile", c, i)
		}
	}
}

// pty = true opens new pseudo-terminals, and nothing else about terminals.
func TestPTY(t *testing.T) {
	p := bare("/Users/me/repo")
	p.Common.Runtime = value("default")
	ask := func(s *enforce.SBPL, op, path string) bool {
		profile, err := sbpleval.Parse(s.Profile, params(s))
		if err != nil {
			t.Fatal(err)
		}
		yes, err := profile.Allows(sbpleval.Query{Op: op, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return yes
	}
	off := render(t, p, paperFacts(), resolve.Request{})
	p.Common.PTY = resolve.Flag{Set: true, On: true}
	on := render(t, p, paperFacts(), resolve.Request{})
	for _, c := range []struct {
		op, path string
		off, on  bool
	}{{"pseudo-tty", "", false, true}, {"file-ioctl", "/dev/ptmx", false, true}, {"file-write-data", "/dev/ptmx", false, true}, {"file-read-data", "/dev/ttys001", false, false},
		{"file-ioctl", "/dev/tty", true, true}} {
		if a, b := ask(off, c.op, c.path), ask(on, c.op, c.path); a != c.off || b != c.on {
			t.Errorf("%s %s: %t without pty, %t with it", c.op, c.path, a, b)
		}
	}
}

// A policy carries both tables to the far side unharmed, and each host takes its own.
func TestBothTables(t *testing.T) {
	p := decode(t, strings.ReplaceAll(policyText, "$H", model.home))
	again, err := resolve.DecodePolicy(resolve.EncodePolicy(p))
	if err != nil {
		t.Fatal(err)
	}
	if string(resolve.EncodePolicy(again)) != string(resolve.EncodePolicy(p)) {
		t.Error("encoding a decoded policy gives other bytes")
	}
	if len(again.Darwin.MachLookup) != 1 || again.Linux.MinABI.N != 6 || !again.Linux.Audit.On {
		t.Errorf("%+v %+v", again.Darwin, again.Linux)
	}
	b, err := resolve.Resolve(again, paperFacts(), resolve.Request{})
	if err != nil || b.MinABI().N != 0 || b.Audit().On || len(b.MachLookup()) != 1 {
		t.Errorf("on macOS: %v %+v", err, b)
	}
}

// The launch spec is what a Mac executes: the one sandbox-exec, "--", and the command.
func TestLaunchSpec(t *testing.T) {
	p := bare("/Users/me/repo")
	p.Common.SetEnv = []resolve.Variable{{Name: "A", Value: value("1")}}
	s := render(t, p, paperFacts(), resolve.Request{Command: []string{"-c", "-D", "x"}})
	spec, err := s.LaunchSpec()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"-D", "DIRECTORY_0=/Users/me/repo", "-p", s.Profile, "--", "-c", "-D", "x"}
	if spec.Cmd != "/usr/bin/sandbox-exec" || !slices.Equal(spec.Args, want) || spec.Cd != "/Users/me/repo" || spec.Env["A"] != "1" {
		t.Errorf("%+v", spec)
	}
	if _, err := render(t, p, paperFacts(), resolve.Request{}).LaunchSpec(); err == nil || !strings.HasPrefix(err.Error(), "BUG") {
		t.Errorf("a spec without a command: %v", err)
	}
}
