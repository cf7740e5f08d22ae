package resolve

import "strings"

// An entry of the runtime read set: what nearly every program must read to
// start. All entries are optional: what a host does not have is left out.
type runtimeEntry struct {
	path   string
	access Access
	who    runtimeUser
	why    string
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
	{"/usr", Read | Execute, everybody, "programs, libraries and their data; measured: nothing starts"},
	{"/bin", Read | Execute, everybody, "programs, where it is not a link into /usr"},
	{"/sbin", Read | Execute, everybody, "programs, where it is not a link into /usr"},
	{"/lib", Read | Execute, everybody, "libraries and the ELF interpreter, which needs execute; measured: execve fails"},
	{"/lib32", Read | Execute, everybody, "32-bit libraries"},
	{"/lib64", Read | Execute, everybody, "the ELF interpreter of x86-64; measured: execve fails"},
	{"/opt", Read | Execute, everybody, "programs installed by vendors"},
	{"/nix/store", Read | Execute, everybody, "programs and libraries on NixOS"},
	{"/run/current-system/sw", Read | Execute, everybody, "the system profile of NixOS"},
	{"/snap", Read | Execute, everybody, "programs installed as snaps"},
	{"/home/linuxbrew/.linuxbrew", Read | Execute, everybody, "programs installed by Homebrew"},

	{"/etc", Read, onlyUsers, "system configuration; a directory, because resolv.conf and passwd are replaced by rename"},
	{"/etc/ld.so.cache", Read, onlyRoot, "where the dynamic loader finds libraries"},
	{"/etc/ld.so.conf", Read, onlyRoot, "where the dynamic loader looks for libraries"},
	{"/etc/ld.so.conf.d", Read, onlyRoot, "where the dynamic loader looks for libraries"},
	{"/etc/localtime", Read, onlyRoot, "time zone"},
	{"/etc/timezone", Read, onlyRoot, "time zone"},
	{"/etc/ssl", Read, onlyRoot, "TLS roots and openssl.cnf; measured: node exits 13, curl 77"},
	{"/etc/pki", Read, onlyRoot, "TLS roots on RPM distributions"},
	{"/etc/ca-certificates", Read, onlyRoot, "TLS roots"},
	{"/etc/crypto-policies", Read, onlyRoot, "TLS settings on RPM distributions"},
	{"/etc/gnutls", Read, onlyRoot, "TLS settings"},
	{"/etc/hostname", Read, onlyRoot, "the host's name"},
	{"/etc/nsswitch.conf", Read, onlyRoot, "order of name services"},
	{"/etc/host.conf", Read, onlyRoot, "order of name services"},
	{"/etc/gai.conf", Read, onlyRoot, "order of addresses"},
	{"/etc/services", Read, onlyRoot, "measured: getservbyname fails"},
	{"/etc/protocols", Read, onlyRoot, "names of protocols"},
	{"/etc/passwd", Read, onlyRoot, "measured: ssh, whoami and os.userInfo fail"},
	{"/etc/group", Read, onlyRoot, "names of groups"},
	{"/etc/locale.alias", Read, onlyRoot, "locale"},
	{"/etc/locale.conf", Read, onlyRoot, "locale"},
	{"/etc/default/locale", Read, onlyRoot, "locale"},
	{"/etc/terminfo", Read, onlyRoot, "terminal descriptions"},
	{"/etc/profile", Read, onlyRoot, "measured: bash -l prints an error into every result"},
	{"/etc/profile.d", Read, onlyRoot, "sourced by /etc/profile"},
	{"/etc/bash.bashrc", Read, onlyRoot, "measured: bash -i prints an error into every result"},
	{"/etc/bashrc", Read, onlyRoot, "the same on RPM distributions"},
	{"/etc/bash_completion.d", Read, onlyRoot, "sourced by interactive bash"},
	{"/etc/zsh", Read, onlyRoot, "start-up files of zsh"},
	{"/etc/inputrc", Read, onlyRoot, "keys of readline"},
	{"/etc/environment", Read, onlyRoot, "variables of login sessions"},
	{"/etc/shells", Read, onlyRoot, "login shells"},
	{"/etc/gitconfig", Read, onlyRoot, "measured: git dies on one that exists and cannot be read"},
	{"/etc/gitattributes", Read, onlyRoot, "git"},
	{"/etc/ssh/ssh_config", Read, onlyRoot, "ssh client; the host keys beside it stay hidden"},
	{"/etc/ssh/ssh_config.d", Read, onlyRoot, "ssh client"},
	{"/etc/ssh/ssh_known_hosts", Read, onlyRoot, "ssh client"},
	{"/etc/alternatives", Read, onlyRoot, "Debian's links to programs"},
	{"/etc/os-release", Read, onlyRoot, "name of the distribution"},
	{"/etc/lsb-release", Read, onlyRoot, "name of the distribution"},
	{"/etc/debian_version", Read, onlyRoot, "name of the distribution"},
	{"/etc/redhat-release", Read, onlyRoot, "name of the distribution"},
	{"/etc/alpine-release", Read, onlyRoot, "name of the distribution"},
	{"/etc/machine-id", Read, onlyRoot, "read by agents and D-Bus clients"},
	{"/etc/mime.types", Read, onlyRoot, "measured: python's mimetypes raises"},
	{"/etc/magic", Read, onlyRoot, "measured: file(1) complains"},
	{"/etc/npmrc", Read, onlyRoot, "npm"},
	{"/etc/wgetrc", Read, onlyRoot, "wget"},
	{"/etc/perl", Read, onlyRoot, "perl"},
	{"/etc/python3", Read, onlyRoot, "python"},
	{"/etc/python3.11", Read, onlyRoot, "python of Debian 12"},
	{"/etc/python3.12", Read, onlyRoot, "python of Ubuntu 24.04"},
	{"/etc/python3.13", Read, onlyRoot, "python of Debian 13"},
	{"/etc/java-17-openjdk", Read, onlyRoot, "java of Debian 12"},
	{"/etc/java-21-openjdk", Read, onlyRoot, "java of Debian 13"},
	{"/etc/vim", Read, onlyRoot, "vim"},
	{"/etc/manpath.config", Read, onlyRoot, "man"},
	{"/etc/login.defs", Read, onlyRoot, "ranges of user ids"},
	{"/etc/xdg", Read, onlyRoot, "defaults of desktop programs"},
	{"/etc/fonts", Read, onlyRoot, "fontconfig"},
	{"/etc/claude-code", Read, onlyRoot, "managed settings of Claude Code"},
	{"/etc/codex", Read, onlyRoot, "managed settings of Codex"},
	{"/etc/gemini-cli", Read, onlyRoot, "managed settings of Gemini CLI"},
	{"/etc/opencode", Read, onlyRoot, "managed settings of opencode"},

	// Both for everybody: either may be a link that leads out of /etc.
	{"/etc/resolv.conf", Read, everybody, "name servers; measured: glibc asks 127.0.0.1 instead"},
	{"/etc/hosts", Read, everybody, "measured: node and python cannot resolve localhost"},
	{"/run/systemd/resolve", Read, everybody, "where resolv.conf leads; a directory, because it is replaced by rename"},
	{"/run/NetworkManager", Read, everybody, "where resolv.conf leads"},
	{"/run/resolvconf", Read, everybody, "where resolv.conf leads"},

	{"/proc", Read, everybody, "measured: ps, java and opencode fail; /proc/self alone would bind to this process only"},
	{"/sys/devices/system", Read, everybody, "number of processors, for Bun and the JVM"},
	{"/sys/fs/cgroup", Read, everybody, "memory limits, for Bun and the JVM"},
	{"/sys/kernel/mm/transparent_hugepage", Read, everybody, "memory settings, for Go and the JVM"},

	{"/dev/null", Read | Write, everybody, "measured: no agent can start a shell"},
	{"/dev/zero", Read | Write, everybody, "opened by name"},
	{"/dev/full", Read | Write, everybody, "opened by name"},
	{"/dev/random", Read, everybody, "random bytes"},
	{"/dev/urandom", Read, everybody, "measured: git and opencode fail"},
	{"/dev/tty", Read | Write | Ioctl, everybody, "the own terminal; measured: no password prompt works"},
	{"/dev/ptmx", Read | Write | Ioctl, onlyPTY, "makes a pseudo-terminal; measured: script, tmux and the shell tool of Gemini fail"},
	{"/dev/pts", Read | Write | Ioctl, onlyPTY, "pseudo-terminals: the new ones, and the user's other ones"},
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
		{"/usr", Read | Execute, everybody, "programs, libraries and their data"},
		{"/bin", Read | Execute, everybody, "programs"},
		{"/sbin", Read | Execute, everybody, "programs"},
		{"/opt", Read | Execute, everybody, "programs installed by Homebrew and by vendors"},
		{"/nix/store", Read | Execute, everybody, "programs and libraries of Nix"},
		{"/System/Library", Read | Execute, everybody, "frameworks, and the programs in them"},
		{"/System/Cryptexes", Read | Execute, everybody, "system libraries that are updated by themselves"},
		{"/System/Volumes/Preboot/Cryptexes", Read | Execute, everybody, "where /System/Cryptexes leads; the shared cache of dyld"},
		{"/System/iOSSupport", Read | Execute, everybody, "frameworks of Catalyst"},
		{"/private/var/db/dyld", Read, everybody, "the shared cache of dyld before macOS 13"},
		{"/private/var/db/timezone", Read, everybody, "time zones"},
		{"/private/var/select", Read, everybody, "which shell and developer directory were chosen"},
		{"/Library/Apple", Read | Execute, everybody, "Rosetta"},
		{"/Library/Frameworks", Read | Execute, everybody, "frameworks installed by vendors, Python for one"},
		{"/Library/Fonts", Read, everybody, "fonts"},
		{"/Library/Java", Read | Execute, everybody, "Java"},
		{"/Library/Filesystems/NetFSPlugins", Read | Execute, everybody, "loaded by the system's file libraries"},
		{"/Library/Developer/CommandLineTools", Read | Execute, everybody, "what /usr/bin/git, python3, clang and make run: they are shims of xcrun"},
		{xcodeLink, Read | Execute, everybody, "the developer directory that xcode-select chose"},
		{"/private/etc", Read, onlyUsers, "system configuration"},
		{"/private/etc/ssl", Read, onlyRoot, "TLS roots of LibreSSL"},
		{"/private/etc/ssh/ssh_config.d", Read, onlyRoot, "ssh client; the host keys beside it stay hidden"},
		{"/private/etc/paths.d", Read, onlyRoot, "read by path_helper in /etc/profile"},
		{"/Library/Application Support/ClaudeCode", Read, everybody, "managed settings of Claude Code"},
		{"/dev/fd", Read | Write, everybody, "the own descriptors"},
	}},
	{RegularFile, []runtimeEntry{
		{"/private/var/run/resolv.conf", Read, everybody, "where /etc/resolv.conf leads"},
		{"/Library/Preferences/.GlobalPreferences.plist", Read, everybody, "language and region"},
		{"/Library/Preferences/com.apple.networkd.plist", Read, everybody, "read by the network library"},
		{"/Library/Preferences/com.apple.dt.Xcode.plist", Read, everybody, "whether the licence of Xcode was accepted, without which its tools refuse to work"},
		{"/private/etc/hosts", Read, onlyRoot, "names of hosts"},
		{"/private/etc/services", Read, onlyRoot, "names of services"},
		{"/private/etc/protocols", Read, onlyRoot, "names of protocols"},
		{"/private/etc/passwd", Read, onlyRoot, "names of users"},
		{"/private/etc/group", Read, onlyRoot, "names of groups"},
		{"/private/etc/shells", Read, onlyRoot, "login shells"},
		{"/private/etc/paths", Read, onlyRoot, "read by path_helper in /etc/profile"},
		{"/private/etc/profile", Read, onlyRoot, "start-up file of shells"},
		{"/private/etc/bashrc", Read, onlyRoot, "start-up file of bash"},
		{"/private/etc/zshenv", Read, onlyRoot, "start-up file of zsh"},
		{"/private/etc/zprofile", Read, onlyRoot, "start-up file of zsh"},
		{"/private/etc/zshrc", Read, onlyRoot, "start-up file of zsh"},
		{"/private/etc/gitconfig", Read, onlyRoot, "git stops on one that exists and cannot be read"},
		{"/private/etc/ssh/ssh_config", Read, onlyRoot, "ssh client"},
		{"/private/etc/ssh/crypto.conf", Read, onlyRoot, "included by ssh_config"},
	}},
	{Device, []runtimeEntry{
		{"/dev/null", Read | Write, everybody, "every shell opens it"},
		{"/dev/zero", Read | Write, everybody, "opened by name"},
		{"/dev/random", Read | Write, everybody, "random bytes"},
		{"/dev/urandom", Read | Write, everybody, "random bytes"},
		{"/dev/autofs_nowait", Read, everybody, "opened by the system's file libraries"},
		{"/dev/dtracehelper", Read | Write | Ioctl, everybody, "opened for writing by dyld; reported: programs die before main"},
		{"/dev/tty", Read | Write | Ioctl, everybody, "the own terminal"},
		{"/dev/ptmx", Read | Write | Ioctl, onlyPTY, "makes a pseudo-terminal"},
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
			s.runtimeRule(e.path, e.access, kind, e.why)
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
		s.runtimeRule(tty, Read|Write|Ioctl, Device, "the terminal that confinectl was started on")
	}
}

// runtimeRule grants one entry where the host has it. kind is what it is taken
// for where nobody can look.
func (s *resolver) runtimeRule(path string, access Access, kind Kind, why string) {
	why = s.text(path, ": ", why)
	if st, sure := s.walker.plain(path); sure && s.facts.OS == "linux" {
		if st != nil {
			s.runtimeGrant(path, access, st.Kind(), st.ID, why)
		}
		return
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

// text joins strings in the one buffer that all of them share.
func (s *resolver) text(parts ...string) string {
	if s.texts.Len() == 0 {
		s.texts.Grow(4096)
	}
	start := s.texts.Len()
	for _, part := range parts {
		s.texts.WriteString(part)
	}
	return s.texts.String()[start:]
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
