package profiles

import (
	"os"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// Every example of the manual is a profile, and the manual has every key.
func TestManual(t *testing.T) {
	data, err := os.ReadFile("../docs/profile.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(data)
	schema := compileSchema(t)
	examples := map[string]*Profile{}
	blocks := strings.Split(manual, "\n```toml\n")[1:]
	for _, block := range blocks {
		text, _, closed := strings.Cut(block, "```\n")
		p, err := Parse("example", "docs/profile.md", []byte(text))
		if err != nil || !closed {
			t.Fatalf("an example is refused: %v\n%s", err, text)
		}
		if err := schema.Validate(instance(t, []byte(text))); err != nil {
			t.Errorf("the schema refuses an example: %v\n%s", err, text)
		}
		first, _, _ := strings.Cut(text, "\n")
		examples[first] = p
	}
	if len(examples) != 3 {
		t.Errorf("%d examples, want 3", len(examples))
	}
	for key := range samples {
		if !strings.Contains(manual, "`"+key+"`") && !strings.Contains(manual, "."+key+"`") {
			t.Errorf("key %s is not in the manual", key)
		}
	}
	if base, child := examples["# agent-base.toml"], examples["# claude.toml"]; base == nil || child == nil {
		t.Error("the example of merging is gone")
	} else if k := Merge([]*Profile{base}, child, nil).Policy.Common; k.MinABI.N != 4 || k.PrivateTmp.On || len(k.ReadPaths) != 2 {
		t.Errorf("the example of merging comes to %+v, not to what its comments say", k)
	}

	// The messages that the manual shows.
	_, err = Parse("claude", "/etc/confinectl/profiles/claude.toml", []byte("\n\npermit_path = \"./in\"\n\n\n\n\n\nminabi = 6\n"))
	rs, _ := err.(resolve.Refusals)
	for _, r := range rs {
		if !strings.Contains(manual, "\n"+r.Error()+"\n") {
			t.Errorf("the manual does not show %q", r.Error())
		}
	}
	if len(rs) != 2 {
		t.Errorf("%d problems, want 2: %v", len(rs), err)
	}
}
