package profiles

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/confinectl/confinectl/resolve"
)

// equal compares two profiles and leaves origins and file names aside, and
// whether an empty list was written.
func equal(a, b *Profile) bool { return diff(a, b) == "" }

func diff(a, b *Profile) string {
	return cmp.Diff(a, b, cmpopts.IgnoreTypes(resolve.Origin{}), cmpopts.IgnoreFields(Profile{}, "File"), cmpopts.EquateEmpty())
}

func TestPrint(t *testing.T) {
	p, err := Parse("name", "FILE", []byte(`
extends = ["base", "more"]
description = "say \"so\""
private_tmp = true
pty = false
set_env = { B = "two\nlines", A = "tab\tand\u001b\u202e" }
[darwin]
mach_lookup = ["com.apple.x"]
[linux]
agent_scratch = { provision = false, agent = "a" }
audit = true
read_paths = ['/back\slash']
[linux.set_env]
C = ""
`))
	if err != nil {
		t.Fatal(err)
	}
	const want = `description = "say \"so\""
extends = [
    "base",
    "more",
]
pty = false
private_tmp = true
set_env = { A = "tab\tand\u001b\u202e", B = "two\nlines" }

[linux]
read_paths = ["/back\\slash"]
agent_scratch = { agent = "a" }
set_env = { C = "" }
audit = true

[darwin]
mach_lookup = ["com.apple.x"]
`
	if d := cmp.Diff(want, string(Print(p))); d != "" {
		t.Error(d)
	}
	if got := Print(&Profile{}); len(got) != 0 {
		t.Errorf("an empty profile prints %q", got)
	}
}
