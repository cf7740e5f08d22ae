package probe

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func document(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The rows of docs/check.md are the cases, in their order, and every verdict is explained.
func TestDocumented(t *testing.T) {
	text := document(t, "check.md")
	_, table, _ := strings.Cut(text, "## The rows")
	table, _, _ = strings.Cut(table, "\n## ")
	var rows []string
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`).FindAllStringSubmatch(table, -1) {
		rows = append(rows, m[1])
	}
	if len(rows) != len(cases)+1 {
		t.Fatalf("%d rows in docs/check.md, %d cases", len(rows)-1, len(cases))
	}
	for i, c := range cases {
		if rows[i+1] != c.Name {
			t.Errorf("row %d is %q, want %q", i+1, rows[i+1], c.Name)
		}
	}
	for _, v := range []Verdict{Held, Breached, Unproven, Limit} {
		if !strings.Contains(text, "| `"+string(v)+"` |") {
			t.Errorf("the verdict %s is not explained", v)
		}
	}
}

// What a row calls a limit is stated in docs/limits.md.
func TestLimitsAreStated(t *testing.T) {
	words := map[string]string{
		"truncate": "| 3 | **truncate(2)**", "signal": "| 6 | **signals**", "abstract": "**abstract sockets**", "socket": "| 9 | **pathname Unix sockets**",
		"passed": "**Descriptors 0, 1 and 2**, and those of `--keep-fd`", "metadata": "**Metadata.**", "existence": "**Existence.**",
	}
	text := document(t, "limits.md")
	for _, c := range cases {
		if c.Since == 0 {
			continue
		}
		if words[c.Key] == "" || !strings.Contains(text, words[c.Key]) || c.why == "" {
			t.Errorf("%s is a limit, and docs/limits.md does not say %q", c.Key, words[c.Key])
		}
	}
}

// What is judged of an attempt, case by case.
func TestJudge(t *testing.T) {
	plain, limited, must := caseOf("write"), caseOf("socket"), caseOf("environment")
	for _, tt := range []struct {
		name    string
		c       *Case
		control string
		a       *answer
		changed bool
		abi     int
		want    Verdict
	}{
		{"no control", plain, "EROFS", &answer{Errno: 13}, false, 7, Unproven},
		{"no control, and it succeeds", plain, "EROFS", &answer{OK: true}, false, 7, Unproven},
		{"no answer", plain, "", nil, false, 7, Unproven},
		{"no answer, and the outside has changed", plain, "", nil, true, 7, Breached},
		{"success", plain, "", &answer{OK: true}, false, 7, Breached},
		{"it says denied, and the outside has changed", plain, "", &answer{Errno: 13, Text: "EACCES"}, true, 7, Breached},
		{"open at this ABI", limited, "", &answer{OK: true}, false, 8, Limit},
		{"should be confined at this ABI", limited, "", &answer{OK: true}, false, 9, Breached},
		{"set-up failed", plain, "", &answer{Text: "no file"}, false, 7, Unproven},
		{"arrives", must, "", &answer{OK: true}, false, 7, Held},
		{"does not arrive", must, "", &answer{Text: "changed"}, false, 7, Breached},
	} {
		if got := tt.c.judge(tt.control, tt.a, tt.changed, tt.abi); got.Verdict != tt.want || got.Name != tt.c.Name {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
	if r := (&Report{}); r.Proven() {
		t.Error("an empty report proves something")
	}
}
