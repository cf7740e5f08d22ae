package seatbelt

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/sbpleval"
	"github.com/confinectl/confinectl/resolve"
)

//go:embed testdata/policy.json
var policyText string

//go:embed testdata/files.txt
var filesText string

//go:embed testdata/system.txt
var systemText string

//go:embed testdata/matrix.txt
var matrixText string

// places are what the matrix leaves open.
type places struct {
	home, uid, tmp string
}

var model = places{"/Users/me", "501", "/private/var/folders/ab/cdefghijklmnop/T"}

func (p places) in(s string) string {
	return strings.NewReplacer("$H", p.home, "$U", p.uid, "$T", p.tmp).Replace(s)
}

// row is one line of the matrix.
type row struct {
	text         string
	allowed      bool
	modelOnly    bool
	op, path, to string
}

func matrix(t testing.TB, p places) []row {
	var rows []row
	for line := range strings.Lines(matrixText) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		verdict, rest, _ := strings.Cut(line, " ")
		op, rest, ok := strings.Cut(strings.TrimSpace(rest), " ")
		path, to, _ := strings.Cut(strings.TrimSpace(rest), " -> ")
		r := row{line, strings.HasPrefix(verdict, "allow"), strings.HasSuffix(verdict, "*"), op, p.in(path), p.in(to)}
		if v := strings.TrimSuffix(verdict, "*"); !ok || v != "allow" && v != "deny" {
			t.Fatalf("matrix: %q", line)
		}
		rows = append(rows, r)
	}
	return rows
}

// ask turns what a program does into what the kernel asks about it. It is the
// one place that knows both; the renderer has no part in it.
func (r row) ask(fs *sbpleval.FakeFS) ([]sbpleval.Query, error) {
	var asked []sbpleval.Query
	find := func(path string, follow, mustExist bool) (string, error) {
		l, err := fs.Find(path, follow)
		if err != nil || mustExist && l.Kind == 0 {
			return "", fmt.Errorf("%s: %s: not in the fake file system", r.text, path)
		}
		for _, link := range l.Crossed {
			asked = append(asked, sbpleval.Query{Op: "file-read-metadata", Path: link})
		}
		return l.Real, nil
	}
	on := func(path string, follow, mustExist bool, ops ...string) error {
		real, err := find(path, follow, mustExist)
		for _, op := range ops {
			asked = append(asked, sbpleval.Query{Op: op, Path: real})
		}
		return err
	}
	named := func(op string) error {
		asked = append(asked, sbpleval.Query{Op: op, Name: r.path})
		return nil
	}
	plain := func(op string) error {
		asked = append(asked, sbpleval.Query{Op: op})
		return nil
	}
	var err error
	switch r.op {
	case "read", "list":
		err = on(r.path, true, true, "file-read-data")
	case "stat":
		err = on(r.path, true, true, "file-read-metadata")
	case "xattr":
		err = on(r.path, true, true, "file-read-xattr")
	case "write", "truncate":
		err = on(r.path, true, true, "file-write-data")
	case "create", "mkdir", "mkfifo", "symlink":
		err = on(r.path, false, false, "file-write-create")
	case "mknod":
		err = on(r.path, false, false, "file-mknod")
	case "remove", "rmdir":
		err = on(r.path, false, true, "file-write-unlink")
	case "rename":
		err = errors.Join(on(r.path, false, true, "file-write-unlink"), on(r.to, false, false, "file-write-create"))
	case "link":
		err = errors.Join(on(r.path, false, true), on(r.to, false, false, "file-write-create"))
	case "chmod":
		err = on(r.path, true, true, "file-write-mode")
	case "chown":
		err = on(r.path, true, true, "file-write-owner")
	case "touch":
		err = on(r.path, true, true, "file-write-times")
	case "setxattr":
		err = on(r.path, true, true, "file-write-xattr")
	case "chflags":
		err = on(r.path, true, true, "file-write-flags")
	case "exec":
		err = on(r.path, true, true, "process-exec*", "file-read-data")
	case "ioctl":
		err = on(r.path, true, true, "file-ioctl")
	case "connect":
		err = on(r.path, true, true, "network-outbound")
	case "bind":
		err = on(r.path, false, false, "file-write-create", "network-bind")
	case "tcp":
		asked = append(asked, sbpleval.Query{Op: "network-outbound", IP: true})
	case "listen":
		asked = append(asked, sbpleval.Query{Op: "network-bind", IP: true}, sbpleval.Query{Op: "network-inbound", IP: true})
	case "mach":
		err = named("mach-lookup")
	case "register":
		err = named("mach-register")
	case "sysctl":
		err = named("sysctl-read")
	case "setsysctl":
		err = named("sysctl-write")
	case "pref":
		err = named("user-preference-read")
	case "signal":
		asked = append(asked, sbpleval.Query{Op: "signal", Target: r.path})
	case "lsopen":
		err = plain("lsopen")
	case "appleevent":
		err = plain("appleevent-send")
	case "job":
		err = plain("job-creation")
	case "pty":
		err = plain("pseudo-tty")
	case "sem":
		err = plain("ipc-posix-sem")
	default:
		err = fmt.Errorf("%s: no such operation", r.text)
	}
	return asked, err
}

