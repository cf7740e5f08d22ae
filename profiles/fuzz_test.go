package profiles

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// FuzzParsePrint holds Parse against its neighbours: what it takes prints and reads
// back as itself, the schema takes it too, and so does the JSON reader. What it refuses
// it refuses by name, with no profile beside the error.
func FuzzParsePrint(f *testing.F) {
	for _, d := range append(corpus(f, "good"), corpus(f, "bad")...) {
		f.Add(d.data)
	}
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("name", "FILE", data)
		if err != nil {
			var rs resolve.Refusals
			if p != nil || !errors.As(err, &rs) || len(rs) == 0 {
				t.Fatalf("profile %v beside error %#v", p, err)
			}
			if bytes.Contains([]byte(err.Error()), []byte("BUG")) && !bytes.Contains(data, []byte("BUG")) {
				t.Fatal(err)
			}
			return
		}
		text := Print(p)
		again, err := Parse("name", "FILE", text)
		if err != nil {
			t.Fatalf("the print is refused: %v\n%s", err, text)
		}
		if d := diff(p, again); d != "" {
			t.Fatalf("the print means something else: %s\n%s", d, text)
		}
		if twice := Print(again); !bytes.Equal(text, twice) {
			t.Fatalf("the print prints otherwise:\n%s\n%s", text, twice)
		}
		if err := schema.Validate(instance(t, data)); err != nil {
			t.Fatalf("the schema refuses it: %v", err)
		}
		far, err := resolve.DecodePolicy(resolve.EncodePolicy(&p.Policy))
		if err != nil {
			t.Fatalf("refused as JSON: %v", err)
		}
		if d := diff(&Profile{Policy: p.Policy}, &Profile{Policy: *far}); d != "" {
			t.Fatalf("as JSON it means something else: %s", d)
		}
	})
}

// FuzzDecode holds the reader of TOML against two others: what it takes they take with
// the same value, and what it refuses they refuse, but for our own limits, and for
// what BurntSushi/toml is known to take (looser has examples) while the other does not.
// Every key is found on the line that the reader says.
func FuzzDecode(f *testing.F) {
	for _, d := range append(corpus(f, "good"), corpus(f, "bad")...) {
		f.Add(d.data)
	}
	for _, d := range documents {
		f.Add([]byte(d.text))
	}
	files, names := suite(f)
	for _, name := range names {
		f.Add(read(f, files, name+".toml"))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		table, problem := ours(data)
		if ownLimit(problem) {
			return
		}
		for _, o := range oracles {
			theirs, err := o.read(data)
			if (problem == "") == (err == nil) {
				if diff := differ(table, theirs); problem == "" && diff != "" {
					t.Errorf("%s reads something else:\n%s", o.name, diff)
				}
				continue
			}
			known := strings.Contains(problem, "a second time") || strings.Contains(problem, "does not exist") || strings.Contains(problem, "UTF-8")
			if o.name != "BurntSushi/toml" || err != nil || !known {
				t.Errorf("ours %q, %s %v", problem, o.name, err)
			}
		}
		if problem != "" {
			return
		}
		_, lines, _ := decode(data)
		text := strings.Split(string(data), "\n")
		for key, line := range lines {
			if line < 1 || line > len(text) {
				t.Fatalf("%q is on line %d", key, line)
			}
			name := key[strings.LastIndexByte(key, '.')+1:]
			if !strings.HasSuffix(key, "]") && !strings.Contains(text[line-1], name) {
				t.Errorf("%q is not on line %d", key, line)
			}
		}
		var all func(key string, v any)
		all = func(key string, v any) {
			if lines[key] == 0 {
				t.Errorf("no line for %q", key)
			}
			switch v := v.(type) {
			case map[string]any:
				for k, e := range v {
					all(key+"."+k, e)
				}
			case []any:
				for i, e := range v {
					all(key+"["+strconv.Itoa(i)+"]", e)
				}
			}
		}
		for key, v := range table {
			all(key, v)
		}
	})
}
