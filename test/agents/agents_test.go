//go:build agents

package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeKey is a credential that no service would take for one.
const fakeKey = "sk-fake-0000-not-a-credential"

// prompt makes the stand-in call the shell tool.
const prompt = "Please run the probe. " + marker

// An agent is one of the programs, and how it is made to do what the tests
// need: its settings for a model on loopback, its way of taking one prompt.
type agent struct {
	name    string
	profile string
	setup   func(s *seat)
	prompt  []string
	// start is the command for a first interactive start, before is done before
	// it, and screen is what the first screen then shows.
	start  []string
	before func(s *seat)
	screen *regexp.Regexp
	// typed is the command for an interactive start with the prompt, and ready
	// is done before it, so that it does not ask questions first.
	typed []string
	ready func(s *seat)
}

var agents = []agent{
	{
		name: "claude", profile: "claude-cli",
		setup: func(s *seat) {
			s.setenv("ANTHROPIC_BASE_URL="+s.model.URL, "ANTHROPIC_API_KEY="+fakeKey)
		},
		prompt: []string{"claude", "-p", prompt, "--allowedTools", "Bash"},
		start:  []string{"claude"},
		// The welcome itself wants to reach its maker, and ends where it cannot.
		before: func(s *seat) { s.write(filepath.Join(s.home, ".claude.json"), claudeState("")) },
		typed:  []string{"claude", "--permission-mode", "acceptEdits", "--allowedTools", "Bash", "--", prompt},
		ready:  func(s *seat) { s.write(filepath.Join(s.home, ".claude.json"), claudeState(s.project)) },
		screen: regexp.MustCompile(`Detected a custom API key|trust this folder|Do you trust`),
	},
	{
		name: "codex", profile: "codex-cli",
		setup: func(s *seat) {
			s.setenv("STANDIN_KEY=" + fakeKey)
			s.mkdir(filepath.Join(s.home, ".codex"))
			s.write(filepath.Join(s.home, ".codex/config.toml"), `model = "standin"
model_provider = "standin"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.standin]
name = "standin"
base_url = "`+s.model.URL+`/v1"
env_key = "STANDIN_KEY"
wire_api = "responses"
`)
		},
		prompt: []string{"codex", "exec", "--skip-git-repo-check", "-s", "danger-full-access", prompt},
		start:  []string{"codex", "--no-daemon", "-s", "danger-full-access"},
		screen: regexp.MustCompile(`OpenAI Codex`),
		typed:  []string{"codex", "--no-daemon", "-s", "danger-full-access", prompt},
	},
	{
		name: "gemini", profile: "gemini-cli",
		setup: func(s *seat) {
			s.setenv("GOOGLE_GEMINI_BASE_URL="+s.model.URL, "GEMINI_API_KEY="+fakeKey, "GEMINI_CLI_TRUST_WORKSPACE=true")
			s.mkdir(filepath.Join(s.home, ".gemini"))
			s.write(filepath.Join(s.home, ".gemini/settings.json"), `{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false},
  "privacy": {"usageStatisticsEnabled": false}
}
`)
		},
		prompt: []string{"gemini", "--yolo", "-p", prompt},
		start:  []string{"gemini"},
		screen: regexp.MustCompile(`Gemini CLI|Type your message`),
		typed:  []string{"gemini", "--yolo", "-i", prompt},
	},
	{
		name: "opencode", profile: "opencode-cli",
		setup: func(s *seat) {
			s.setenv(`OPENCODE_CONFIG_CONTENT={"model": "standin/standin", "small_model": "standin/standin", "share": "disabled", "autoupdate": false,
  "permission": {"*": "allow", "external_directory": "allow"},
  "provider": {"standin": {"npm": "@ai-sdk/openai-compatible", "name": "standin",
    "options": {"baseURL": "` + s.model.URL + `/v1", "apiKey": "` + fakeKey + `"}, "models": {"standin": {"name": "standin"}}}}}`)
		},
		prompt: []string{"opencode", "run", prompt},
		start:  []string{"opencode"},
		screen: regexp.MustCompile(`Ask anything`),
		typed:  []string{"opencode", "--prompt", prompt},
	},
	{
		name: "copilot", profile: "copilot-cli",
		setup: func(s *seat) {
			s.setenv("COPILOT_PROVIDER_BASE_URL="+s.model.URL+"/v1", "COPILOT_PROVIDER_API_KEY="+fakeKey, "COPILOT_MODEL=standin")
		},
		prompt: []string{"copilot", "-p", prompt, "--allow-all-tools", "--allow-all-paths"},
		start:  []string{"copilot"},
		screen: regexp.MustCompile(`(?i)GitHub Copilot|trust the files`),
		typed:  []string{"copilot", "--allow-all-tools", "--allow-all-paths", "-i", prompt},
		ready: func(s *seat) {
			s.mkdir(filepath.Join(s.home, ".copilot"))
			s.write(filepath.Join(s.home, ".copilot/config.json"), `{"trusted_folders": ["`+s.project+`"], "trustedFolders": ["`+s.project+`"]}`)
		},
	},
	{
		name: "qwen", profile: "qwen-cli",
		setup: func(s *seat) {
			s.setenv("OPENAI_API_KEY="+fakeKey, "OPENAI_BASE_URL="+s.model.URL+"/v1", "OPENAI_MODEL=standin")
			s.mkdir(filepath.Join(s.home, ".qwen"))
			// The ripgrep in its package has no execute permission, and the first
			// screen says EACCES with and without a boundary.
			s.write(filepath.Join(s.home, ".qwen/settings.json"), `{
  "tools": {"useRipgrep": false},
  "security": {"auth": {"selectedType": "openai"}},
  "general": {"enableAutoUpdate": false},
  "privacy": {"usageStatisticsEnabled": false}
}
`)
		},
		prompt: []string{"qwen", "--yolo", "-p", prompt},
		start:  []string{"qwen"},
		screen: regexp.MustCompile(`Qwen Code|Type your message`),
		typed:  []string{"qwen", "--yolo", "-i", prompt},
	},
}

