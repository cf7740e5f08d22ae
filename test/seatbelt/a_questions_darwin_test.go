package seatbelt

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
)

// result is what became of one run of sandbox-exec.
type result struct {
	status         int // 128 and more: a signal
	stdout, stderr string
}

func (r result) String() string {
	return fmt.Sprintf("status %d %q %q", r.status, r.stdout, r.stderr)
}

// run executes a command under any text.
func (m *mac) run(text string, params []string, command ...string) result {
	m.Helper()
	var args []string
	for _, p := range params {
		args = append(args, "-D", p)
	}
	cmd := exec.Command("/usr/bin/sandbox-exec", append(append(args, "-p", text, "--"), command...)...)
	cmd.Dir = m.home + "/repo"
	cmd.Env = append(os.Environ(), "SEATBELT_ROLE=attempt")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		m.Fatal(err)
	}
	r := result{cmd.ProcessState.ExitCode(), strings.TrimSpace(stdout.String()), strings.TrimSpace(stderr.String())}
	if r.status < 0 {
		r.status = 128 + 6
	}
	return r
}

// ours is the text of a boundary with one read-write directory, and its parameters.
func (m *mac) ours() (*enforce.SBPL, []string) {
	m.Helper()
	plan, err := m.plan(`{"name":"q","permit_path":"$H/repo","permit_files":["$H/.state.json"]}`)
	if err != nil {
		m.Fatal(err)
	}
	s, err := enforce.Seatbelt(plan.Boundary())
	if err != nil {
		m.Fatal(err)
	}
	var params []string
	for _, p := range s.Params {
		params = append(params, p.Key+"="+p.Value)
	}
	return s, params
}

// attempt makes one attempt under our text with more rules after it.
func (m *mac) attempt(extra, op, path, to string, params ...string) string {
	m.Helper()
	s, own := m.ours()
	r := m.run(s.Profile+"\n"+extra, append(own, params...), m.self, strings.Join([]string{op, path, to}, "\x1f"))
	if r.status != 0 {
		return r.String()
	}
	return r.stdout
}

// A question is one that nobody has answered in public, or that is answered in
// two ways. Where the arm takes an answer for granted, any other fails the test; the rest is
// printed, for docs/seatbelt.md.
type question struct {
	name    string
	granted string // what the arm relies on; empty: nothing
	ask     func(m *mac) string
}

func allowRead(filter string) string { return "(allow file-read* (" + filter + "))" }

