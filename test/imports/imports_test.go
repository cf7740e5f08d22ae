// Package imports holds the import table of docs/architecture.md: which package
// may know which. It is a test because nothing else keeps such a table true.
package imports

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/test/testenv"
)

const module = "github.com/confinectl/confinectl"

// mayImport lists, for every package of the program, the packages of this
// project and the third-party packages that it may import directly.
var mayImport = map[string][]string{
	"resolve":  {"github.com/go-json-experiment/json/jsontext"},
	"profiles": {"resolve", "github.com/pelletier/go-toml/v2/unstable"},
	"loader":   {"resolve", "profiles", "golang.org/x/sys/unix", "github.com/fsnotify/fsnotify"},
	"enforce":  {"resolve", "golang.org/x/sys/unix", "github.com/landlock-lsm/go-landlock/landlock/syscall"},
	// The probe talks to its own process inside the boundary, in JSON lines, and starts it by a Plan.
	"enforce/probe": {"resolve", "enforce", "golang.org/x/sys/unix", "encoding/json"},
	// Findings look through the roots of a boundary, and know of arms only an ABI number.
	"findings":          {"resolve", "golang.org/x/sys/unix"},
	"examples/profiles": {},
	"internal/command":  {}, // every launch pays for what it links
	"internal/sbpleval": {}, // it judges what enforce renders, so it must know nothing of it
	"cmd/confinectl": {"resolve", "profiles", "loader", "enforce", "examples/profiles",
		"enforce/probe", "findings", "internal/command", "encoding/json", "github.com/go-json-experiment/json/jsontext", "golang.org/x/sys/unix"},
}

// never are standard packages that a launcher must not carry: they cost start-up
// time, or do what a package of this project does not do.
var never = map[string]string{
	"log": "no package logs", "log/slog": "no package logs", "net/http": "the network is not its business",
	"C": "built without cgo",
	// But where a row of the table has it, for what this program wrote itself.
	"encoding/json": "takes keys twice and bad UTF-8; resolve has the strict reader",
}

func TestImportTable(t *testing.T) {
	testenv.LookAtSources(t)
	for _, goos := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, module+"/...")
		cmd.Env = append(cmd.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list: %v\n%s", err, stderr.Bytes())
		}
		seen := 0
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			pkg := strings.TrimPrefix(fields[0], module+"/")
			if strings.HasPrefix(pkg, "test/") || strings.HasPrefix(pkg+"/", "bench/") {
				continue
			}
			allowed, known := mayImport[pkg]
			if !known {
				t.Errorf("%s: package %s has no row in the table", goos, pkg)
				continue
			}
			seen++
			for _, imp := range fields[1:] {
				if why, bad := never[imp]; bad && !slices.Contains(allowed, imp) {
					t.Errorf("%s: %s imports %s: %s", goos, pkg, imp, why)
				}
				if !strings.Contains(imp, ".") {
					continue // standard library
				}
				if !slices.Contains(allowed, strings.TrimPrefix(imp, module+"/")) {
					t.Errorf("%s: %s may not import %s", goos, pkg, imp)
				}
			}
		}
		if seen != len(mayImport) {
			t.Errorf("%s: %d packages seen, the table has %d", goos, seen, len(mayImport))
		}
	}
}

// TestProgramLinksLittle: every launch pays for what the program links, used or not, with
// initialisation and page faults. Of the 1.5 ms that a Go program takes to start, cobra was measured
// at 0.14 ms, with what it brings, and the json package of go-json-experiment at 0.056 ms. Its jsontext
// costs next to nothing. BurntSushi/toml, an oracle in tests, reads the local time zone at its start: 0.056 ms.
func TestProgramLinksLittle(t *testing.T) {
	testenv.LookAtSources(t)
	linked := func(pkg string) []string {
		out, err := exec.Command("go", "list", "-deps", module+pkg).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(out))
	}
	program := linked("/cmd/confinectl")
	if !slices.Contains(program, module+"/internal/command") || !slices.Contains(program, "flag") {
		t.Fatal("go list does not show what is linked")
	}
	for _, heavy := range []string{"net", "net/netip", "net/url", "net/http", "text/template", "encoding/csv", "log/slog", "crypto/tls", "regexp",
		"github.com/spf13/cobra", "github.com/spf13/pflag", "github.com/go-json-experiment/json", "github.com/BurntSushi/toml", "github.com/pelletier/go-toml/v2"} {
		if slices.Contains(program, heavy) {
			t.Errorf("cmd/confinectl links %s", heavy)
		}
	}
}

// TestNothingInitialised: no package of ours has anything to do at the start of the program. A map
// or a regular expression as a variable of a package would.
func TestNothingInitialised(t *testing.T) {
	testenv.LookAtSources(t)
	program := filepath.Join(t.TempDir(), "confinectl")
	if out, err := exec.Command("go", "build", "-o", program, module+"/cmd/confinectl").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil || !strings.Contains(stderr.String(), "init runtime @") {
		t.Fatalf("no trace: %v\n%s", err, stderr.String())
	}
	for line := range strings.Lines(stderr.String()) {
		if strings.HasPrefix(line, "init main @") || strings.HasPrefix(line, "init "+module) {
			t.Error(line)
		}
	}
}
