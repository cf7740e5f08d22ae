package profiles

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/resolve"
)

func mustParse(t testing.TB, name, text string) *Profile {
	t.Helper()
	p, err := Parse(name, name+".toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustParseDropIn(t testing.TB, name, text string) *Profile {
	t.Helper()
	p, err := ParseDropIn(name, name+".d/x.toml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParse(t *testing.T) {
	got, err := Parse("claude", "dir/claude.toml", []byte(`description = "one line"
extends = ["base"]
permit_path = "${cwd}"
read_paths = [
    "/a",

    "-/b",
]
pty = false

[linux]
min_abi = 6
set_env.B = "2"
set_env.A = "1"
`))
	if err != nil {
		t.Fatal(err)
	}
	at := func(key string, line int) resolve.Origin {
		return resolve.Origin{File: "dir/claude.toml", Key: key, Line: line}
	}
	want := &Profile{
		Name: "claude", File: "dir/claude.toml", Description: "one line",
		Extends: []resolve.Value{{Text: "base", Origin: at("extends[0]", 2)}},
		Policy: resolve.Policy{
			Name: "claude",
			Common: resolve.Keys{
				PermitPath: resolve.Value{Text: "${cwd}", Origin: at("permit_path", 3)},
				ReadPaths:  []resolve.Value{{Text: "/a", Origin: at("read_paths[0]", 5)}, {Text: "-/b", Origin: at("read_paths[1]", 7)}},
				PTY:        resolve.Flag{Set: true, Origin: at("pty", 9)},
			},
			Linux: resolve.Keys{
				MinABI: resolve.Floor{N: 6, Origin: at("linux.min_abi", 12)},
				SetEnv: []resolve.Variable{
					{Name: "A", Value: resolve.Value{Text: "1", Origin: at("linux.set_env.A", 14)}},
					{Name: "B", Value: resolve.Value{Text: "2", Origin: at("linux.set_env.B", 13)}},
				},
			},
		},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestHints(t *testing.T) {
	tests := []struct{ text, subject, hint string }{
		{`minabi = 7`, "minabi", "did you mean min_abi?"},
		{`PERMIT_PATH = "/a"`, "PERMIT_PATH", "did you mean permit_path?"},
		{`permit_pathh = "/"`, "permit_pathh", "did you mean permit_path?"},
		{`desription = "x"`, "desription", "did you mean description?"},
		{"[Linux]\nmin_abi = 6", "Linux", "did you mean linux?"},
		{"[scratch]\nmin_abi = 6", "scratch.min_abi", "a key below a [table] header belongs to that table: move min_abi above [scratch]"},
		{"[agent_scratch]\nagent = \"a\"\npty = true", "agent_scratch.pty", "a key below a [table] header belongs to that table: move pty above [agent_scratch]"},
		{"[set_env]\nruntime = \"none\"", "set_env.runtime", "a key below a [table] header belongs to that table: move runtime above [set_env]"},
		{`deny = ["/a"]`, "deny", "nothing can be taken away below a grant: grant the parts that are wanted instead"},
		{`audit = true`, "audit", "audit is only known in [linux]"},
		{`mach_lookup = ["x"]`, "mach_lookup", "mach_lookup is only known in [darwin]"},
		{`darwin.machlookup = ["x"]`, "darwin.machlookup", "did you mean mach_lookup?"},
		{`darwin.min_abi = 6`, "darwin.min_abi", "min_abi is a Landlock floor: write it in [linux]"},
		{`permit_path = "."`, "permit_path", "write \"${cwd}\" for the directory that the command is started in"},
		{`extends = ["./base.toml"]`, "extends[0]", "extends takes names, never paths; `confinectl list` shows them"},
		{`read_paths = ["+/a"]`, "read_paths[0]", "+ (make it if missing) is for permit_extra_subpaths"},
	}
	for _, tt := range tests {
		_, err := Parse("name", "FILE", []byte(tt.text))
		var r *resolve.Refusal
		if !errors.As(err, &r) {
			t.Errorf("%q: %v, want a refusal", tt.text, err)
			continue
		}
		if r.Subject != tt.subject || !slices.Equal(r.Hints, []string{tt.hint}) {
			t.Errorf("%q: %s: %q\nwant %s: %q", tt.text, r.Subject, r.Hints, tt.subject, tt.hint)
		}
	}
}

func TestMessage(t *testing.T) {
	_, err := Parse("claude", "/etc/confinectl/profiles/claude.toml", []byte("pty = true\nminabi = 7\npermit_path = \"x\"\n"))
	const want = `profile-key: minabi: unknown key (/etc/confinectl/profiles/claude.toml:2)
path-relative: permit_path: "x" is neither absolute nor begins with ~/ or a fact (/etc/confinectl/profiles/claude.toml:3)`
	if err == nil || err.Error() != want {
		t.Errorf("got:\n%v\nwant:\n%s", err, want)
	}
	if !errors.Is(err, resolve.ProfileKey) || !errors.Is(err, resolve.PathRelative) || errors.Is(err, resolve.ProfileValue) {
		t.Error("errors.Is does not find the codes")
	}
	_, err = Parse("claude", "claude.toml", []byte("pty = true\npty = []\n"))
	if want := "profile-syntax: claude: defines pty a second time, after line 1 (claude.toml:2)"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestProfileName(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, name := range []string{"a", "9", "claude-cli", "a.b_c-d", long, "p.toml", "con"} {
		if _, err := Parse(name, "FILE", nil); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "../p", "/abs/p.toml", "a/b", "-p", "--", "P", "p\n", "p\x00", "ä", ".p", "_p", long + "a"} {
		for _, parse := range []func(string, string, []byte) (*Profile, error){Parse, ParseDropIn} {
			p, err := parse(name, "FILE", []byte("minabi = 1"))
			if got := problems(t, err); p != nil || len(got) != 1 || !errors.Is(err, resolve.ProfileName) {
				t.Errorf("%q: %v, want profile-name alone", name, err)
			}
		}
	}
}

func TestLargestDocument(t *testing.T) {
	data := []byte("pty = true\n#")
	data = append(data, bytes.Repeat([]byte("x"), resolve.MaxDocument-len(data))...)
	if _, err := Parse("name", "FILE", data); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	_, err := Parse("name", "FILE", append(data, 'x'))
	if got, want := problems(t, err), []string{"profile-syntax 0: name: is larger than 1 MiB"}; !slices.Equal(got, want) {
		t.Errorf("1 MiB + 1: %q, want %q", got, want)
	}
}

// Documents of 1 MiB that are built to cost more than they are worth. The memory that
// they take grows with their size, not with their depth times their size.
func TestHostileDocuments(t *testing.T) {
	fill := func(head, body, tail string) string {
		return head + strings.Repeat(body, (resolve.MaxDocument-len(head)-len(tail))/len(body)) + tail
	}
	closed := func(open, shut string) string {
		return "a = " + strings.Repeat(open, 9999) + "1" + strings.Repeat(shut, 9999) + "\n"
	}
	for name, text := range map[string]string{
		"arrays":                fill("a = ", "[", ""),
		"tables":                fill("a = ", "{a=", ""),
		"both":                  fill("a = ", "[{a=", ""),
		"closed arrays":         fill("", closed("[", "]"), ""),
		"closed tables":         fill("", closed("{a=", "}"), ""),
		"dotted":                fill("a", ".a", " = 1"),
		"dotted empty":          fill("''", ".''", " = 1"),
		"header":                fill("[a", ".a", "]"),
		"array header":          fill("[[a", ".a", "]]"),
		"wide, deep":            fill("a = [", "[[[[[[[[[", ""),
		"open quote":            fill(`a = "`, `\\`, ""),
		"open quotes":           fill(`a = """`, "\n\\\"", ""),
		"key of 1 MiB":          fill("", "a", "=1"),
		"quoted 1 MiB":          fill(`"`, "a", `"=1`),
		"many brackets":         fill("", "[", ""),
		"digits":                fill("a = ", "1", ""),
		"not UTF-8":             fill("#", "\ufffd", "\xff"),
		"valid wide":            fill("a = [", "1,", "]"),
		"valid wide tables":     fill("a = [", "{a=1},", "]"),
		"valid wide strings":    fill("a = [", `"\n",`, "]"),
		"valid array headers":   fill("", "[[a]]\n", ""),
		"valid headers in them": fill("", "[[a]]\n[[a.a]]\n", ""),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse("name", "FILE", []byte(text))
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 512 {
			t.Errorf("%s: %d MiB were allocated", name, n)
		}
		code := resolve.ProfileSyntax
		if strings.HasPrefix(name, "valid ") {
			code = resolve.ProfileKey
		}
		if got := problems(t, err); len(got) != 1 || !errors.Is(err, code) {
			t.Errorf("%s: %.200q, want %s alone", name, got, code)
		}
	}
}

// Whatever the order, only the exact key counts.
func TestLetterCaseIsExact(t *testing.T) {
	lines := []string{`Permit_Path = "/b"`, `PERMIT_PATH = "/c"`, `permit_path = "/a"`}
	for range 3 {
		lines = append(lines[1:], lines[0])
		_, err := Parse("name", "FILE", []byte(strings.Join(lines, "\n")))
		got := problems(t, err)
		for i := range got { // without the line
			code, rest, _ := strings.Cut(got[i], " ")
			_, rest, _ = strings.Cut(rest, ": ")
			got[i] = code + " " + rest
		}
		slices.Sort(got)
		want := []string{"profile-key PERMIT_PATH: unknown key", "profile-key Permit_Path: unknown key"}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
	for key, sample := range samples {
		for _, spelling := range []string{strings.ToUpper(key), strings.ToUpper(key[:1]) + key[1:], strings.ReplaceAll(key, "_", ""), strings.ReplaceAll(key, "_", "-"), key + "_", key[:len(key)-1]} {
			if spelling == key {
				continue
			}
			_, err := Parse("name", "FILE", []byte(spelling+" = "+sample))
			if got, want := problems(t, err), []string{"profile-key 1: " + spelling + ": unknown key"}; key != "agent_scratch" && !slices.Equal(got, want) || !errors.Is(err, resolve.ProfileKey) {
				t.Errorf("%s: %q, want %q", spelling, got, want)
			}
		}
	}
}

func TestParseDropIn(t *testing.T) {
	p := mustParseDropIn(t, "claude", "description = \"here\"\npty = true\n")
	if p.Name != "claude" || p.Policy.Name != "claude" || p.Description != "here" || !p.Policy.Common.PTY.On {
		t.Errorf("got %+v", p)
	}
	for _, text := range []string{`extends = ["base"]`, `extends = []`, `extends = 7`} {
		_, err := ParseDropIn("claude", "FILE", []byte("color = 1\n"+text))
		want := []string{"profile-key 1: color: unknown key", "profile-key 2: extends: a drop-in cannot extend"}
		if got := problems(t, err); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if hint := err.(resolve.Refusals)[1].Hints; len(hint) != 1 || !strings.Contains(hint[0], "claude.toml") {
			t.Errorf("%s: hints %q", text, hint)
		}
	}
}

func texts(values []resolve.Value) []string {
	var out []string
	for _, v := range values {
		out = append(out, v.Text)
	}
	return out
}

func TestMerge(t *testing.T) {
	base := mustParse(t, "base", `
description = "base"
permit_path = "/base"
read_paths = ["/a", "/b"]
runtime = "none"
pty = true
private_tmp = true
agent_scratch = { agent = "base", provision = true }
set_env = { A = "base", C = "base" }
min_abi = 6
[linux]
min_abi = 7
read_paths = ["/linux"]
`)
	other := mustParse(t, "other", `
read_paths = ["/c", "/a"]
runtime = "default"
set_env.B = "other"
min_abi = 5
`)
	p := mustParse(t, "p", `
description = "p"
extends = ["base", "other"]
permit_path = "/p"
read_paths = ["/d", "-/a"]
pty = false
agent_scratch = { agent = "p" }
set_env.A = "p"
min_abi = 1
linux.min_abi = 1
`)
	first := mustParseDropIn(t, "p", `read_paths = ["/e"]
set_env.A = "first"
min_abi = 4
`)
	second := mustParseDropIn(t, "p", `description = "second"
set_env.A = "second"
linux.audit = true
`)
	inputs := []*Profile{base, other, p, first, second}
	var before []string
	for _, in := range inputs {
		before = append(before, string(Print(in)))
	}

	got := Merge([]*Profile{base, other}, p, []*Profile{first, second})

	const want = `description = "second"
extends = [
    "base",
    "other",
]
permit_path = "/p"
read_paths = [
    "/a",
    "/b",
    "/c",
    "/d",
    "-/a",
    "/e",
]
runtime = "default"
pty = false
private_tmp = true
agent_scratch = { agent = "p" }
set_env = { A = "second", B = "other", C = "base" }
min_abi = 6

[linux]
read_paths = ["/linux"]
min_abi = 7
audit = true
`
	if d := cmp.Diff(want, string(Print(got))); d != "" {
		t.Error(d)
	}
	if got.Name != "p" || got.Policy.Name != "p" || got.File != "p.toml" {
		t.Errorf("name %q, policy name %q, file %q", got.Name, got.Policy.Name, got.File)
	}
	if o := got.Policy.Common.MinABI.Origin; o.File != "base.toml" {
		t.Errorf("min_abi comes from %v, want base.toml", o)
	}
	for i, in := range inputs {
		if now := string(Print(in)); now != before[i] {
			t.Errorf("Merge changed %s:\n%s\nwas\n%s", in.File, now, before[i])
		}
	}
}

// Two profiles merged over one parent must not write into what they share,
// and the same inputs give the same result.
func TestMergeSharesParents(t *testing.T) {
	base := mustParse(t, "base", `read_paths = ["/a"]
set_env = { B = "base" }
`)
	grown := Merge([]*Profile{base}, mustParse(t, "grown", `read_paths = ["/b", "/c"]
set_env = { A = "grown", C = "grown" }
`), nil)
	child := func(name string) *Profile {
		return mustParse(t, name, `read_paths = ["/`+name+`"]
set_env = { B = "`+name+`", BB = "`+name+`" }
`)
	}
	one := Merge([]*Profile{grown}, child("one"), nil)
	two := Merge([]*Profile{grown}, child("two"), nil)
	if got, want := texts(one.Policy.Common.ReadPaths), []string{"/a", "/b", "/c", "/one"}; !slices.Equal(got, want) {
		t.Errorf("one reads %q, want %q", got, want)
	}
	if got, want := texts(two.Policy.Common.ReadPaths), []string{"/a", "/b", "/c", "/two"}; !slices.Equal(got, want) {
		t.Errorf("two reads %q, want %q", got, want)
	}
	if s := string(Print(one)); !strings.Contains(s, `set_env = { A = "grown", B = "one", BB = "one", C = "grown" }`) {
		t.Errorf("one:\n%s", s)
	}
	if s := string(Print(grown)); !strings.Contains(s, `set_env = { A = "grown", B = "base", C = "grown" }`) {
		t.Errorf("grown:\n%s", s)
	}
	if again := Merge([]*Profile{grown}, child("one"), nil); !reflect.DeepEqual(one, again) {
		t.Error("the same inputs gave another result")
	}
}
