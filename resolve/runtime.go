package resolve

import (
	"strings"
	"syscall"
)

// An entry of the runtime read set: what nearly every program must read to
// start. All entries are optional: what a host does not have is left out.
type runtimeEntry struct {
	text   string // the path, a colon, and why: the reason of its rule
	access Access
	who    runtimeUser
}

// Who an entry is for.
type runtimeUser uint8

const (
	everybody runtimeUser = iota
	onlyUsers             // ordinary users: file permissions still hide what is secret
	onlyRoot              // root, for whom file permissions hide nothing
	onlyPTY               // profiles with pty = true
)

// linuxRuntime was found by leaving out one entry after the other under 50
// programs and six agent CLIs. "Measured" says what broke without it; the others
// are read by programs that go on without them, wrongly configured.
//
// A symlink grants what it leads to: the kernel judges the target.
var linuxRuntime = []runtimeEntry{
	{"/usr: programs, libraries and their data; measured: nothing starts", Read | Execute, everybody},
	{"/bin: programs, where it is not a link into /usr", Read | Execute, everybody},
	{"/sbin: programs, where it is not a link into /usr", Read | Execute, everybody},
	{"/lib: libraries and the ELF interpreter, which needs execute; measured: execve fails", Read | Execute, everybody},
	{"/lib32: 32-bit libraries", Read | Execute, everybody},
	{"/lib64: the ELF interpreter of x86-64; measured: execve fails", Read | Execute, everybody},
	{"/opt: programs installed by vendors", Read | Execute, everybody},
	{"/nix/store: programs and libraries on NixOS", Read | Execute, everybody},
	{"/run/current-system/sw: the system profile of NixOS", Read | Execute, everybody},
	{"/snap: programs installed as snaps", Read | Execute, everybody},
	{"/home/linuxbrew/.linuxbrew: programs installed by Homebrew", Read | Execute, everybody},

	{"/etc: system configuration; a directory, because resolv.conf and passwd are replaced by rename", Read, onlyUsers},
	{"/etc/ld.so.cache: where the dynamic loader finds libraries", Read, onlyRoot},
	{"/etc/ld.so.conf: where the dynamic loader looks for libraries", Read, onlyRoot},
	{"/etc/ld.so.conf.d: where the dynamic loader looks for libraries", Read, onlyRoot},
	{"/etc/localtime: time zone", Read, onlyRoot},
	{"/etc/timezone: time zone", Read, onlyRoot},
	{"/etc/ssl: TLS roots and openssl.cnf; measured: node exits 13, curl 77", Read, onlyRoot},
	{"/etc/pki: TLS roots on RPM distributions", Read, onlyRoot},
	{"/etc/ca-certificates: TLS roots", Read, onlyRoot},
	{"/etc/crypto-policies: TLS settings on RPM distributions", Read, onlyRoot},
	{"/etc/gnutls: TLS settings", Read, onlyRoot},
	{"/etc/hostname: the host's name", Read, onlyRoot},
	{"/etc/nsswitch.conf: order of name services", Read, onlyRoot},
	{"/etc/host.conf: order of name services", Read, onlyRoot},
	{"/etc/gai.conf: order of addresses", Read, onlyRoot},
	{"/etc/services: measured: getservbyname fails", Read, onlyRoot},
	{"/etc/protocols: names of protocols", Read, onlyRoot},
	{"/etc/passwd: measured: ssh, whoami and os.userInfo fail", Read, onlyRoot},
	{"/etc/group: names of groups", Read, onlyRoot},
	{"/etc/locale.alias: locale", Read, onlyRoot},
	{"/etc/locale.conf: locale", Read, onlyRoot},
	{"/etc/default/locale: locale", Read, onlyRoot},
	{"/etc/terminfo: terminal descriptions", Read, onlyRoot},
	{"/etc/profile: measured: bash -l prints an error into every result", Read, onlyRoot},
	{"/etc/profile.d: sourced by /etc/profile", Read, onlyRoot},
	{"/etc/bash.bashrc: measured: bash -i prints an error into every result", Read, onlyRoot},
	{"/etc/bashrc: the same on RPM distributions", Read, onlyRoot},
	{"/etc/bash_completion.d: sourced by interactive bash", Read, onlyRoot},
	{"/etc/zsh: start-up files of zsh", Read, onlyRoot},
	{"/etc/inputrc: keys of readline", Read, onlyRoot},
	{"/etc/environment: variables of login sessions", Read, onlyRoot},
	{"/etc/shells: login shells", Read, onlyRoot},
	{"/etc/gitconfig: measured: git dies on one that exists and cannot be read", Read, onlyRoot},
	{"/etc/gitattributes: git", Read, onlyRoot},
	{"/etc/ssh/ssh_config: ssh client; the host keys beside it stay hidden", Read, onlyRoot},
	{"/etc/ssh/ssh_config.d: ssh client", Read, onlyRoot},
	{"/etc/ssh/ssh_known_hosts: ssh client", Read, onlyRoot},
	{"/etc/alternatives: Debian's links to programs", Read, onlyRoot},
	{"/etc/os-release: name of the distribution", Read, onlyRoot},
	{"/etc/lsb-release: name of the distribution", Read, onlyRoot},
	{"/etc/debian_version: name of the distribution", Read, onlyRoot},
	{"/etc/redhat-release: name of the distribution", Read, onlyRoot},
	{"/etc/alpine-release: name of the distribution", Read, onlyRoot},
	{"/etc/machine-id: read by agents and D-Bus clients", Read, onlyRoot},
	{"/etc/mime.types: measured: python's mimetypes raises", Read, onlyRoot},
	{"/etc/magic: measured: file(1) complains", Read, onlyRoot},
	{"/etc/npmrc: npm", Read, onlyRoot},
	{"/etc/wgetrc: wget", Read, onlyRoot},
	{"/etc/perl: perl", Read, onlyRoot},
	{"/etc/python3: python", Read, onlyRoot},
	{"/etc/python3.11: python of Debian 12", Read, onlyRoot},
	{"/etc/python3.12: python of Ubuntu 24.04", Read, onlyRoot},
	{"/etc/python3.13: python of Debian 13", Read, onlyRoot},
	{"/etc/java-17-openjdk: java of Debian 12", Read, onlyRoot},
	{"/etc/java-21-openjdk: java of Debian 13", Read, onlyRoot},
	{"/etc/vim: vim", Read, onlyRoot},
	{"/etc/manpath.config: man", Read, onlyRoot},
	{"/etc/login.defs: ranges of user ids", Read, onlyRoot},
	{"/etc/xdg: defaults of desktop programs", Read, onlyRoot},
	{"/etc/fonts: fontconfig", Read, onlyRoot},
	{"/etc/claude-code: managed settings of Claude Code", Read, onlyRoot},
	{"/etc/codex: managed settings of Codex", Read, onlyRoot},
	{"/etc/gemini-cli: managed settings of Gemini CLI", Read, onlyRoot},
	{"/etc/opencode: managed settings of opencode", Read, onlyRoot},

	// Both for everybody: either may be a link that leads out of /etc.
	{"/etc/resolv.conf: name servers; measured: glibc asks 127.0.0.1 instead", Read, everybody},
	{"/etc/hosts: measured: node and python cannot resolve localhost", Read, everybody},
	{"/run/systemd/resolve: where resolv.conf leads; a directory, because it is replaced by rename", Read, everybody},
	{"/run/NetworkManager: where resolv.conf leads", Read, everybody},
	{"/run/resolvconf: where resolv.conf leads", Read, everybody},

	{"/proc: measured: ps, java and opencode fail; /proc/self alone would bind to this process only", Read, everybody},
	{"/sys/devices/system: number of processors, for Bun and the JVM", Read, everybody},
	{"/sys/fs/cgroup: memory limits, for Bun and the JVM", Read, everybody},
	{"/sys/kernel/mm/transparent_hugepage: memory settings, for Go and the JVM", Read, everybody},

	{"/dev/null: measured: no agent can start a shell", Read | Write, everybody},
	{"/dev/zero: opened by name", Read | Write, everybody},
	{"/dev/full: opened by name", Read | Write, everybody},
	{"/dev/random: random bytes", Read, everybody},
	{"/dev/urandom: measured: git and opencode fail", Read, everybody},
	{"/dev/tty: the own terminal; measured: no password prompt works", Read | Write | Ioctl, everybody},
	{"/dev/ptmx: makes a pseudo-terminal; measured: script, tmux and the shell tool of Gemini fail", Read | Write | Ioctl, onlyPTY},
	{"/dev/pts: pseudo-terminals: the new ones, and the user's other ones", Read | Write | Ioctl, onlyPTY},
}

