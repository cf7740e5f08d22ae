package sbpleval

import (
	"errors"
	"os"
	"strings"
	"testing"
)

const head = "(version 1)\n(deny default)\n"

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "no (deny default)"},
		{"(version 2)(deny default)", "(version 1)"},
		{"(version 1)(allow default)", "(deny default)"},
		{"(deny default)(version 1)", "(version 1)"},
		{head + "(allow file-read*)", "without a filter"},
		{head + "(allow network-outbound)", "without a filter"},
		{head + "(allow mach-lookup)", "without a filter"},
		{head + "(allow process-exec*)", "without a filter"},
		{head + "(allow)", "without an operation"},
		{head + `(allow (literal "/a"))`, "without an operation"},
		{head + "(allow file-reads)", "not known"},
		{head + `(allow file-read* (regex "^/"))`, "not known"},
		{head + `(allow file-read* (global-name "a"))`, "does not go with"},
		{head + `(allow mach-lookup (literal "/a"))`, "does not go with"},
		{head + `(allow file-read* (literal "/a") file-write*)`, "a filter that is none"},
		{head + `(allow file-read* (subpath "/a/"))`, "ends in a slash"},
		{head + `(allow file-read* (subpath "/"))`, "ends in a slash"},
		{head + `(allow file-read* (subpath ""))`, "not absolute"},
		{head + `(allow file-read* (literal "a"))`, "not absolute"},
		{head + `(allow file-read* (literal "/a/../b"))`, "no real path"},
		{head + `(allow file-read* (literal "/a" "/b"))`, "2 arguments"},
		{head + `(allow file-read* (literal (param "X")))`, "has no value"},
		{head + `(allow network-outbound (remote))`, "0 arguments"},
		{head + `(allow network-outbound (remote tcp))`, "remote tcp"},
		{head + `(allow file-read* (require-all))`, "of 0 filters"},
		{head + `(allow file-read* (require-not (literal "/a") (literal "/b")))`, "of 2 filters"},
		{head + `(deny file-read* (literal "/a"))`, "a deny of"},
		{head + `(import "system.sb")`, "the word import"},
		{head + `(allow file-read* (literal "/a\n"))`, "an escape"},
		{head + `(allow file-read* (literal "/\u00e9"))`, "an escape"},
		{head + "(allow file-read* (literal \"/a\x01\"))", "control character"},
		{head + `(allow file-read* (literal "/a)`, "never closed"},
		{head + `(allow file-read* (literal "/a")`, "never closed"},
		{head + `(allow file-read* (literal "/a")))`, "is not read"},
		{head + `(allow file-read* (literal "/a""/b"))`, "after a string"},
		{head + `(allow file-read* (literal #"/a"))`, "is not read"},
		{head + `(allow file-read* (literal '/a))`, "is not read"},
		{head + `(allow file-read* |x|)`, "is not read"},
		{head + "; \xc3\xa9\n", "not ASCII"},
		{head + `(allow file-read* (literal "/` + strings.Repeat("a", 255) + `"))`, "256 bytes"},
		{head + strings.Repeat("(", 12), "more than 8"},
		{"file-read*", "no rule"},
	} {
		if _, err := Parse(c.text, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80q: %v, want %q", c.text, err, c.want)
		}
	}
	for _, p := range [][]Param{{{"A", "/x"}}, {{"A=B", "/x"}}, {{"", "/x"}}, {{"A", "/x"}, {"A", "/y"}}} {
		if _, err := Parse(head, p); err == nil {
			t.Errorf("parameters %v are taken", p)
		}
	}
}

