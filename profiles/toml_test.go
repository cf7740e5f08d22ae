package profiles

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	burntsushi "github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	pelletier "github.com/pelletier/go-toml/v2"
	tomltest "github.com/toml-lang/toml-test/v2"
)

// ours is what the reader makes of a document; its refusal as the corpus writes it.
func ours(data []byte) (map[string]any, string) {
	table, _, problem := decode(data)
	if problem != nil {
		return nil, strconv.Itoa(problem.Origin.Line) + ": " + problem.Detail
	}
	return table, ""
}

// ownLimit reports whether a refusal is for what TOML allows and we do not.
func ownLimit(problem string) bool {
	_, detail, _ := strings.Cut(problem, ": ")
	return strings.HasPrefix(detail, "nests deeper than") || strings.HasPrefix(detail, "has a key ") || strings.HasPrefix(detail, "is larger than")
}

// oracle is another reader of TOML, whose values are compared with ours.
type oracle struct {
	name string
	read func(data []byte) (map[string]any, error)
}

var oracles = []oracle{
	{"BurntSushi/toml", func(data []byte) (table map[string]any, err error) {
		_, err = burntsushi.NewDecoder(bytes.NewReader(data)).Decode(&table)
		return table, err
	}},
	// The library's own decoder has the parser in common with us, but keeps its own
	// books of what was defined. It takes no byte order mark.
	{"go-toml", func(data []byte) (table map[string]any, err error) {
		err = pelletier.Unmarshal(bytes.TrimPrefix(data, []byte("\ufeff")), &table)
		return table, err
	}},
}

// differ says how two trees differ. All dates count as the same date.
func differ(ours, theirs map[string]any) string {
	return cmp.Diff(plain(theirs), plain(ours), cmpopts.EquateEmpty(), cmpopts.EquateNaNs())
}

// plain is v with dates of every library and lists of tables in the form of ours.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[k] = plain(e)
		}
		return out
	case []any:
		out := []any{}
		for _, e := range v {
			out = append(out, plain(e))
		}
		return out
	case []map[string]any:
		out := []any{}
		for _, e := range v {
			out = append(out, plain(e))
		}
		return out
	case date, time.Time, pelletier.LocalDate, pelletier.LocalTime, pelletier.LocalDateTime:
		return date("")
	}
	return v
}

