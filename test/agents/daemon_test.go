//go:build agents

package agents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Claude Code and Codex can hand their work to a background process, over a
// socket that Landlock does not confine below ABI 9. One that was started outside the boundary
// does the work outside. The profiles close that door, claude-cli by a variable that it
// sets, codex-cli by the flag that it asks for. Here the door is first seen open.

// overwritten tells whether the work was done outside: whether the file beside the
// project changes within the time. It makes the seat as new for the next try.
func (s *seat) overwritten(limit time.Duration) bool {
	s.t.Helper()
	defer func() {
		s.write(s.beside, besideBefore+"\n")
		os.Remove(filepath.Join(s.project, "wrote-inside"))
	}()
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		text, err := os.ReadFile(s.beside)
		s.check(err)
		if string(text) == "overwritten\n" {
			return true
		}
	}
	return false
}

// abi is the Landlock ABI of this host, as confinectl reports it.
func (s *seat) abi() string {
	s.t.Helper()
	o := s.run(10*time.Second, confinectl, "facts")
	m := regexp.MustCompile(`(?i)Landlock\D*(\d+)`).FindStringSubmatch(o.out)
	if m == nil {
		s.t.Fatalf("confinectl facts does not name the Landlock ABI:\n%s", o.out)
	}
	return m[1]
}

// open judges the control: below ABI 9 the door has to be open without the profile's
// measure, or the test would show nothing; from 9 on Landlock closes it.
func (s *seat) open(outside bool, out string) {
	s.t.Helper()
	if below := len(s.abi()) == 1 && s.abi() < "9"; outside != below {
		s.t.Fatalf("control: Landlock ABI %s, and without the profile's measure the daemon did the work outside: %v\n%s\n%s", s.abi(), outside, out, s.model.log())
	}
}

func TestClaudeDaemon(t *testing.T) {
	s := newSeat(t, ordinary())
	// The daemon replaces the global state by rename whenever it likes. In the home
	// directory that would take it away from a confined Claude Code that just starts.
	config := filepath.Join(s.home, ".claude")
	s.setenv("ANTHROPIC_BASE_URL="+s.model.URL, "CLAUDE_CONFIG_DIR="+config)
	s.mkdir(config)
	// The daemon does not take a key from the environment.
	s.write(filepath.Join(config, "settings.json"), `{"apiKeyHelper": "echo `+fakeKey+`", "permissions": {"allow": ["Bash"]}}`)
	s.write(filepath.Join(config, ".claude.json"), claudeState(s.project))
	background := func(prompt string) []string {
		return []string{"claude", "--bg", "--permission-mode", "acceptEdits", "--allowedTools", "Bash", "--", prompt + " " + marker}
	}

	if o := s.run(promptLimit, background("started outside")...); o.status != 0 || !s.overwritten(startLimit) {
		t.Fatalf("control: unconfined, a background session does not write beside the project (status %d):\n%s\n%s", o.status, o.out, s.model.log())
	}

	// The profile, but for the one line.
	profiles := filepath.Join(s.base, "profiles")
	s.check(os.Mkdir(profiles, 0o755))
	for _, name := range []string{"agent-base.toml", "claude-cli.toml"} {
		text, err := os.ReadFile(filepath.Join("../../examples/profiles", name))
		s.check(err)
		line := regexp.MustCompile(`(?m)^set_env = \{ CLAUDE_CODE_DISABLE_AGENT_VIEW = "1" \}$`)
		if name == "claude-cli.toml" && !line.Match(text) {
			t.Fatal("claude-cli.toml does not set CLAUDE_CODE_DISABLE_AGENT_VIEW")
		}
		s.check(os.WriteFile(filepath.Join(profiles, name), line.ReplaceAll(text, nil), 0o644))
	}
	o := s.run(promptLimit, append([]string{confinectl, "exec", "--profile-dir", profiles, "claude-cli", "--"}, background("without the line")...)...)
	if o.status == 125 {
		t.Fatal(o.out)
	}
	s.open(s.overwritten(startLimit), o.out)

	o = s.run(promptLimit, s.confined("claude-cli", background("with it")...)...)
	if o.status != 1 || !strings.Contains(o.out, "disabled by CLAUDE_CODE_DISABLE_AGENT_VIEW") {
		t.Errorf("claude --bg ends with %d under claude-cli:\n%s", o.status, o.out)
	}
	if s.overwritten(5 * time.Second) {
		t.Error("BREACHED: a daemon outside did the work of a confined Claude Code")
	}
}

func TestCodexDaemon(t *testing.T) {
	s := newSeat(t, ordinary())
	for _, a := range agents {
		if a.name == "codex" {
			a.setup(s)
		}
	}
	config := filepath.Join(s.home, ".codex/config.toml")
	text, err := os.ReadFile(config)
	s.check(err)
	s.write(config, "approval_policy = \"never\"\n"+string(text)+"[projects.\""+s.project+"\"]\ntrust_level = \"trusted\"\n")
	done := func(screen string) bool {
		return strings.Contains(screen, answer) || strings.Contains(screen, ended)
	}

	term := s.terminal("codex", "-s", "danger-full-access", prompt)
	if screen, _ := term.wait(startLimit, done); !s.overwritten(time.Second) {
		t.Fatalf("control: unconfined, Codex does not write beside the project:\n%s\n%s", screen, s.model.log())
	}
	term.tmux("kill-server") // its daemon stays

	term = s.terminal(s.confined("codex-cli", "codex", "-s", "danger-full-access", prompt)...)
	screen, _ := term.wait(startLimit, done)
	s.open(s.overwritten(time.Second), screen)
	term.tmux("kill-server")

	term = s.terminal(s.confined("codex-cli", "codex", "--no-daemon", "-s", "danger-full-access", prompt)...)
	screen, _ = term.wait(startLimit, done)
	if s.content("wrote-inside") != "inside" {
		t.Errorf("with --no-daemon the shell tool did not write inside:\n%s\n%s", screen, s.model.log())
	}
	if s.overwritten(time.Second) {
		t.Errorf("BREACHED: a daemon outside did the work of a confined codex --no-daemon:\n%s", screen)
	}
}
