// Package testenv is what tests ask of the machine that they run on, and of go test.
package testenv

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Need ends a test where this machine has not what it needs. Under CI=true that is a
// failure: the gate installs all that the tests need, and a skip would hide what is missing.
func Need(t testing.TB, ok bool, what string) {
	t.Helper()
	switch {
	case ok:
	case os.Getenv("CI") == "true":
		t.Fatalf("this host has not: %s", what)
	default:
		t.Skipf("NOT TESTED: this host has not: %s", what)
	}
}

// LookAtSources looks at every source file of the module, for a test in a directory of test/
// that builds or lists a program of it: go test keeps a result until a file changes that the
// test looked at, and does not see what the go command looks at.
func LookAtSources(t testing.TB) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && (strings.HasSuffix(path, ".go") || d.Name() == "go.mod") {
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