// The accounts of rule order, on texts whose answers were worked out by hand.
func TestAccounts(t *testing.T) {
	for _, c := range []struct {
		rules       string
		q           Query
		apple, last bool
	}{
		{`(allow file-read* (subpath "/a"))`, Query{Op: "file-read-data", Path: "/a/b"}, true, true},
		{`(allow file-read* (subpath "/a"))`, Query{Op: "file-read-data", Path: "/a"}, true, true},
		{`(allow file-read* (subpath "/a"))`, Query{Op: "file-read-data", Path: "/ab"}, false, false},
		{`(allow file-read* (literal "/a"))`, Query{Op: "file-read-data", Path: "/a/b"}, false, false},
		{`(allow file-read* (subpath "/a"))`, Query{Op: "file-write-data", Path: "/a/b"}, false, false},
		{`(allow file-read* (literal "/a"))`, Query{Op: "file-map-executable", Path: "/x"}, true, true},
		{`(allow file-write* (subpath "/a"))`, Query{Op: "file-write-setugid", Path: "/a/b"}, false, false},
		{`(allow sysctl-read)(deny sysctl-read (sysctl-name "x"))`, Query{Op: "sysctl-read", Name: "x"}, false, false},
		{`(allow sysctl-read)(deny sysctl-read (sysctl-name "x"))`, Query{Op: "sysctl-read", Name: "y"}, true, true},
		// Where they differ: the order in the text counts for one, the operation's own list for the other.
		{`(deny sysctl-read (sysctl-name "x"))(allow sysctl-read)`, Query{Op: "sysctl-read", Name: "x"}, false, true},
		{`(allow network-bind (local ip))`, Query{Op: "network-inbound", IP: true}, false, false},
		{`(allow network-inbound (local ip))`, Query{Op: "network-bind", IP: true}, true, true},
		{`(allow network-outbound (remote ip))`, Query{Op: "network-outbound", Path: "/s"}, false, false},
		{`(allow file-write* (require-all (subpath "/a") (require-not (literal "/a"))))`, Query{Op: "file-write-unlink", Path: "/a"}, false, false},
		{`(allow file-write* (require-all (subpath "/a") (require-not (literal "/a"))))`, Query{Op: "file-write-unlink", Path: "/a/b"}, true, true},
		{`(allow file-ioctl (require-all (subpath "/dev") (extension "x")))`, Query{Op: "file-ioctl", Path: "/dev/t"}, false, false},
	} {
		p, err := Parse(head+c.rules, nil)
		if err != nil {
			t.Fatal(err)
		}
		if apple, last := p.apple(c.q), p.lastMatch(c.q); apple != c.apple || last != c.last {
			t.Errorf("%s: %+v: %t %t, want %t %t", c.rules, c.q, apple, last, c.apple, c.last)
		}
		if _, err := p.Allows(c.q); (err != nil) != (c.apple != c.last) {
			t.Errorf("%s: %+v: %v", c.rules, c.q, err)
		}
		got, err := Scheme(t.TempDir(), head+c.rules, nil, []Query{c.q})
		switch {
		case errors.Is(err, ErrNoScheme):
			if os.Getenv("CI") == "true" {
				t.Fatal(err)
			}
			t.Log("not asked of tinyscheme: ", err)
		case c.q.Op == "file-write-setugid": // not in its vocabulary: the default answers
		case c.apple != c.last:
			if err == nil || !strings.Contains(err.Error(), "the two accounts") {
				t.Errorf("tinyscheme: %s: %+v: %v", c.rules, c.q, err)
			}
		case err != nil || got[0] != c.apple:
			t.Errorf("tinyscheme: %s: %+v: %v %v, want %t", c.rules, c.q, got, err, c.apple)
		}
	}
}

// What is no program, or one with an unknown word, is never an answer.
func TestSchemeRefuses(t *testing.T) {
	for _, text := range []string{
		head + `(allow file-read* (literal "/a")`, head + `(allow nothing-known (literal "/a"))`, head + `(allow file-read* (nothing "/a"))`,
		head + `(allow file-read* (literal "` + strings.Repeat("a", 256) + `"))`, `(deny default)`, `(version 2)`, head + `(allow file-read* (literal (param "X")))`,
	} {
		if got, err := Scheme(t.TempDir(), text, nil, []Query{{Op: "file-read-data", Path: "/b"}}); err == nil {
			t.Errorf("%.60q: %v", text, got)
		}
	}
}

func TestFakeFS(t *testing.T) {
	fs, err := NewFakeFS("F /Users\nl /tmp -> private/tmp\nf /private/tmp/f\nf /Users/me/Work/f\nl /Users/me/up -> ../me/Work\nl /a -> /b\nl /b -> /a\nf /Users/me/Caf\u00e9\n")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/tmp/f": "/private/tmp/f", "/users/ME/work/F": "/Users/me/Work/f", "/System/Volumes/Data/Users/me/Work/f": "/Users/me/Work/f",
		"/Users/me/up/f": "/Users/me/Work/f", "/Users/me/up/../f": "/Users/me/f", "/Users/me/Cafe\u0301": "/Users/me/Caf\u00e9", "/": "/", "/..": "/",
	} {
		if l, err := fs.Find(path, true); err != nil || l.Real != want {
			t.Errorf("%s: %+v %v, want %s", path, l, err, want)
		}
	}
	for _, path := range []string{"/a", "/tmp/f/x", "/nothing/x"} {
		if l, err := fs.Find(path, true); err == nil {
			t.Errorf("%s: %+v", path, l)
		}
	}
}