var questionList = []question{
	{"a string of 300 bytes in the text", "", func(m *mac) string {
		return m.run(`(version 1)(allow default)(deny file-read* (literal "/`+strings.Repeat("a", 300)+`"))`, nil, "/usr/bin/true").String()
	}},
	{"a character beyond ASCII in a comment", "", func(m *mac) string {
		return m.run("(version 1) ; \u2014\n(allow default)", nil, "/usr/bin/true").String()
	}},
	{"a parameter of 900 bytes", "status 0 \"\" \"\"", func(m *mac) string {
		return m.run(`(version 1)(allow default)(deny file-read* (literal (param "P")))`, []string{"P=/" + strings.Repeat("a", 900)}, "/usr/bin/true").String()
	}},
	{"a parameter whose value has an equals sign", "yes", func(m *mac) string {
		must(m, os.WriteFile(m.home+"/out/a=b", nil, 0o600))
		return m.attempt(allowRead(`literal (param "P")`), "read", m.home+"/out/a=b", "", "P="+m.home+"/out/a=b")
	}},
	{"subpath on a plain file", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/out/f", "", "P="+m.home+"/out/f")
	}},
	{"a subpath in another letter case", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/out/f", "", "P="+m.home+"/OUT")
	}},
	{"the right subpath, the access in another letter case", "yes", func(m *mac) string {
		return m.attempt("", "read", m.home+"/REPO/F", "")
	}},
	{"a rule composed, the access decomposed", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/Cafe\u0301/f", "", "P="+m.home+"/Caf\u00e9")
	}},
	{"a rule decomposed, the access composed", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/Caf\u00e9/f", "", "P="+m.home+"/Cafe\u0301")
	}},
	{"a rule by the data volume's name", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/out/f", "", "P=/System/Volumes/Data"+m.home+"/out")
	}},
	{"access outside by the data volume's name", "no", func(m *mac) string {
		return m.attempt("", "read", "/System/Volumes/Data"+m.home+"/out/f", "")
	}},
	{"access inside by the data volume's name", "", func(m *mac) string {
		return m.attempt("", "write", "/System/Volumes/Data"+m.home+"/repo/f", "")
	}},
	{"a subpath with a trailing slash", "", func(m *mac) string {
		return m.attempt(allowRead(`subpath (param "P")`), "read", m.home+"/out/f", "", "P="+m.home+"/out/")
	}},
	{"a rule by the /tmp spelling", "", func(m *mac) string {
		must(m, os.WriteFile("/private/tmp/matrix-"+m.uid+"/f", nil, 0o600))
		return m.attempt(allowRead(`subpath "/tmp"`), "read", "/private/tmp/matrix-"+m.uid+"/f", "")
	}},
	{"a deny of TIOCSTI compiles", "", func(m *mac) string {
		return m.run("(version 1)(allow default)(deny file-ioctl (ioctl-command #x80017472))", nil, "/usr/bin/true").String()
	}},
	{"programs start without file-map-executable", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(strings.ReplaceAll(s.Profile, "process-exec* file-map-executable", "process-exec*"), params, "/bin/ls", "/usr/lib").String()[:8]
	}},
	{"mapping is denied where it is denied", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile+"(deny file-map-executable)", params, "/usr/bin/true").String()
	}},
	{"a clone of a file outside into the boundary", "no", func(m *mac) string {
		return m.attempt("", "clone", m.home+"/out/f", m.home+"/repo/cloned")
	}},
	{"a hard link to a file outside", "no", func(m *mac) string {
		return m.attempt("", "link", m.home+"/out/f", m.home+"/repo/linked")
	}},
	{"listening on a Unix socket inside needs no network-inbound", "yes", func(m *mac) string {
		return m.attempt("", "bind", m.home+"/repo/q.sock", "")
	}},
	{"the name resolver by its short name alone", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(strings.ReplaceAll(s.Profile, `(literal "/private/var/run/mDNSResponder")`, ""), params, m.self, "connect\x1f/var/run/mDNSResponder\x1f").String()
	}},
	{"a set-uid bit inside", "", func(m *mac) string { return m.attempt("", "setuid", m.home+"/repo/f", "") }},
	{"opening the single file with O_CREAT", "yes", func(m *mac) string {
		s, params := m.ours()
		r := m.run(s.Profile, params, "/bin/sh", "-c", `echo x > "$0" && echo yes || echo no`, m.home+"/.state.json")
		return r.stdout
	}},
	{"the read-write directory cannot be renamed away", "no", func(m *mac) string {
		return m.attempt(`(allow file-write* (subpath (param "P")))`, "rename", m.home+"/repo", m.home+"/out/moved", "P="+m.home+"/out")
	}},
	{"arguments of the own process", "", func(m *mac) string { return m.attempt("", "sysctl", "self", "") }},
	{"arguments of the parent process", "no", func(m *mac) string { return m.attempt("", "sysctl", "parent", "") }},
	{"information on another process", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/lsof", "-p", "1").String()
	}},
	{"what sandbox-exec prints when all is well", "", func(m *mac) string {
		return m.run("(version 1)(allow default)", nil, "/usr/bin/true").String()
	}},
	{"status of a text that does not compile", "65", func(m *mac) string {
		r := m.run("(version 1)(allow nothing-known)", nil, "/usr/bin/true")
		m.Log(r)
		return fmt.Sprint(r.status)
	}},
	{"status inside another one", "71 true", func(m *mac) string {
		r := m.run("(version 1)(allow default)", nil, "/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "--", "/usr/bin/true")
		m.Log(r)
		return fmt.Sprint(r.status, strings.Contains(r.stderr, "sandbox_apply"))
	}},
	{"status of a command that may not be executed", "71 true", func(m *mac) string {
		r := m.run("(version 1)(allow default)(deny process-exec* (literal \"/usr/bin/true\"))", nil, "/usr/bin/true")
		m.Log(r)
		return fmt.Sprint(r.status, strings.Contains(r.stderr, "execvp"))
	}},
	{"status without the root directory", "", func(m *mac) string {
		s, params := m.ours()
		r := m.run(strings.Replace(s.Profile, `(literal "/")`, "", 1), params, "/usr/bin/true")
		m.Log(r)
		return fmt.Sprint(r.status)
	}},
	{"`open` starts nothing", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/open", "-g", "-j", "-a", "/System/Applications/Calculator.app").String()
	}},
	{"a working directory outside the boundary", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/bin/sh", "-c", "cd ../out && /bin/pwd").String()
	}},
	{"TLS of the system", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/curl", "-sS", "-o", "/dev/null", "https://github.com").String()
	}},
	{"fs.watch of node", "", func(m *mac) string {
		node, err := exec.LookPath("node")
		if err != nil {
			return "no node here"
		}
		plan, err := m.plan(fmt.Sprintf(`{"name":"q","permit_path":"$H/repo","read_paths":[%q]}`, filepath.Dir(filepath.Dir(node))))
		if err != nil {
			return err.Error()
		}
		s, err := enforce.Seatbelt(plan.Boundary())
		must(m, err)
		var params []string
		for _, p := range s.Params {
			params = append(params, p.Key+"="+p.Value)
		}
		return m.run(s.Profile, params, node, "-e", `require("fs").watch(".",{recursive:true},(e,n)=>{console.log("saw",n);process.exit(0)});setTimeout(()=>require("fs").writeFileSync("w","x"),500);setTimeout(()=>process.exit(3),5000)`).String()
	}},
	{"multiprocessing of Python", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/python3", "-c", "import multiprocessing as m; m.Lock(); m.Semaphore(2); print('locked')").String()
	}},
	{"git by the xcrun shim", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/git", "--version").String()
	}},
	{"ssh reads its configuration", "", func(m *mac) string {
		s, params := m.ours()
		return m.run(s.Profile, params, "/usr/bin/ssh", "-G", "example.com").String()[:8]
	}},
	{"raw mode of the own terminal", "", func(m *mac) string {
		s, params := m.ours()
		args := []string{"-q", "/dev/null", "/usr/bin/sandbox-exec"}
		for _, p := range params {
			args = append(args, "-D", p)
		}
		out, err := exec.Command("/usr/bin/script", append(args, "-p", s.Profile, "--", "/bin/stty", "raw")...).CombinedOutput()
		return fmt.Sprint(string(out), err)
	}},
	{"a new pseudo-terminal with pty = true", "", func(m *mac) string {
		plan, err := m.plan(`{"name":"q","permit_path":"$H/repo","pty":true}`)
		must(m, err)
		s, err := enforce.Seatbelt(plan.Boundary())
		must(m, err)
		var params []string
		for _, p := range s.Params {
			params = append(params, p.Key+"="+p.Value)
		}
		return m.run(s.Profile, params, "/usr/bin/script", "-q", "/dev/null", "/bin/echo", "on a pty").String()
	}},
	{"DYLD variables are removed", "", func(m *mac) string {
		cmd := exec.Command("/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "--", "/usr/bin/env")
		cmd.Env = []string{"DYLD_PRINT_TO_FILE=/dev/null", "A=1"}
		out, err := cmd.CombinedOutput()
		return fmt.Sprint(strings.Contains(string(out), "DYLD_"), err)
	}},
	{"the spelling on disk of another letter case", "true", func(m *mac) string {
		t, err := resolve.NewWalker().Walk(strings.ToUpper(m.home) + "/REPO")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(t.Real == m.home+"/repo")
	}},
	{"the real path by the data volume's name", "true", func(m *mac) string {
		t, err := resolve.NewWalker().Walk("/System/Volumes/Data" + m.home + "/repo")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(t.Real == m.home+"/repo")
	}},
	{"a socket by another letter case", "true", func(m *mac) string {
		t, err := resolve.NewWalker().Walk(m.home + "/RUN/AGENT.SOCK")
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(t.Real == m.home+"/run/agent.sock")
	}},
}

func must(m *mac, err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// TestQuestions asks what facts about Seatbelt nobody has published, or that are
// told in two ways, and writes the answers down; under GitHub Actions also in the summary of the job.
func TestQuestions(t *testing.T) {
	m := newMac(t)
	var table strings.Builder
	table.WriteString("| question | answer | relied on |\n|---|---|---|\n")
	for _, q := range questionList {
		t.Run(q.name, func(t *testing.T) {
			m.T = t
			m.fill()
			got := q.ask(m)
			t.Logf("%s: %s", q.name, got)
			fmt.Fprintf(&table, "| %s | `%.300s` | %s |\n", q.name, strings.NewReplacer("|", "\\|", "`", "'", "\n", " ").Replace(got), q.granted)
			if q.granted != "" && got != q.granted {
				t.Errorf("the arm relies on %q", q.granted)
			}
		})
	}
	if summary := os.Getenv("GITHUB_STEP_SUMMARY"); summary != "" {
		f, err := os.OpenFile(summary, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(table.String()); err != nil {
			t.Fatal(err)
		}
	}
}
