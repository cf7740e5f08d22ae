package findings

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docs/check.md lists every code with the sentence that reports print.
func TestDocumented(t *testing.T) {
	data, err := os.ReadFile("../docs/check.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(data), "## Findings")
	text, _, _ = strings.Cut(text, "\n## ")
	var documented []Code
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| [^|]+ \\|$").FindAllStringSubmatch(text, -1) {
		documented = append(documented, Code(m[1]))
		if c := Code(m[1]); c.Why() != m[2] {
			t.Errorf("%s: the document says %q, the program %q", c, m[2], c.Why())
		}
	}
	if !slices.Equal(documented, Codes()) {
		t.Errorf("documented: %v\nin the program: %v", documented, Codes())
	}
	for _, c := range Codes() {
		if c.Why() == "" || strings.HasSuffix(c.Why(), ".") {
			t.Errorf("%s: %q", c, c.Why())
		}
	}
}

func TestHooksPath(t *testing.T) {
	for config, want := range map[string]string{
		"":                                     "",
		"[core]\n\thooksPath = hooks\n":        "hooks",
		"[Core]\n hookspath=\"/a b\"\n":        "/a b",
		"[user]\n hooksPath = x\n":             "",
		"[core]\n bare = true\n[alias]\nx = y": "",
	} {
		if got := hooksPath(config); got != want {
			t.Errorf("%q: %q, want %q", config, got, want)
		}
	}
}

func TestEnds(t *testing.T) {
	for _, c := range []struct {
		path, end string
		want      bool
	}{
		{"/h/.bashrc", ".bashrc", true}, {"/h/x.bashrc", ".bashrc", false}, {".bashrc", ".bashrc", true},
		{"/h/.ssh/authorized_keys", ".ssh/authorized_keys", true}, {"/h/a.ssh/authorized_keys", ".ssh/authorized_keys", false},
	} {
		if got := ends(c.path, c.end); got != c.want {
			t.Errorf("%s ends with %s: %t", c.path, c.end, got)
		}
	}
}

func TestSort(t *testing.T) {
	got := Sort([]Finding{New(OptionalMissing, "b", ""), New(HardLink, "z", ""), New(HardLink, "a", "it has 2 names"), New(HardLink, "a", "")})
	if len(got) != 3 || got[0].Path != "a" || got[1].Path != "z" || got[2].Code != OptionalMissing || !strings.HasPrefix(got[0].Detail, "it has 2 names: the file has another name") {
		t.Errorf("%+v", got)
	}
}
