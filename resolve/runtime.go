package resolve

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
	{"/etc/mtab", Read, onlyRoot, "mount table"},
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

// runtimeSet is the runtime read set of an operating system. That of macOS
// belongs to its arm and is not written yet.
func runtimeSet(os string) []runtimeEntry {
	if os == "linux" {
		return linuxRuntime
	}
	return nil
}
