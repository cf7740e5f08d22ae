package findings

import "strings"

// Names of files and directories that run outside later, by their last
// components: a home directory may be a root, or lie below one.
var endings = []struct {
	end  string
	code Code
}{
	{".bashrc", ShellStartup}, {".bash_profile", ShellStartup}, {".bash_login", ShellStartup}, {".bash_logout", ShellStartup},
	{".bash_aliases", ShellStartup}, {".profile", ShellStartup}, {".zshrc", ShellStartup}, {".zshenv", ShellStartup}, {".zprofile", ShellStartup},
	{".zlogin", ShellStartup}, {".zlogout", ShellStartup}, {".kshrc", ShellStartup}, {".mkshrc", ShellStartup}, {".cshrc", ShellStartup}, {".tcshrc", ShellStartup},
	{".xprofile", ShellStartup}, {".xsession", ShellStartup}, {".xinitrc", ShellStartup}, {".pam_environment", ShellStartup},
	{".config/fish/config.fish", ShellStartup}, {".config/fish/conf.d", ShellStartup}, {".config/environment.d", ShellStartup},
	{".ssh/authorized_keys", AuthorizedKeys}, {".ssh/authorized_keys2", AuthorizedKeys}, {".ssh/rc", ShellStartup},
	{".config/autostart", Autostart}, {".config/systemd/user", SystemdUnit}, {".local/share/systemd/user", SystemdUnit},
	{".local/bin", PathDirectory}, {"spool/cron", Crontab}, {"cron/crontabs", Crontab},
	{".git/hooks", GitHooks}, {".husky", GitHooks}, {".envrc", EnvRC},
	{".vscode/tasks.json", EditorTask}, {".vscode/launch.json", EditorTask}, {".vscode/settings.json", EditorTask},
	{".idea/runConfigurations", EditorTask}, {".exrc", EditorTask}, {".nvimrc", EditorTask}, {".vimrc", EditorTask}, {".dir-locals.el", EditorTask},
	{".mcp.json", AgentHooks}, {".cursor/mcp.json", AgentHooks},
}

// settings are files of agents in which commands may stand, and the words that show them.
var settings = []struct {
	end   string
	words []string
}{
	{".claude/settings.json", []string{`"hooks"`, `"statusLine"`, `"apiKeyHelper"`}},
	{".claude/settings.local.json", []string{`"hooks"`, `"statusLine"`, `"apiKeyHelper"`}},
	{".claude.json", []string{`"mcpServers"`}},
	{".codex/config.toml", []string{"notify", "mcp_servers", "hooks"}},
	{".codex/hooks.json", []string{"command"}},
	{".gemini/settings.json", []string{`"mcpServers"`, `"hooks"`, `"discoveryCommand"`}},
	{".qwen/settings.json", []string{`"mcpServers"`, `"hooks"`}},
	{".copilot/mcp-config.json", []string{`"command"`}},
	{".config/opencode/opencode.json", []string{`"mcp"`, `"plugin"`, `"hook"`}},
	{"opencode.json", []string{`"mcp"`, `"plugin"`, `"hook"`}},
}

// system are places outside home directories that run what is in them.
var system = []struct {
	path string
	code Code
}{
	{"/etc/crontab", Crontab}, {"/etc/cron.d", Crontab}, {"/etc/cron.hourly", Crontab}, {"/etc/cron.daily", Crontab}, {"/etc/cron.weekly", Crontab},
	{"/var/spool/cron", Crontab}, {"/etc/systemd/system", SystemdUnit}, {"/etc/systemd/user", SystemdUnit}, {"/usr/lib/systemd/system", SystemdUnit},
	{"/etc/xdg/autostart", Autostart}, {"/etc/profile", ShellStartup}, {"/etc/profile.d", ShellStartup}, {"/etc/bash.bashrc", ShellStartup},
}

// lastly gives the endings by their last component, which a walk looks up for every name.
func lastly() map[string][]int {
	by := map[string][]int{}
	for i, e := range endings {
		name := e.end[strings.LastIndexByte(e.end, '/')+1:]
		by[name] = append(by[name], i)
	}
	for i, s := range settings {
		name := s.end[strings.LastIndexByte(s.end, '/')+1:]
		by[name] = append(by[name], len(endings)+i)
	}
	return by
}

// known says what a socket is, by its path.
func known(path string) string {
	for _, k := range []struct{ part, what string }{
		{"/docker.sock", "the Docker daemon, which is root"}, {"/podman/", "the Podman service"}, {"/containerd", "containerd"}, {"/bus", "a D-Bus bus"},
		{"/ssh-", "an ssh-agent"}, {"/S.gpg-agent", "a gpg-agent"}, {"/tmux-", "a tmux server"}, {"/systemd/private", "systemd"}, {"/systemd/notify", "systemd"},
		{"/cc-daemon-", "the background daemon of Claude Code"}, {"/app-server-control", "the background daemon of Codex"}, {"/codex-daemon-", "the background daemon of Codex"},
		{"/.X11-unix/", "an X server"}, {"/wayland-", "a Wayland compositor"}, {"/libvirt/", "libvirt"}, {"/snapd", "snapd"}, {"/gvfsd", "gvfs"}, {"/keyring/", "the key ring"},
	} {
		if strings.Contains(path, k.part) {
			return k.what
		}
	}
	return ""
}