// claudeState is the global state of a Claude Code that welcomed its user once; and
// that trusts a project and the key, when a project is given.
func claudeState(project string) string {
	state := `{"hasCompletedOnboarding": true, "theme": "dark"`
	if project != "" {
		state += `, "customApiKeyResponses": {"approved": ["` + fakeKey[len(fakeKey)-20:] + `"]}, "projects": {"` + project + `": {"hasTrustDialogAccepted": true}}`
	}
	return state + "}"
}

func (s *seat) setenv(variables ...string) { s.env = append(s.env, variables...) }

const (
	promptLimit = 2 * time.Minute
	startLimit  = 60 * time.Second
)

// TestAgents is the main job on real input. For each agent and each user:
// the same runs unconfined and confined, in seats of their own.
func TestAgents(t *testing.T) {
	for _, a := range agents {
		root, other := newRow(a, "root"), newRow(a, ordinary().name)
		t.Run(a.name, func(t *testing.T) {
			t.Run("root", func(t *testing.T) {
				if os.Geteuid() != 0 {
					t.Fatal("has to run as root, to try root as well as an ordinary user; the latter alone: -run '/.*/user'")
				}
				testAgent(t, a, user{name: "root"}, root)
			})
			t.Run("user", func(t *testing.T) { testAgent(t, a, ordinary(), other) })
		})
	}
}

func testAgent(t *testing.T, a agent, u user, row *row) {
	t.Parallel() // root and user, one agent after the other
	row.begun = true
	t.Run("version", func(t *testing.T) { testVersion(t, a, u, row) })
	t.Run("interactive", func(t *testing.T) { testInteractive(t, a, u, row) })
	t.Run("typed", func(t *testing.T) { testTyped(t, a, u, row) })
	t.Run("prompt", func(t *testing.T) { testPrompt(t, a, u, row) })
}

