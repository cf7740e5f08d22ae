package loader

import (
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

func TestDarwinTmp(t *testing.T) {
	for path, want := range map[string]bool{
		"/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/": true, "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T": true,
		"/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/C/": false, "/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/x": false,
		"/tmp": false, "": false, "/var/folders/zz/../../tmp/T": false, "/var/folders/zz/../T": false, "/var/folders/zz/short/T": false,
		"/Users/me/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T": false, "var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T": false,
	} {
		if darwinTmp(path) != want {
			t.Errorf("%q: %t", path, !want)
		}
	}
}

func TestPaperFacts(t *testing.T) {
	here := &resolve.Facts{OS: "linux", UID: 1000, Home: "/home/ann", Cwd: "/home/ann/src/x", ConfigHome: "/elsewhere", RuntimeDir: "/run/user/1000", Terminals: []string{"/dev/pts/0"},
		User: func() string { return "ann" }, Env: []string{"A=1"}}
	f := PaperFacts(here, "darwin")
	if !f.OnPaper || f.OS != "darwin" || f.Home != "/Users/ann" || f.Cwd != "/Users/ann/src/x" || f.ConfigHome != "/Users/ann/.config" || f.RuntimeDir != "" ||
		f.Terminals != nil || f.TmpRoot != "/private/tmp" || !darwinTmp(f.UserTmp()) || len(f.Env) != 1 {
		t.Errorf("%+v", f)
	}
	if here.OnPaper || here.Home != "/home/ann" {
		t.Error("the facts of this host were changed")
	}
	if f := PaperFacts(&resolve.Facts{OS: "darwin", UID: 0, Home: "/private/var/root", Cwd: "/x"}, "linux"); f.Home != "/root" || f.TmpRoot != "/tmp" || f.Cwd != "/x" {
		t.Errorf("%+v", f)
	}
}