// darwinRuntime comes from what other projects grant and what they report to
// break without it; nothing of it was measured by us. Paths are real ones (/private/etc), because the arm
// compares text. The kinds are those of every macOS; they count only where the set is printed
// on a host that has none of these files.
//
// What a program needs and is not a file (Mach services, sysctls) is in the
// arm's base text. /System is not granted as a whole: /System/Volumes/Data
// is another name of everything the user has.
var darwinRuntime = []struct {
	kind    Kind
	entries []runtimeEntry
}{
	{Directory, []runtimeEntry{
		{"/usr: programs, libraries and their data", Read | Execute, everybody},
		{"/bin: programs", Read | Execute, everybody},
		{"/sbin: programs", Read | Execute, everybody},
		{"/opt: programs installed by Homebrew and by vendors", Read | Execute, everybody},
		{"/nix/store: programs and libraries of Nix", Read | Execute, everybody},
		{"/System/Library: frameworks, and the programs in them", Read | Execute, everybody},
		{"/System/Cryptexes: system libraries that are updated by themselves", Read | Execute, everybody},
		{"/System/Volumes/Preboot/Cryptexes: where /System/Cryptexes leads; the shared cache of dyld", Read | Execute, everybody},
		{"/System/iOSSupport: frameworks of Catalyst", Read | Execute, everybody},
		{"/private/var/db/dyld: the shared cache of dyld before macOS 13", Read, everybody},
		{"/private/var/db/timezone: time zones", Read, everybody},
		{"/private/var/select: which shell and developer directory were chosen", Read, everybody},
		{"/Library/Apple: Rosetta", Read | Execute, everybody},
		{"/Library/Frameworks: frameworks installed by vendors, Python for one", Read | Execute, everybody},
		{"/Library/Fonts: fonts", Read, everybody},
		{"/Library/Java: Java", Read | Execute, everybody},
		{"/Library/Filesystems/NetFSPlugins: loaded by the system's file libraries", Read | Execute, everybody},
		{"/Library/Developer/CommandLineTools: what /usr/bin/git, python3, clang and make run: they are shims of xcrun", Read | Execute, everybody},
		{xcodeLink + ": the developer directory that xcode-select chose", Read | Execute, everybody},
		{"/private/etc: system configuration", Read, onlyUsers},
		{"/private/etc/ssl: TLS roots of LibreSSL", Read, onlyRoot},
		{"/private/etc/ssh/ssh_config.d: ssh client; the host keys beside it stay hidden", Read, onlyRoot},
		{"/private/etc/paths.d: read by path_helper in /etc/profile", Read, onlyRoot},
		{"/Library/Application Support/ClaudeCode: managed settings of Claude Code", Read, everybody},
		{"/dev/fd: the own descriptors", Read | Write, everybody},
	}},
	{RegularFile, []runtimeEntry{
		{"/private/var/run/resolv.conf: where /etc/resolv.conf leads", Read, everybody},
		{"/Library/Preferences/.GlobalPreferences.plist: language and region", Read, everybody},
		{"/Library/Preferences/com.apple.networkd.plist: read by the network library", Read, everybody},
		{"/Library/Preferences/com.apple.dt.Xcode.plist: whether the licence of Xcode was accepted, without which its tools refuse to work", Read, everybody},
		{"/private/etc/hosts: names of hosts", Read, onlyRoot},
		{"/private/etc/services: names of services", Read, onlyRoot},
		{"/private/etc/protocols: names of protocols", Read, onlyRoot},
		{"/private/etc/passwd: names of users", Read, onlyRoot},
		{"/private/etc/group: names of groups", Read, onlyRoot},
		{"/private/etc/shells: login shells", Read, onlyRoot},
		{"/private/etc/paths: read by path_helper in /etc/profile", Read, onlyRoot},
		{"/private/etc/profile: start-up file of shells", Read, onlyRoot},
		{"/private/etc/bashrc: start-up file of bash", Read, onlyRoot},
		{"/private/etc/zshenv: start-up file of zsh", Read, onlyRoot},
		{"/private/etc/zprofile: start-up file of zsh", Read, onlyRoot},
		{"/private/etc/zshrc: start-up file of zsh", Read, onlyRoot},
		{"/private/etc/gitconfig: git stops on one that exists and cannot be read", Read, onlyRoot},
		{"/private/etc/ssh/ssh_config: ssh client", Read, onlyRoot},
		{"/private/etc/ssh/crypto.conf: included by ssh_config", Read, onlyRoot},
	}},
	{Device, []runtimeEntry{
		{"/dev/null: every shell opens it", Read | Write, everybody},
		{"/dev/zero: opened by name", Read | Write, everybody},
		{"/dev/random: random bytes", Read | Write, everybody},
		{"/dev/urandom: random bytes", Read | Write, everybody},
		{"/dev/autofs_nowait: opened by the system's file libraries", Read, everybody},
		{"/dev/dtracehelper: opened for writing by dyld; reported: programs die before main", Read | Write | Ioctl, everybody},
		{"/dev/tty: the own terminal", Read | Write | Ioctl, everybody},
		{"/dev/ptmx: makes a pseudo-terminal", Read | Write | Ioctl, onlyPTY},
	}},
}

