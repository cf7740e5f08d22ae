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
// needs npm with its registry, tmux, strace and git, and root: it runs everything
// as root and as uid 1000 (which has to be in /etc/passwd), with a /tmp of its own and no
// network but loopback. The ordinary half alone runs as anyone, on the host's
// own: -run '/.*/user'. What is missing fails by name; nothing is skipped. The
// first run downloads 0.7 GB and keeps 1.8 GB in a cache, see install_test.go; after that
// the suite takes two to five minutes. Variables:
//
//	CONFINECTL                     the program under test; else it is built
//	CONFINECTL_TEST_AGENTS_CACHE   where the agents are kept
//	CONFINECTL_TEST_AGENTS_KEEP    any value: keep the seats, with their traces
package agents
