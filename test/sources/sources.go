// Package sources keeps go test from taking an old result for a new one.
package sources

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Look looks at every source file of the module, for a test in a directory of test/
// that builds or lists a program of it: go test keeps a result until a file changes that the
// test looked at, and does not see what the go command looks at.
func Look(t testing.TB) {
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