// fakeFS is a Mac in names.
func fakeFS(t testing.TB, p places) *sbpleval.FakeFS {
	files := strings.ReplaceAll(p.in(filesText), "\nx ", "\nf ")
	fs, err := sbpleval.NewFakeFS(files + p.in(systemText))
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// paperFacts are those of the model Mac.
func paperFacts() *resolve.Facts {
	return &resolve.Facts{OS: "darwin", UID: 501, OnPaper: true, Home: model.home, Cwd: model.home, TmpRoot: "/private/tmp",
		ConfigHome: model.home + "/.config", CacheHome: model.home + "/.cache", DataHome: model.home + "/.local/share", StateHome: model.home + "/.local/state", UserTmp: func() string { return model.tmp }, User: func() string { return "me" }}
}

func decode(t testing.TB, text string) *resolve.Policy {
	t.Helper()
	p, err := resolve.DecodePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func render(t testing.TB, p *resolve.Policy, f *resolve.Facts, r resolve.Request) *enforce.SBPL {
	t.Helper()
	b, err := resolve.Resolve(p, f, r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := enforce.Seatbelt(b)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func params(s *enforce.SBPL) []sbpleval.Param {
	var list []sbpleval.Param
	for _, p := range s.Params {
		list = append(list, sbpleval.Param(p))
	}
	return list
}

// needScheme fails under CI where there is no tinyscheme, and says so elsewhere.
func needScheme(t testing.TB, err error) bool {
	if !errors.Is(err, sbpleval.ErrNoScheme) {
		return true
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Log("only one of two evaluators: ", err)
	return false
}

// wrong are the rows that an evaluator answers otherwise than the matrix; err is
// its refusal of the text as such.
func wrongRows(rows []row, asked [][]sbpleval.Query, answer func([]sbpleval.Query) ([]bool, error)) (wrong []string, err error) {
	var all []sbpleval.Query
	for _, a := range asked {
		all = append(all, a...)
	}
	answers, err := answer(all)
	if err != nil {
		return nil, err
	}
	for i, r := range rows {
		allowed := true
		for _, yes := range answers[:len(asked[i])] {
			allowed = allowed && yes
		}
		answers = answers[len(asked[i]):]
		if allowed != r.allowed {
			wrong = append(wrong, r.text)
		}
	}
	return wrong, nil
}

// byGo is the evaluator in Go.
func byGo(text string, p []sbpleval.Param) func([]sbpleval.Query) ([]bool, error) {
	return func(queries []sbpleval.Query) ([]bool, error) {
		profile, err := sbpleval.Parse(text, p)
		if err != nil {
			return nil, err
		}
		answers := make([]bool, len(queries))
		for i, q := range queries {
			if answers[i], err = profile.Allows(q); err != nil {
				return nil, err
			}
		}
		return answers, nil
	}
}

// byScheme is tinyscheme.
func byScheme(t testing.TB, text string, p []sbpleval.Param) func([]sbpleval.Query) ([]bool, error) {
	return func(queries []sbpleval.Query) ([]bool, error) {
		return sbpleval.Scheme(t.TempDir(), text, p, queries)
	}
}

func questions(t testing.TB, rows []row) [][]sbpleval.Query {
	fs := fakeFS(t, model)
	asked := make([][]sbpleval.Query, len(rows))
	for i, r := range rows {
		var err error
		if asked[i], err = r.ask(fs); err != nil {
			t.Fatal(err)
		}
	}
	return asked
}

// TestMatrix asks both evaluators every row.
func TestMatrix(t *testing.T) {
	s := render(t, decode(t, strings.ReplaceAll(policyText, "$H", model.home)), paperFacts(), resolve.Request{})
	rows := matrix(t, model)
	asked := questions(t, rows)
	denied := 0
	for _, r := range rows {
		if !r.allowed {
			denied++
		}
	}
	t.Logf("%d rows, %d of them denials; %d bytes of text", len(rows), denied, len(s.Profile))
	wrong, err := wrongRows(rows, asked, byGo(s.Profile, params(s)))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Errorf("Go evaluator: %s", w)
	}
	wrong, err = wrongRows(rows, asked, byScheme(t, s.Profile, params(s)))
	if !needScheme(t, err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wrong {
		t.Errorf("tinyscheme: %s", w)
	}
}
