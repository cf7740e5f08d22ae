//go:build linux || darwin

package enforce

import (
	"os"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// Two launches can make the same directory: whoever comes second takes the one that is there.
func TestMakeInTakesWhatIsThere(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for range 2 {
		if refusal := makeIn(int(dir.Fd()), "new", resolve.Rule{Path: dir.Name() + "/new"}); refusal != nil {
			t.Error(refusal)
		}
	}
	if st, err := os.Stat(dir.Name() + "/new"); err != nil || st.Mode() != os.ModeDir|0o700 {
		t.Error(st, err)
	}
}
