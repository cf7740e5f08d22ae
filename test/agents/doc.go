// Package agents runs real agent programs under the example profiles.
//
// It is the answer to the question whether those profiles work: Claude Code,
// Codex, Gemini CLI, OpenCode, Copilot and Qwen Code, the released packages
// at pinned versions, as root and as an ordinary user, each with a fresh home
// directory, against a model stand-in on loopback that makes them run a shell
// command. The tests are behind a build tag, because they need more than Go:
//
//	go test -tags agents -timeout 30m ./test/agents
//
// needs npm with its registry, tmux and strace, and root (for both users; the
// ordinary half alone runs as anyone: -run '/.*/user'). What is missing fails
// by name; nothing is skipped. The first run downloads 0.7 GB, which stay in
// a cache: see install_test.go.
package agents