func (a agent) seat(t *testing.T, u user) *seat {
	t.Helper()
	s := newSeat(t, u)
	a.setup(s)
	return s
}

func testVersion(t *testing.T, a agent, u user, row *row) {
	free, held := a.seat(t, u), a.seat(t, u)
	want := free.run(promptLimit, a.name, "--version")
	if want.status != 0 {
		t.Fatalf("control: unconfined --version ends with %d:\n%s", want.status, want.out)
	}
	got := held.run(promptLimit, held.confined(a.profile, a.name, "--version")...)
	row.version = fmt.Sprintf("%d", got.status)
	if got.status != want.status || got.out != strings.ReplaceAll(want.out, free.base, held.base) {
		t.Fatalf("--version ends with %d, unconfined with %d\n%s\nunconfined:\n%s", got.status, want.status, got.out, want.out)
	}
}

// trouble is text that an agent shows when the boundary gets in its way.
var trouble = regexp.MustCompile(`EACCES|EPERM|[Pp]ermission denied|[Pp]anic|Segmentation fault|` + regexp.QuoteMeta(ended))

func testInteractive(t *testing.T, a agent, u user, row *row) {
	row.interactive = "no"
	free, held := a.seat(t, u), a.seat(t, u)
	if a.before != nil {
		a.before(free)
		a.before(held)
	}
	shown := func(screen string) bool { return a.screen.MatchString(screen) || strings.Contains(screen, ended) }
	if screen, _ := free.terminal(a.start...).wait(startLimit, shown); !a.screen.MatchString(screen) {
		t.Fatalf("control: unconfined, the first screen does not show %s:\n%s", a.screen, screen)
	}
	free.killAll()

	term := held.terminal(held.confined(a.profile, a.start...)...)
	screen, _ := term.wait(startLimit, shown)
	if !a.screen.MatchString(screen) {
		t.Fatalf("the first screen does not show %s:\n%s", a.screen, screen)
	}
	time.Sleep(2 * time.Second) // a late crash would come now
	if screen = term.screen(); trouble.MatchString(screen) {
		t.Fatalf("trouble on the first screen:\n%s", screen)
	}
	row.interactive = "ok"
}

func testPrompt(t *testing.T, a agent, u user, row *row) {
	free := a.seat(t, u)
	want := free.traced(a.prompt...)
	if want.timedOut {
		t.Fatalf("control: unconfined, the prompt never ended\n%s\n%s", want.out, free.model.log())
	}
	beside, err := os.ReadFile(free.beside)
	if err != nil {
		t.Fatal(err)
	}
	if free.content("wrote-inside") != "inside" || free.content("read-beside") != besideBefore ||
		string(beside) != "overwritten\n" || !exists(filepath.Join(free.home, "beside-new.txt")) {
		t.Fatalf("control: unconfined, the shell tool does not write inside, read beside and write beside (status %d):\n%s\n%s", want.status, want.out, free.model.log())
	}

	held := a.seat(t, u)
	got := held.traced(held.confined(a.profile, a.prompt...)...)
	row.prompt = fmt.Sprintf("%d", got.status)
	if got.status != want.status {
		t.Errorf("the prompt ends with %d, unconfined with %d:\n%s\n%s", got.status, want.status, got.out, held.model.log())
	}
	row.inside = "no"
	if held.wroteInside(got.out) {
		row.inside = "yes"
	}
	row.outside = "no"
	if held.untouched() {
		row.outside = "yes"
	}
	held.unexplained(a, free, row)
}