// xcodeLink is the link that xcode-select keeps.
const xcodeLink = "/private/var/db/xcode_select_link"

// developerRoot is what has to be granted so that a developer directory works:
// of an Xcode the whole application, because its tools reach out of Contents/Developer.
func developerRoot(dir string) string {
	if app, _, inside := strings.Cut(dir, ".app/Contents/"); inside {
		return app + ".app"
	}
	return dir
}

// runtime grants the runtime read set, and the terminal that the caller sits at.
func (s *resolver) runtime(pty bool) {
	add := func(e runtimeEntry, kind Kind) {
		switch {
		case e.who == onlyUsers && s.facts.UID == 0, e.who == onlyRoot && s.facts.UID != 0, e.who == onlyPTY && !pty:
		default:
			path, _, _ := strings.Cut(e.text, ": ")
			s.runtimeRule(path, e.access, kind, e.text)
		}
	}
	switch s.facts.OS {
	case "linux":
		for _, e := range linuxRuntime {
			add(e, 0)
		}
	case "darwin":
		for _, group := range darwinRuntime {
			for _, e := range group.entries {
				add(e, group.kind)
			}
		}
	}
	for _, tty := range s.facts.Terminals {
		if badName(tty) != "" {
			continue
		}
		s.runtimeRule(tty, Read|Write|Ioctl, Device, tty+": the terminal that confinectl was started on")
	}
}

