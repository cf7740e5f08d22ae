package profiles

import (
	"bytes"
	"errors"
	"testing"

	"github.com/BurntSushi/toml"

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

// FuzzScan holds the scanner against the library: where the library can read a
// document, the scanner reads it to the end or names a fault, and it has the line of every
// key.
func FuzzScan(f *testing.F) {
	for _, d := range append(corpus(f, "good"), corpus(f, "bad")...) {
		f.Add(d.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if invalidLine(data) > 0 {
			return
		}
		s := scan(data)
		if s.fault != "" {
			return
		}
		var table map[string]any
		md, err := toml.NewDecoder(bytes.NewReader(data)).Decode(&table)
		if err != nil {
			return
		}
		if !s.complete() {
			t.Fatalf("the scanner stopped on line %d", s.line)
		}
		for key, line := range s.lines {
			if line < 1 || line > 1+bytes.Count(data, []byte("\n")) {
				t.Errorf("%q is on line %d", key, line)
			}
		}
		for key := range table {
			if s.lines[key] == 0 {
				t.Errorf("no line for %q (%v)", key, md.Keys())
			}
		}
	})
}