// testTyped is testPrompt for a person at a terminal: the tool may run in
// another way then, on a pseudo-terminal for one.
func testTyped(t *testing.T, a agent, u user, row *row) {
	row.typed = "no"
	free, held := a.seat(t, u), a.seat(t, u)
	if a.ready != nil {
		a.ready(free)
		a.ready(held)
	}
	done := func(screen string) bool { return strings.Contains(screen, answer) || strings.Contains(screen, ended) }
	control, ok := free.terminal(free.strace(a.typed...)...).wait(startLimit, done)
	if !ok || !free.overwritten(time.Second) {
		t.Fatalf("control: unconfined, the typed prompt does not write beside the project:\n%s\n%s", control, free.model.log())
	}
	free.killAll()
	screen, _ := held.terminal(held.strace(held.confined(a.profile, a.typed...)...)...).wait(startLimit, done)
	held.killAll()
	if !strings.Contains(screen, answer) {
		t.Errorf("the typed prompt is not answered:\n%s", screen)
	}
	if held.wroteInside(screen) && held.untouched() {
		row.typed = "ok"
	}
	held.unexplained(a, free, row)
}

// wroteInside checks that the shell tool ran to its end, inside.
func (s *seat) wroteInside(out string) bool {
	s.t.Helper()
	results := s.model.toolResults()
	switch {
	case s.content("wrote-inside") != "inside":
		s.t.Errorf("the shell tool did not write inside the project:\n%s\n%s", out, s.model.log())
	case s.content("made-temporary") != "yes":
		s.t.Error("the shell tool could not make a temporary file")
	case len(results) != 1 || !strings.Contains(results[0].text, probeDone) || results[0].isError:
		s.t.Errorf("the result of the shell tool is %+v", results)
	default:
		return true
	}
	return false
}

// untouched checks that the boundary held.
func (s *seat) untouched() bool {
	s.t.Helper()
	beside, err := os.ReadFile(s.beside)
	s.check(err)
	switch {
	case s.content("read-beside") != "":
		s.t.Error("BREACHED: the file beside the project was read")
	case string(beside) != besideBefore+"\n":
		s.t.Error("BREACHED: the file beside the project was written")
	case exists(filepath.Join(s.home, "beside-new.txt")):
		s.t.Error("BREACHED: a file was made beside the project")
	default:
		return true
	}
	return false
}

// unexplained reports each denial in the trace that has no explanation.
func (s *seat) unexplained(a agent, free *seat, row *row) {
	s.t.Helper()
	explained, rest := s.explain(a.name, s.denials(), free.denials())
	row.explained += explained
	row.unexplained += len(rest)
	for _, d := range rest {
		s.t.Errorf("unexplained denial: %s", d)
	}
}

// traced runs a command under strace and ends all that it leaves behind.
func (s *seat) traced(argv ...string) outcome {
	s.t.Helper()
	o := s.run(promptLimit, s.strace(argv...)...)
	s.killAll()
	return o
}

// strace puts strace before a command; it stays outside the boundary.
func (s *seat) strace(argv ...string) []string {
	return append([]string{"strace", "-f", "--seccomp-bpf", "-y", "-s", "200", "-e", "trace=file,network,process", "-o", s.trace()}, argv...)
}

func (s *seat) trace() string { return filepath.Join(s.out, "trace") }

// A row of the table that is printed in the end.
type row struct {
	agent, user                                          string
	version, interactive, typed, prompt, inside, outside string
	unexplained, explained                               int
	begun                                                bool
}

var rows []*row

func newRow(a agent, user string) *row {
	r := &row{agent: a.name, user: user, version: "-", interactive: "-", typed: "-", prompt: "-", inside: "-", outside: "-"}
	rows = append(rows, r)
	return r
}

func printTable() {
	if !slices.ContainsFunc(rows, func(r *row) bool { return r.begun }) {
		return
	}
	fmt.Println("| agent | user | --version | interactive | typed prompt | prompt exit | wrote inside | outside untouched | denials unexplained (explained) |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		if !r.begun {
			continue
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s | %d (%d) |\n", r.agent, r.user, r.version, r.interactive, r.typed, r.prompt, r.inside, r.outside, r.unexplained, r.explained)
	}
}
