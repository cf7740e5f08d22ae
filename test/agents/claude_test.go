//go:build agents

package agents

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What claude-cli.toml says of the global state, ~/.claude.json.

func claudeSeat(t *testing.T) *seat {
	t.Helper()
	return agents[0].seat(t, ordinary())
}

// An existing file is written in place: the same inode, new content.
func TestClaudeStateInPlace(t *testing.T) {
	s := claudeSeat(t)
	state := filepath.Join(s.home, ".claude.json")
	s.write(state, claudeState(""))
	inode := func() uint64 {
		var st syscall.Stat_t
		s.check(syscall.Stat(state, &st))
		return st.Ino
	}
	before := inode()
	if o := s.run(promptLimit, s.confined("claude-cli", agents[0].prompt...)...); o.status != 0 {
		t.Fatalf("ends with %d:\n%s", o.status, o.out)
	}
	text, err := os.ReadFile(state)
	s.check(err)
	if inode() != before {
		t.Error("~/.claude.json was replaced; its directory is not writable")
	}
	if string(text) == claudeState("") {
		t.Error("~/.claude.json is as it was: the state is not saved")
	}
}

// With CLAUDE_CONFIG_DIR it lies in a directory that the profile grants, a fresh
// home directory keeps its state, and the boundary denies nothing but the probe.
func TestClaudeConfigDir(t *testing.T) {
	s := claudeSeat(t)
	s.setenv("CLAUDE_CONFIG_DIR=" + filepath.Join(s.home, ".claude"))
	if o := s.traced(s.confined("claude-cli", agents[0].prompt...)...); o.status != 0 {
		t.Fatalf("ends with %d:\n%s", o.status, o.out)
	}
	if state := filepath.Join(s.home, ".claude/.claude.json"); !exists(state) {
		t.Errorf("%s was not made", state)
	}
	// No agent has this name, so only the lines for all of them apply.
	if _, denied := s.explain("none", s.denials(), nil); len(denied) > 0 {
		t.Errorf("denied: %v", denied)
	}
}