// documents are the rules of toml.io/en/v1.1.0, valid and not, as they bear on what the
// parser leaves to us, and on what would be costly to get wrong.
var documents = []struct {
	text string
	want string // the refusal as "LINE: DETAIL", nothing where it is valid
}{
	// Comments and white space.
	{"", ""},
	{"\n\r\n \t\n", ""},
	{"# a comment\na = 1 # and one\r\n#", ""},
	{"\ufeffa = 1", ""},
	{"\ufeff", ""},
	{"\ufeff\ufeffa = 1", `1: invalid character at start of key: '\ufeff'`},
	{"a = 1\n\ufeffb = 1", `2: invalid character at start of key: '\ufeff'`},
	{"a = 1\r", `1: expected newline but got '\r'`},
	{"a = 1\rb = 2", `1: expected newline but got '\r'`},
	{"\ra = 1", `1: expected newline but got '\r'`},
	{"# a\rb = 1", "1: carriage returns are not allowed in comments"},
	{"a = [1,\r2]", `1: expected newline but got '\r'`},
	{"# \x01", "1: control characters are not allowed in comments"},
	{"# \x7f", "1: control characters are not allowed in comments"},
	{"# \x00", "1: has a NUL byte; if it is in UTF-16, save it as UTF-8"},
	{"\x00", "1: has a NUL byte; if it is in UTF-16, save it as UTF-8"},
	{"a = 1\x00", "1: has a NUL byte; if it is in UTF-16, save it as UTF-8"},
	{"a = \"\x00\"", "1: has a NUL byte; if it is in UTF-16, save it as UTF-8"},
	{"\x0ca = 1", `1: invalid character at start of key: '\f'`},
	{"\u00a0a = 1", `1: invalid character at start of key: '\u00a0'`},
	{"a = 1\n# \xff", "2: is not valid UTF-8"},
	{"a = '\ufffd'", ""},
	{"a = '\xed\xa0\x80'", "1: is not valid UTF-8"}, // a surrogate in UTF-8
	{"a = '\xc0\x80'", "1: is not valid UTF-8"},     // NUL in too many bytes

	// Keys.
	{"a-b_1 = 1\n\"ä\" = 2\n'' = 3\n\"\" . x = 1", `4: defines  a second time, after line 3`},
	{"1.2 = 3\n-1 = 2\ntrue = false\n' \"' = 1", ""},
	{"a . b\t.c = 1\n[ x . 'y' ]\n[[ z ]]", ""},
	{"ä = 1", "1: invalid character at start of key: 'ä'"},
	{"a b = 1", "1: expected '=' after key but found 'b'"},
	{"a. = 1", "1: invalid character at start of key: '='"},
	{".a = 1", "1: invalid character at start of key: '.'"},
	{"a..b = 1", "1: invalid character at start of key: '.'"},
	{"= 1", "1: invalid character at start of key: '='"},
	{"a\n= 1", "1: expected '=' after key but found '\\n'"},
	{"a = \n1", "1: has no value after '='"},
	{"\"\"\"a\"\"\" = 1", "1: expected '=' after key but found '\"'"},
	{"'a\nb' = 1", "1: literal strings cannot have new lines"},
	{"a", "1: expected '=' after key"},
	{"a =", "1: expected value, not end of input"},
	{"a = 1 b = 2", "1: expected newline but got 'b'"},
	{"a = 'x' 'y'", `1: expected newline but got '\''`},
	{"[a] b = 1", "1: expected newline but got 'b'"},
	{"[a]]", "1: expected newline but got ']'"},
	{"[[a]", "1: expected ']]' to close array table name"},
	{"[[a] ]", "1: expected ']]' to close array table name but found ']'"},
	{"[ [a]]", "1: invalid character at start of key: '['"},
	{"[]", "1: invalid character at start of key: ']'"},
	{"[a.]", "1: invalid character at start of key: ']'"},
	{"[a\n]", "1: expected ']' to close table name but found '\\n'"},

	// Strings.
	{`a = "\b\t\n\f\r\"\\\u00e9\U0001f600\e\x41"`, ""},
	{"a = \"\"\"\n x\\\n\n  y \\  \r\n z\"\"\"\"\"\nb = '''\n'a' \\'''''", ""},
	{"a = \"tab\tand \u202e\"\nb = '\t'", ""},
	{"a = \"\"\"\r\nx\r\n\"\"\"", ""},
	{`a = "\d"`, "1: invalid escape character 'd'"},
	{`a = "\é"`, "1: invalid escape character 'é'"},
	{`a = "\u00g0"`, "1: invalid hexadecimal digit in unicode escape sequence"},
	{`a = "\ud800"`, "1: escape sequence is not a valid unicode code point"},
	{`a = "\udfff"`, "1: escape sequence is not a valid unicode code point"},
	{`a = "\U00110000"`, "1: escape sequence is not a valid unicode code point"},
	{`a = "\U0000d800"`, "1: escape sequence is not a valid unicode code point"},
	{`a = "\u12`, "1: unicode escape sequence is too short"},
	{"a = \"x\ny\"", "1: basic strings cannot have new lines"},
	{"a = \"x\\\ny\"", `1: invalid escape character '\n'`},
	{"a = \"\"\"x\\ y\"\"\"", "1: invalid escape character ' '"},
	{"a = \"\x1f\"", "1: basic strings cannot have control characters"},
	{"a = \"\x7f\"", "1: basic strings cannot have control characters"},
	{"a = '\x08'", "1: literal strings cannot have control characters"},
	{"a = \"\"\"\nx\ry\"\"\"", "2: carriage returns must be followed by a newline character"},
	{"a = '''\n\x0b'''", "2: multiline literal strings cannot have control characters"},
	{"a = \"\"\"x\"\"\"\"\"\"", "1: too many quotes at the end of a multiline basic string"},
	{"a = \"x", "1: unterminated basic string"},
	{"a = '''\nx\n", "2: multiline literal string not terminated by '''"},

	// Numbers and booleans.
	{"a = [0, +0, -0, 1_000, -17, 0xdead_BEEF, 0o755, 0b1_0]", ""},
	{"a = [9223372036854775807, -9223372036854775808, 0x7fff_ffff_ffff_ffff]", ""},
	{"a = 9223372036854775808", "1: has a number that does not fit into 64 bits"},
	{"a = -9223372036854775809", "1: has a number that does not fit into 64 bits"},
	{"a = [\n0x8000000000000000]", "2: has a number that does not fit into 64 bits"},
	{"a = 0b1" + strings.Repeat("0", 63), "1: has a number that does not fit into 64 bits"},
	{"a = [0.0, -0.0, 3.14, 5e+22, 1e06, -2E-2, 6.626e-34, 9_224_617.445_991, 1e-999]", ""},
	{"a = [inf, +inf, -inf, nan, +nan, -nan]", ""},
	{"a = 1e999", "1: has a number that does not fit into 64 bits"},
	{"a = 01", "1: integers cannot have leading zeroes"},
	{"a = -01", "1: integers cannot have leading zeroes"},
	{"a = 00.1", "1: integers cannot have leading zeroes"},
	{"a = 1__0", "1: number must have at least one digit between underscores"},
	{"a = 1_", "1: number must have at least one digit between underscores"},
	{"a = _1", "1: expected a value but found \"_1\""},
	{"a = 0x_1", "1: radix prefix must be followed by at least one digit"},
	{"a = +0x1", "1: sign is not allowed on numbers with a radix prefix"},
	{"a = 0X1", "1: strings must be quoted"},
	{"a = 0o8", "1: radix prefix must be followed by at least one digit"},
	{"a = 1.", "1: decimal point must be followed by a digit"},
	{"a = .1", "1: unexpected character '.' at start of value"},
	{"a = 1e", "1: exponent must contain at least one digit"},
	{"a = 1._0", "1: decimal point must be followed by a digit"},
	{"a = 0x1.8p1", "1: expected newline but got '.'"},
	{"a = --1", "1: expected digit but got '-'"},
	{"a = +inF", `1: expected "inf"`},
	{"a = True", "1: expected a value but found \"True\""},
	{"a = truely", "1: expected newline but got 'l'"},
	{"a = tru", "1: expected a value but found \"tru\""},
	{"a = null", "1: expected a value but found \"null\""},
	{"a = [no]", "1: expected a value but found \"no\""},
	{"a = infinity", "1: expected newline but got 'i'"},
	{"a = 20s", "1: strings must be quoted"},
	{"a = «x»", "1: expected a value but found \"«x»\""},

	// Dates. The parser only finds where they end.
	{"a = [1979-05-27T07:32:00Z, 1979-05-27t00:32:00.999999-07:00, 1979-05-27 07:32z, 2000-02-29T00:00:00+23:59]", ""},
	{"a = [1979-05-27T07:32:00, 1979-05-27 07:32, 1979-05-27, 07:32:00, 23:59:59.123456789012, 07:32]", ""},
	{"a = 0000-01-01", ""},
	{"a = 2023-02-29", "1: has a date or time that does not exist"},
	{"a = 1900-02-29", "1: has a date or time that does not exist"},
	{"a = 2023-13-01", "1: has a date or time that does not exist"},
	{"a = 2023-00-01", "1: has a date or time that does not exist"},
	{"a = 2023-1-01", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T", "1: has a date or time that does not exist"},
	{"a = 2023-01-01 7", "1: has a date or time that does not exist"},
	{"a = 2023-01-01Z", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T24:00:00", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T7:00:00Z", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:61Z", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00.Z", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00ZZ", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00+", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00+1:00", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00+0100", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00Z01:00", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00+24:00", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00+00:60", "1: has a date or time that does not exist"},
	{"a = 2023-01-01T07:00:00 +01:00", "1: expected newline but got '+'"},
	{"a = 07:32:00Z", "1: has a date or time that does not exist"},
	{"a = 07:32.5", "1: has a date or time that does not exist"},
	{"a = 07:3", "1: has a date or time that does not exist"},
	{"a = 12345-01-01", "1: expected newline but got '-'"},

	// Arrays.
	{"a = [ [1, 'x'], [], [{}] , # comment ] \n\n{ b = [[ ]] }, # last\n]", ""},
	{"a = [,]", "1: expected value but got ','"},
	{"a = [1,,2]", "1: expected value but got ','"},
	{"a = [1 2]", "1: expected ',' or ']' after array value but found '2'"},
	{"a = ['x''y']", "1: expected ',' or ']' after array value but found '\\''"},
	{"a = [1\n\n", "2: array is incomplete"},
	{"a = [1}", "1: expected ',' or ']' after array value"},
	{"a = [b = 1]", "1: expected a value but found \"b\""},

	// Inline tables are complete.
	{"a = { b = 1, c.d = 2, c.e = { f = 3 } }", ""},
	{"a = {\n b = 1, # one\n\n c = 2,\n}", ""},
	{"a = { , }", "1: unexpected comma in inline table"},
	{"a = { b = 1,, }", "1: unexpected comma in inline table"},
	{"a = { b = 1 c = 2 }", "1: expected ',' or '}' after inline table key-value but found 'c'"},
	{"a = { b }", "1: expected '=' after key"},
	{"a = {", "1: inline table is incomplete"},
	{"a = { b = 1, b = 2 }", "1: defines a.b a second time"},
	{"a = { b = 1,\n'b' = 2 }", "2: defines a.b a second time, after line 1"},
	{"a = { b.c = 1, b = 2 }", "1: defines a.b a second time"},
	{"a = { b = 2, b.c = 1 }", "1: defines a.b a second time"},
	{"a = { b = { c = 1 }, b.d = 2 }", "1: defines a.b a second time"},
	{"a = { b.c = 1, b.c.d = 2 }", "1: defines a.b.c a second time"},
	{"a = {}\na.b = 1", "2: defines a a second time, after line 1"},
	{"a = {}\n[a]", "2: defines a a second time, after line 1"},
	{"a = {}\n[a.b]", "2: defines a a second time, after line 1"},
	{"a = {}\n[[a]]", "2: defines a a second time, after line 1"},
	{"a.b = {}\n[a.b.c]", "2: defines a.b a second time, after line 1"},
	{"[a.b]\n[a]\nb = {}", "3: defines a.b a second time, after line 1"},
	{"a = [{ b = 1, b = 2 }]", "1: defines a[0].b a second time"},
	{"a = [{ b = 1 }, { b = 1 }]", ""},

	// Tables.
	{"[a]\n[b]\n[a.c]\n[d.e]\n[d]\nf = 1", ""},
	{"[a.b.c]\nx = 1\n[a]\ny = 2\n[a.b]\nz = 3", ""},
	{"a.b = 1\na.c = 2\nd = 3\na.e.f = 4\n[a.e.g]\nh = 5\n[a.i]", ""},
	{"a = 1\na = 2", "2: defines a a second time, after line 1"},
	{"a = 1\n\"a\" = 2", "2: defines a a second time, after line 1"},
	{"a = 1\na.b = 2", "2: defines a a second time, after line 1"},
	{"a.b = 1\na = 2", "2: defines a a second time, after line 1"},
	{"a.b = 1\na = [2]", "2: defines a a second time, after line 1"},
	{"a.b = 1\na.b.c = 2", "2: defines a.b a second time, after line 1"},
	{"[a]\n[a]", "2: defines a a second time, after line 1"},
	{"a = 1\n[a]", "2: defines a a second time, after line 1"},
	{"[a]\nb = 1\n[a.b]", "3: defines a.b a second time, after line 2"},
	{"[a]\nb = 1\n[a.b.c]", "3: defines a.b a second time, after line 2"},
	{"[a.b]\n[a]\nb = 1", "3: defines a.b a second time, after line 1"},
	{"a.b = 1\n[a]", "2: defines a a second time, after line 1"},
	{"[a]\nb.c = 1\n[a.b]", "3: defines a.b a second time, after line 2"},
	{"[a]\nb.c = 1\n[a.b.d]", ""},
	{"[a]\nb.c.d = 1\n[a.b.c]", "3: defines a.b.c a second time, after line 2"},
	{"[a.b.c]\n[a]\nb.d = 1", "3: defines a.b a second time, after line 1"},
	{"[a.b]\n[a]\nb.c = 1", "3: defines a.b a second time, after line 1"},

	// Arrays of tables.
	{"[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3\n[[a.e]]\n[[a.e]]\n[[a]]\n[a.c]\nd = 4", ""},
	{"[[a.b]]\n[a]\nc = 1\n[[a.b]]", ""},
	{"[[a]]\nb = 1\nb = 2", "3: defines a[0].b a second time, after line 2"},
	{"[[a]]\n[[a]]\n[a.b]\n[a.b]", "4: defines a[1].b a second time, after line 3"},
	{"a = []\n[[a]]", "2: defines a a second time, after line 1"},
	{"a = [{}]\n[a.b]", "2: defines a a second time, after line 1"},
	{"[a]\n[[a]]", "2: defines a a second time, after line 1"},
	{"[a.b]\n[[a]]", "2: defines a a second time, after line 1"},
	{"a.b = 1\n[[a]]", "2: defines a a second time, after line 1"},
	{"[[a]]\n[a]", "2: defines a a second time, after line 1"},
	{"[[a.b]]\n[a]\nb = 1", "3: defines a.b a second time, after line 1"},
	{"[[a.b]]\n[a]\nb.c = 1", "3: defines a.b a second time, after line 1"},

	// Our own limits.
	{"a.b.c.d.e.f.g.h = 1", ""},
	{"a.b.c.d.e.f.g.h.i = 1", "1: nests deeper than 8 levels"},
	{"[a.b.c.d.e.f.g.h]\ni = 1", "2: nests deeper than 8 levels"},
	{"[a.b.c.d.e.f.g.h.i]", "1: nests deeper than 8 levels"},
	{"a = [[[[[[[1]]]]]]]", ""},
	{"a = [\n[[[[[[[1]]]]]]]]", "2: nests deeper than 8 levels"},
	{"a = [\n[[[[[[[]]]]]]]]", ""},
	{"a = { a = { a = { a = { a = { a = { a = { a = {} } } } } } } }", ""},
	{"a = { a = { a = { a = { a = { a = { a = { a = { a = 1 } } } } } } } }", "1: nests deeper than 8 levels"},
	{strings.Repeat("a", 256) + " = 1", ""},
	{strings.Repeat("a", 257) + " = 1", "1: has a key longer than 256 bytes"},
	{strings.Repeat("a", 254) + ".b = [1]", "1: has a key longer than 256 bytes"},
	{strings.Repeat("a", 253) + "= [1]", ""},
	{`"a\u0062" = 1`, "1: has a key that is written with an escape"},
	{`"\"" = 1`, "1: has a key that is written with an escape"},
	{`a = { b."\t" = 1 }`, "1: has a key that is written with an escape"},
	{`['\a']`, ""},
}

// looser are those of documents that BurntSushi/toml takes although TOML forbids them
// (v1.6.0), and what it makes of them. It was the reader before this one.
var looser = map[string]string{
	"a = { b.c = 1, b = 2 }":         "b = 2 is dropped",
	"a = { b = { c = 1 }, b.d = 2 }": "an inline table is extended",
	"a = {}\n[a.b]":                  "an inline table is extended",
	"a.b = {}\n[a.b.c]":              "an inline table is extended",
	"a = {}\na.b = 1":                "an inline table is extended",
	"a.b = 1\na = 2":                 "a = 2 is dropped",
	"a.b = 1\na = [2]":               "a = [2] is dropped",
	"a.b = 1\n[a]":                   "a table of dotted keys gets a header",
	"[a]\nb.c = 1\n[a.b]":            "a table of dotted keys gets a header",
	"[a]\nb.c.d = 1\n[a.b.c]":        "a table of dotted keys gets a header",
	"[a.b]\n[a]\nb.c = 1":            "a table with a header is extended from elsewhere",
	"[a.b.c]\n[a]\nb.d = 1":          "a table with a header is extended from elsewhere",
	"[[a.b]]\n[a]\nb.c = 1":          "an array of tables is extended from elsewhere",
	"a = 2023-01-01T07:00:00+24:00":  "Go's package time takes this offset",
	"a = 2023-01-01T07:00:00+00:60":  "Go's package time takes this offset",
}

func TestDocuments(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range documents {
		if seen[d.text] {
			t.Errorf("%q stands twice", d.text)
		}
		seen[d.text] = true
		table, problem := ours([]byte(d.text))
		if problem != d.want {
			t.Errorf("%q: %q, want %q", d.text, problem, d.want)
		}
		for _, o := range oracles {
			theirs, err := o.read([]byte(d.text))
			switch {
			case ownLimit(d.want):
				if err != nil {
					t.Errorf("%q is more than a limit of ours: %s refuses it too: %v", d.text, o.name, err)
				}
			case d.want == "" && err != nil:
				t.Errorf("%q: %s refuses it: %v", d.text, o.name, err)
			case d.want == "":
				if diff := differ(table, theirs); diff != "" {
					t.Errorf("%q: %s reads something else:\n%s", d.text, o.name, diff)
				}
			case (err == nil) != (o.name == "BurntSushi/toml" && looser[d.text] != ""):
				t.Errorf("%q: %s: %v %v", d.text, o.name, err, theirs)
			}
		}
	}
	for text := range looser {
		if !seen[text] {
			t.Errorf("%q is an exception for nothing", text)
		}
	}
}

// What a person wrote into the corpus and the examples means the same to all readers.
func TestReadersAgree(t *testing.T) {
	docs := append(corpus(t, "good"), corpus(t, "bad")...)
	examples, err := filepath.Glob("../examples/profiles/*.toml")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, name := range examples {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, document{name: name, data: data})
	}
	looser := map[string]string{
		"syntax-twice-header-dotted": "a table of dotted keys gets a header",
		"syntax-twice-inline-dotted": "an inline table is extended",
		"syntax-twice-reopened":      "a table with a header is extended from elsewhere",
		"syntax-twice-replaced":      "one of two definitions is dropped",
		"syntax-utf16-mark-only":     "the mark of UTF-16 is dropped",
	}
	for _, d := range docs {
		table, problem := ours(d.data)
		for _, o := range oracles {
			theirs, err := o.read(d.data)
			if ownLimit(problem) {
				continue
			}
			except := o.name == "BurntSushi/toml" && looser[d.name] != ""
			if (problem == "") != (err == nil) != except {
				t.Errorf("%s: ours %q, %s %v", d.name, problem, o.name, err)
			} else if diff := differ(table, theirs); problem == "" && diff != "" {
				t.Errorf("%s: %s reads something else:\n%s", d.name, o.name, diff)
			}
		}
	}
}

// suite are the documents of github.com/toml-lang/toml-test, in order.
func suite(t testing.TB) (files fs.FS, names []string) {
	files = tomltest.TestCases()
	for _, kind := range []string{"valid", "invalid"} {
		err := fs.WalkDir(files, kind, func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, ".toml") {
				names = append(names, strings.TrimSuffix(name, ".toml"))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files, names
}

func read(t testing.TB, files fs.FS, name string) []byte {
	t.Helper()
	data, err := fs.ReadFile(files, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The reader takes every valid document of the suite of TOML 1.0 and 1.1 with its value,
// and refuses every invalid one.
func TestSuite(t *testing.T) {
	const (
		limit  = "more than a limit of ours"
		escape = "a key is written with an escape, which we refuse"
		later  = "forbidden in TOML 1.0, allowed in 1.1"
	)
	except := map[string]string{
		"valid/inline-table/key-dotted-02": limit,
		"valid/key/escapes":                escape,
		"valid/key/quoted-dots":            escape,
		"valid/key/quoted-unicode":         escape,
		"valid/key/space":                  escape,

		"invalid/datetime/no-secs":            later,
		"invalid/inline-table/linebreak-01":   later,
		"invalid/inline-table/linebreak-02":   later,
		"invalid/inline-table/linebreak-03":   later,
		"invalid/inline-table/linebreak-04":   later,
		"invalid/inline-table/trailing-comma": later,
		"invalid/local-datetime/no-secs":      later,
		"invalid/local-time/no-secs":          later,
		"invalid/string/basic-byte-escapes":   later,
	}
	files, names := suite(t)
	ofVersion := strings.Fields(string(read(t, files, "files-toml-1.1.0")))
	for _, name := range names {
		table, problem := ours(read(t, files, name+".toml"))
		valid, why := strings.HasPrefix(name, "valid/"), except[name]
		delete(except, name)
		switch {
		case why == later && slices.Contains(ofVersion, name+".toml"):
			t.Errorf("%s: is invalid in TOML 1.1 too", name)
		case valid && why != "" && !ownLimit(problem):
			t.Errorf("%s: %s, but got %q", name, why, problem)
		case (problem == "") != (valid == (why == "")):
			t.Errorf("%s: %q", name, problem)
		case valid && why == "":
			var want map[string]any
			if err := json.Unmarshal(read(t, files, name+".json"), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(untagged(t, want), plain(table), cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
				t.Errorf("%s: another value:\n%s", name, diff)
			}
		}
	}
	if len(names) < 700 || len(except) > 0 {
		t.Errorf("%d documents, exceptions for none of them: %v", len(names), except)
	}
}

// untagged is a value of the suite, {"type": "integer", "value": "1"}, in the form of ours.
func untagged(t *testing.T, v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = untagged(t, v[i])
		}
	case map[string]any:
		kind, tagged := v["type"].(string)
		text, also := v["value"].(string)
		if !tagged || !also {
			for k := range v {
				v[k] = untagged(t, v[k])
			}
			return v
		}
		var value any
		var err error
		switch kind {
		case "string":
			value = text
		case "bool":
			value, err = strconv.ParseBool(text)
		case "integer":
			value, err = strconv.ParseInt(text, 10, 64)
		case "float":
			value, err = strconv.ParseFloat(text, 64)
		case "datetime", "datetime-local", "date-local", "time-local":
			value = date("")
		default:
			t.Fatalf("the suite has values of type %q", kind)
		}
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	return v
}

// Every key and every element of a list is on the line that it begins on, and
// a key that comes again on its first.
func TestLines(t *testing.T) {
	_, lines, problem := decode([]byte(`a = 1 # one
  b . c =  [ # [ two
    [],
    """
# no comment, = , no ]
""", 'x', [ # six

      [
      ],
      { d . e = { f = 1 } ,

        g = [ # no = nor ]
        ] },
    ]
]
[ h . i ] # '
j = '''

'''
k = ""
[[l]]
m = 1
[[l]]
m = [ 1979-05-27 07:32:00Z,
  nan, true
]
n.o = 0
n.p = 0
"q.r" = 0
`))
	if problem != nil {
		t.Fatal(problem)
	}
	want := map[string]int{
		"a": 1, "b": 2, "b.c": 2, "b.c[0]": 3, "b.c[1]": 4, "b.c[2]": 6, "b.c[3]": 6, "b.c[3][0]": 8, "b.c[3][1]": 10,
		"b.c[3][1].d": 10, "b.c[3][1].d.e": 10, "b.c[3][1].d.e.f": 10, "b.c[3][1].g": 12,
		"h": 16, "h.i": 16, "h.i.j": 17, "h.i.k": 20,
		"l": 21, "l[0]": 21, "l[0].m": 22, "l[1]": 23, "l[1].m": 24, "l[1].m[0]": 24, "l[1].m[1]": 25, "l[1].m[2]": 25,
		"l[1].n": 27, "l[1].n.o": 27, "l[1].n.p": 28, "l[1].q.r": 29,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
}
