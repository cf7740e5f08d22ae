package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// notOnLinux are the codes that no script can bring about, and why.
var notOnLinux = map[resolve.Code]string{
	resolve.AlreadyConfined: "only Seatbelt cannot nest; Landlock adds a layer",
}

// scripts gives the text of every script by name.
func scripts(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts: ", err)
	}
	texts := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(string(data), "\n-- ")
		texts[filepath.Base(f)] = text
	}
	return texts
}

// TestEveryCodeHasAScript keeps the catalogue of refusals and the scripts in step.
func TestEveryCodeHasAScript(t *testing.T) {
	expected := map[resolve.Code]bool{}
	for name, text := range scripts(t) {
		for _, m := range regexp.MustCompile(`(?m)^(?:\[[^\]]*\] )*refused (\S+) `).FindAllStringSubmatch(text, -1) {
			code := resolve.Code(m[1])
			if !slices.Contains(resolve.Codes(), code) {
				t.Errorf("%s expects %s, which is not in the catalogue", name, code)
			}
			expected[code] = true
		}
	}
	for _, code := range resolve.Codes() {
		if why := notOnLinux[code]; expected[code] == (why != "") {
			t.Errorf("%s: a script expects it: %t; listed as impossible here: %q", code, expected[code], why)
		}
	}
}

// TestEveryCodeIsDocumented keeps the catalogue and docs/refusals.md in step.
func TestEveryCodeIsDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/refusals.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[resolve.Code]bool{}
	for _, m := range regexp.MustCompile("(?m)^### `?([a-z-]+)`?$").FindAllStringSubmatch(string(data), -1) {
		code := resolve.Code(m[1])
		if documented[code] {
			t.Errorf("%s has two sections", code)
		}
		if !slices.Contains(resolve.Codes(), code) {
			t.Errorf("%s has a section and is not in the catalogue", code)
		}
		documented[code] = true
	}
	for _, code := range resolve.Codes() {
		if !documented[code] {
			t.Errorf("%s has no section in docs/refusals.md", code)
		}
	}
}

// noScript are the public reports that have no script here, and why. All numbers
// from 1 to 96 but those of noReport have a "# case N" in a script or a line here.
var noScript = map[int]string{
	13: "a socket rule of Seatbelt: belongs to the macOS arm",
	71: "about the tests themselves: every `denied` has its control, and fails when nothing is confined",
	72: "characters pushed into the caller's terminal: a documented limit, measured by test/escapes",
}

// noReport are numbers that no report has.
var noReport = []int{17, 22, 54, 63, 67, 78, 80, 85}

// TestEveryReport keeps a public bug report that became a script from falling out.
func TestEveryReport(t *testing.T) {
	where := map[int]string{}
	for name, text := range scripts(t) {
		for _, m := range regexp.MustCompile(`(?m)^# case ([0-9]+):? ?`).FindAllStringSubmatch(text, -1) {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			where[n] = name
		}
	}
	for n := 1; n <= 96; n++ {
		_, covered := where[n]
		_, excused := noScript[n]
		switch none := slices.Contains(noReport, n); {
		case none && (covered || excused):
			t.Errorf("report %d does not exist, and is mentioned", n)
		case covered && excused:
			t.Errorf("report %d is in %s, and is listed as having no script", n, where[n])
		case !none && !covered && !excused:
			t.Errorf("report %d has no script and no reason", n)
		}
		delete(where, n)
	}
	for n, name := range where {
		t.Errorf("%s names report %d, which does not exist", name, n)
	}
}

// TestNothingHidden: no command and no flag exists that the help does not show,
// and none has a name that promises less than the whole boundary.
func TestNothingHidden(t *testing.T) {
	c := &cli{args: []string{"confinectl"}, errorFormat: "text"}
	weak := regexp.MustCompile(`(?i)unconfined|best.?effort|force|insecure|disable|ignore|permissive|no-(sandbox|confine|landlock)`)
	help := func(words ...string) string {
		var out strings.Builder
		if err := c.program().Run(append([]string{"help"}, words...), &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	commands := c.program().Commands
	if len(commands) == 0 {
		t.Fatal("no commands")
	}
	for _, known := range commands {
		cmd := known.New()
		if cmd.Name() != known.Name || weak.MatchString(known.Name) || !strings.Contains(help(), "\n  "+known.Name+" ") {
			t.Errorf("command %s, which calls itself %s", known.Name, cmd.Name())
		}
		flags := 0
		cmd.Flags.VisitAll(func(f *flag.Flag) {
			flags++
			if cmd.Name() == "check" && f.Name == "no-measure" {
				return // it says less; what is enforced is the same
			}
			if f.Usage == "" || weak.MatchString(f.Name) || !strings.Contains(help(known.Name), "\n      --"+f.Name+" ") {
				t.Errorf("%s --%s", cmd.Name(), f.Name)
			}
		})
		if flags == 0 {
			t.Errorf("%s has no flags", cmd.Name())
		}
	}
}