// runtimeRule grants one entry where the host has it. kind is what it is taken
// for where nobody can look.
func (s *resolver) runtimeRule(path string, access Access, kind Kind, why string) {
	if st, sure := s.walker.plain(path); sure && s.facts.OS == "linux" {
		if st != nil {
			s.runtimeGrant(path, access, st.Kind(), st.ID, why)
		}
		return
	}
	if _, err := s.walker.lstat(path); err == syscall.ENOENT && !s.facts.OnPaper {
		return // whatever lies on the way
	}
	t, err := s.walker.Walk(path)
	if err == nil && path == xcodeLink {
		if s.facts.OnPaper {
			return // nobody knows where it leads
		}
		if root := developerRoot(t.Real); root != t.Real && t.Rest == "" {
			t, err = s.walker.Walk(root)
		}
	}
	if err != nil || t.Rest != "" || badName(t.Real) != "" || s.foreign(t) != nil {
		return // an entry that this host does not have, or that somebody else has aimed
	}
	if !s.facts.OnPaper {
		kind = t.Stat.Kind()
	}
	s.runtimeGrant(t.Real, access, kind, t.Stat.ID, why)
}

func (s *resolver) runtimeGrant(path string, access Access, kind Kind, id FileID, why string) {
	if kind == 0 {
		return
	}
	if kind != Directory && kind != Device {
		access &^= Ioctl
	}
	s.grant(Rule{Path: path, Kind: kind, Access: access, ID: id}, Value{why, Origin{File: "runtime"}})
}
