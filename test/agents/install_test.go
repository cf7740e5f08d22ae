//go:build agents

package agents

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The packages under test. A new version is a new measurement: change it
// here, run the suite, and look at what denials.txt then says.
const (
	claudePackage   = "@anthropic-ai/claude-code@2.1.332"
	codexPackage    = "@openai/codex@0.171.0"
	geminiPackage   = "@google/gemini-cli@0.61.0"
	opencodePackage = "opencode-ai@1.18.33"
	copilotPackage  = "@github/copilot@1.0.102"
	qwenPackage     = "@qwen-code/qwen-code@0.24.4"
	nodeVersion     = "22.23.3" // Copilot and Qwen Code want 22; Debian 12 has 18
)

// prefix gives the npm prefix in which all agents are installed, and
// installs them when the cache has none. The cache is
// $CONFINECTL_TEST_AGENTS_CACHE; else, for root, a directory below /var/cache
// (the ordinary user has to read it as well, and root's home is closed);
// else confinectl-test-agents below the user's cache directory.
func prefix() (string, error) {
	cache := os.Getenv("CONFINECTL_TEST_AGENTS_CACHE")
	switch {
	case cache != "":
	case os.Geteuid() == 0:
		cache = "/var/cache/confinectl-test-agents"
	default:
		dir, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(dir, "confinectl-test-agents")
	}
	return install(cache)
}

// install fills a directory of its own below cache and gives it its final
// name last, so that half an install is never taken for a whole one. The
// name holds every version.
func install(cache string) (string, error) {
	arch, ok := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	if !ok {
		return "", fmt.Errorf("the agents have no packages for %s", runtime.GOARCH)
	}
	packages := []string{
		claudePackage, codexPackage, geminiPackage, opencodePackage, copilotPackage, qwenPackage,
		// Node itself comes from the npm registry too: the package "node"
		// would fetch this one in a script.
		"node-linux-" + arch + "@" + nodeVersion,
	}
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(packages, " "))))[:16]
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if _, err := exec.LookPath("npm"); err != nil {
		return "", errors.New("npm is missing: apt-get install npm")
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(cache, "part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	// No install scripts: one of them wants a compiler and headers from
	// elsewhere. The two that matter put a native program in its place, and
	// are run below, by the Node that was just installed.
	npm := exec.Command("npm", append([]string{"install", "--global", "--prefix", part, "--ignore-scripts",
		"--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"}, packages...)...)
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm could not install the agents (is its registry reachable?): %w\n%s", err, out)
	}
	for _, script := range []string{"@anthropic-ai/claude-code/install.cjs", "opencode-ai/postinstall.mjs"} {
		script = filepath.Join(part, "lib/node_modules", script)
		place := exec.Command(filepath.Join(part, "bin/node"), script)
		place.Dir = filepath.Dir(script)
		if out, err := place.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w\n%s", script, err, out)
		}
	}
	if err := os.Rename(part, dir); err != nil {
		if _, other := os.Stat(dir); other == nil {
			return dir, nil // another run was faster, with the same content
		}
		return "", err
	}
	return dir, nil
}
