package profiles

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/confinectl/confinectl/resolve"
)

const schemaFile = "../docs/profile.schema.json"

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	s, err := c.Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a document as an editor shows it to the schema: a date is a string there.
func instance(t testing.TB, data []byte) any {
	t.Helper()
	table, _, problem := decode(data)
	if problem != nil {
		t.Fatal(problem)
	}
	var dates func(v any) any
	dates = func(v any) any {
		switch v := v.(type) {
		case date:
			return string(v)
		case map[string]any:
			for k := range v {
				v[k] = dates(v[k])
			}
		case []any:
			for i := range v {
				v[i] = dates(v[i])
			}
		}
		return v
	}
	return dates(table)
}

// The schema takes every good document and refuses every bad one, but for faults
// of syntax, which it never sees, and those that the corpus marks.
func TestSchemaAgreesWithParser(t *testing.T) {
	schema := compileSchema(t)
	for _, d := range corpus(t, "good") {
		if err := schema.Validate(instance(t, d.data)); err != nil {
			t.Errorf("good/%s: the schema refuses it: %v", d.name, err)
		}
	}
	var blind []string
	for _, d := range corpus(t, "bad") {
		if strings.HasPrefix(d.name, "syntax-") {
			continue
		}
		err := schema.Validate(instance(t, d.data))
		switch {
		case err == nil && d.blind == "":
			t.Errorf("bad/%s: the schema takes it", d.name)
		case err != nil && d.blind != "":
			t.Errorf("bad/%s: the schema refuses it, although %s: %v", d.name, d.blind, err)
		}
		if d.blind != "" {
			blind = append(blind, d.name)
		}
	}
	// The whole list of what the schema cannot say. A new entry needs a reason.
	if want := []string{"value-date-description", "value-float"}; !slices.Equal(blind, want) {
		t.Errorf("faults that the schema cannot see: %q, want %q", blind, want)
	}
}

// A bad document is refused at its first fault by the schema, which could hide that it
// is blind to the second. So every fault of a value is also tried alone.
func TestSchemaSeesEveryFault(t *testing.T) {
	schema := compileSchema(t)
	for _, d := range corpus(t, "bad") {
		if !strings.HasPrefix(d.name, "value-") || d.blind != "" {
			continue
		}
		_, err := Parse("name", "FILE", d.data)
		for _, subject := range subjects(t, err) {
			if subject == "extends" || strings.HasPrefix(subject, "extends[") {
				continue // one entry alone is not a list with one twice
			}
			table := instance(t, d.data).(map[string]any)
			alone := only(table, subject)
			if alone == nil {
				continue
			}
			if schema.Validate(alone) == nil {
				t.Errorf("bad/%s: the schema takes %s alone: %v", d.name, subject, alone)
			}
		}
	}
}

func subjects(t testing.TB, err error) []string {
	t.Helper()
	rs, ok := err.(resolve.Refusals)
	if !ok {
		t.Fatalf("want resolve.Refusals, got %T: %v", err, err)
	}
	var out []string
	for _, r := range rs {
		out = append(out, r.Subject)
	}
	return out
}

// only is the document with nothing but what subject names.
func only(table map[string]any, subject string) map[string]any {
	path := strings.Split(subject, ".")
	if table["set_env"] != nil && path[0] == "set_env" && len(path) > 1 {
		path = []string{"set_env", strings.TrimPrefix(subject, "set_env.")}
	}
	name, index, isElement := strings.Cut(path[0], "[")
	v := table[name]
	if len(path) > 1 {
		inner, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		return map[string]any{name: only(inner, strings.Join(path[1:], "."))}
	}
	if isElement {
		list := v.([]any)
		var i int
		for _, c := range strings.TrimSuffix(index, "]") {
			i = i*10 + int(c-'0')
		}
		return map[string]any{name: []any{list[i]}}
	}
	return map[string]any{name: v}
}

// samples has a valid value for every key there is.
var samples = map[string]string{
	"description": `"x"`, "extends": `["base"]`,
	"permit_path": `"/a"`, "permit_extra_subpaths": `["+/a"]`, "read_paths": `["-/a"]`, "permit_files": `["/a"]`,
	"unix_sockets": `["/a"]`, "runtime": `"none"`, "pty": `true`, "private_tmp": `true`,
	"agent_scratch": `{ agent = "a" }`, "set_env": `{ A = "b" }`, "min_abi": `3`,
	"audit": `true`, "mach_lookup": `["a"]`,
	"linux": `{}`, "darwin": `{}`,
}

// A key is known to the parser in a table exactly if the schema has it there.
// The parser's keys are the fields of resolve.Keys.
func TestSchemaHasTheKeysOfTheParser(t *testing.T) {
	schema := compileSchema(t)
	keys := map[string]bool{"description": true, "extends": true, "linux": true, "darwin": true}
	for f := range reflect.TypeFor[resolve.Keys]().Fields() {
		keys[snake(f.Name)] = true
	}
	tables := map[string]*jsonschema.Schema{"": schema, "linux": schema.Properties["linux"].Ref, "darwin": schema.Properties["darwin"].Ref}
	for _, s := range tables {
		for key := range s.Properties {
			keys[key] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		prefix := name
		if name != "" {
			prefix += "."
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			sample, ok := samples[key]
			if !ok {
				t.Fatalf("no sample for key %s", key)
			}
			_, err := Parse("name", "FILE", []byte(prefix+key+" = "+sample+"\n"))
			p, inSchema := tables[name].Properties[key]
			if known := err == nil; known != inSchema {
				t.Errorf("%s%s: known to the parser: %v (%v), in the schema: %v", prefix, key, known, err, inSchema)
			}
			if inSchema && p.Description == "" && p.Ref.Description == "" {
				t.Errorf("%s%s has no description in the schema", prefix, key)
			}
		}
	}
	if len(samples) != len(keys) {
		t.Errorf("%d samples for %d keys", len(samples), len(keys))
	}
	// The names that the schema refuses as variables are the keys of the top level.
	not := schema.Properties["set_env"].Ref.PropertyNames.Not.Enum.Values
	for key := range keys {
		_, err := Parse("name", "FILE", []byte("set_env."+key+` = "x"`))
		if refused := slices.Contains(not, any(key)); refused != (err != nil) {
			t.Errorf("set_env.%s: the parser says %v, the schema refuses it: %v", key, err, refused)
		}
	}
}

// snake spells the name of a Go field as the key: PermitPath permit_path, MinABI min_abi.
func snake(s string) string {
	var b strings.Builder
	for i, c := range s {
		if i > 0 && unicode.IsUpper(c) && unicode.IsLower(rune(s[i-1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// Patterns must mean the same to every validator: nothing that only one regular
// expression dialect has.
func TestSchemaPatternsArePortable(t *testing.T) {
	data, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"(?=", "(?!", "(?<", `\\p`, `\\x`, `\\u`, `\\z`, `\\A`} {
		if bytes.Contains(data, []byte(s)) {
			t.Errorf("the schema has %s", s)
		}
	}
	for i, b := range data {
		if b >= 0x80 {
			t.Fatalf("byte %d is not ASCII", i)
		}
	}
}
