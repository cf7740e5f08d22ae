package profiles

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
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
	_, err = Parse("claude", "claude.toml", []byte("pty = true\npty = [\n"))
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

// Documents of 1 MiB that are built to cost more than they are worth.
func TestHostileDocuments(t *testing.T) {
	fill := func(head, body, tail string) string {
		return head + strings.Repeat(body, (resolve.MaxDocument-len(head)-len(tail))/len(body)) + tail
	}
	for name, text := range map[string]string{
		"arrays":        fill("a = ", "[", ""),
		"tables":        fill("a = ", "{a=", ""),
		"both":          fill("a = ", "[{a=", ""),
		"dotted":        fill("a", ".a", " = 1"),
		"dotted empty":  fill("''", ".''", " = 1"),
		"header":        fill("[a", ".a", "]"),
		"array header":  fill("[[a", ".a", "]]"),
		"wide, deep":    fill("a = [", "[[[[[[[[[", ""),
		"open quote":    fill(`a = "`, `\\`, ""),
		"open quotes":   fill(`a = """`, "\n\\\"", ""),
		"key of 1 MiB":  fill("", "a", "=1"),
		"quoted 1 MiB":  fill(`"`, "a", `"=1`),
		"many brackets": fill("", "[", ""),
	} {
		_, err := Parse("name", "FILE", []byte(text))
		if got := problems(t, err); len(got) != 1 || !errors.Is(err, resolve.ProfileSyntax) {
			t.Errorf("%s: %.200q, want profile-syntax alone", name, got)
		}
	}
}

// The library matches the fields of a struct in any letter case, and of two spellings takes one
// at random. Nothing of that may show: whatever the order, only the exact key counts.
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

// failing makes the library say where a key stands: an error of UnmarshalTOML
// gets the position that it keeps to itself otherwise.
type failing struct{}

func (*failing) UnmarshalTOML(any) error { return errors.New("here") }

// The library is the oracle of the scanner: both must put every top-level key
// and every key of an OS table on the same line.
func TestLinesAgreeWithLibrary(t *testing.T) {
	field := func(key string, typ reflect.Type) reflect.Type {
		return reflect.StructOf([]reflect.StructField{{Name: "F", Type: typ, Tag: reflect.StructTag(`toml:"` + key + `"`)}})
	}
	// Where the library has another line, or none.
	except := map[string]string{
		"toml-forms":            "the last line of a string of several, and of a table the header behind an earlier [table.inner]",
		"key-case":              "it takes any letter case into a struct, the mistake that Parse avoids",
		"value-array-of-tables": "the last of its headers",
		"value-variable":        `of a table with the key "" that key`,
		"key-quoted":            "a struct tag cannot name these keys",
	}
	compared := 0
	for _, d := range append(corpus(t, "good"), corpus(t, "bad")...) {
		s := scan(d.data)
		var table map[string]any
		md, err := toml.Decode(string(d.data), &table)
		if err != nil || invalidLine(d.data) > 0 || s.fault != "" || except[d.name] != "" {
			continue
		}
		for _, key := range md.Keys() {
			typ := reflect.TypeFor[failing]()
			for _, part := range slices.Backward(key) {
				typ = field(part, typ)
			}
			_, err := toml.Decode(string(d.data), reflect.New(typ).Interface())
			if pe := (toml.ParseError{}); errors.As(err, &pe) && pe.Position.Line > 0 {
				compared++
				if got := s.lines[strings.Join(key, ".")]; got != pe.Position.Line {
					t.Errorf("%s: %s is on line %d, the library says %d", d.name, key, got, pe.Position.Line)
				}
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d keys were compared", compared)
	}
}
