package seatbelt

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/enforce"
	examples "github.com/confinectl/confinectl/examples/profiles"
	"github.com/confinectl/confinectl/internal/sbpleval"
	"github.com/confinectl/confinectl/loader"
	"github.com/confinectl/confinectl/resolve"
)

var update = flag.Bool("update", false, "write the golden files")

// Every example renders, both evaluators read it, and it means what the
// profile says. The text of one is kept, so that a change is seen.
func TestExamples(t *testing.T) {
	here := paperFacts()
	here.Cwd = model.home + "/repo"
	ld := &loader.Loader{Layers: loader.SearchPath(&resolve.Facts{OS: "linux", UID: os.Getuid()}, examples.FS, []string{}), UID: os.Getuid()}
	ld.Layers = ld.Layers[len(ld.Layers)-1:] // only what is built in
	listed, err := ld.List()
	if err != nil || len(listed) < 8 {
		t.Fatal(listed, err)
	}
	for _, e := range listed {
		t.Run(e.Name, func(t *testing.T) {
			p, err := ld.Load(e.Name)
			if err != nil {
				t.Fatal(err)
			}
			r := resolve.Request{}
			if p.Policy.Common.PermitPath.Text == "" {
				r.PermitPath = model.home + "/repo"
			}
			b, err := resolve.Resolve(p.Policy, here, r)
			if err != nil {
				t.Fatal(err)
			}
			s, err := enforce.Seatbelt(b)
			if err != nil {
				t.Fatal(err)
			}
			yes, no := func(op, path string) expectation { return expectation{op, path, true} }, func(op, path string) expectation { return expectation{op, path, false} }
			want := []expectation{
				yes("file-write-data", "/Users/me/repo/f"), yes("file-read-data", "/Users/me/repo/f"), yes("process-exec*", "/usr/bin/git"),
				no("file-write-unlink", "/Users/me/repo"), no("file-read-data", "/Users/me/.ssh/id_ed25519"), no("file-write-data", "/Users/me/.zshrc"),
				no("file-write-create", "/Users/me/x"), no("file-read-data", "/Users/me/Documents/x"), no("network-outbound", "/private/var/run/docker.sock"),
			}
			if e.Name == "claude-cli" {
				want = append(want, yes("file-write-create", "/Users/me/.claude/x"), yes("file-write-data", "/Users/me/.claude.json"), no("file-write-create", "/Users/me/.claude.json"),
					no("file-write-create", "/Users/me/.claude.json.tmp"), yes("file-read-data", "/Users/me/Library/Keychains/login.keychain-db"),
					yes("file-read-data", "/Library/Keychains/System.keychain"), yes("file-write-create", "/private/tmp/claude-501/x"))
			}
			var queries []sbpleval.Query
			for _, w := range want {
				queries = append(queries, sbpleval.Query{Op: w.op, Path: w.path})
			}
			for name, answer := range map[string]func([]sbpleval.Query) ([]bool, error){"go": byGo(s.Profile, params(s)), "tinyscheme": byScheme(t, s.Profile, params(s))} {
				got, err := answer(queries)
				if name == "tinyscheme" && !needScheme(t, err) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				for i, w := range want {
					if got[i] != w.allowed {
						t.Errorf("%s: %s %s: %t", name, w.op, w.path, got[i])
					}
				}
			}
			if e.Name == "claude-cli" {
				golden(t, e.Name+".sb", s.Text())
			}
		})
	}
}

type expectation struct {
	op, path string
	allowed  bool
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs (go test ./test/seatbelt -run TestExamples -update): -golden +rendered\n%s", name, diff)
	}
}
