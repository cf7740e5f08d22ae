package resolve

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Facts are what this host and this caller contribute to a boundary. Nothing
// here is measured again later: a caller collects them once ([loader.HostFacts]
// for the process it runs in) and passes them on. An empty field is an unset
// fact, and a policy that uses it is refused.
type Facts struct {
	OS  string // "linux" or "darwin", as runtime.GOOS names it
	UID int

	Home       string // $HOME
	TmpRoot    string // where temporary files go: $TMPDIR when set, else /tmp; /private/tmp on macOS
	Cwd        string // the caller's working directory
	ConfigHome string // $XDG_CONFIG_HOME, else ~/.config; likewise the next three
	CacheHome  string
	DataHome   string
	StateHome  string
	RuntimeDir string // $XDG_RUNTIME_DIR; has no default

	// User gives the name of UID in the user database, or "". It is a function
	// because looking it up costs a file, and few profiles ask. Nil: unset.
	User func() string

	// UserTmp gives the user's own temporary directory, confstr(3)'s
	// DARWIN_USER_TEMP_DIR: where private_tmp lies on macOS. A function, because asking
	// for it may cost a process. Not used on Linux. Nil: unset.
	UserTmp func() string

	// OnPaper says that these are facts of a host that is not this one, so
	// that no path can be looked at: every path is taken as it is written, for what its
	// key asks for, and nothing is missing. What is resolved like that is for
	// reading; no arm enforces it.
	OnPaper bool

	// Env is the caller's environment as it stands, "NAME=value" each. It
	// passes through to the command.
	Env []string

	// Terminals are the device files behind descriptors 0 to 2, real paths,
	// no path twice: the caller's own terminal.
	Terminals []string
}

// Getenv finds a variable of the caller's environment. Like getenv(3) it
// takes the first of two with one name.
func (f *Facts) Getenv(name string) (string, bool) {
	for _, kv := range f.Env {
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

// factNames are the facts that a value may use as ${NAME}, sorted.
var factNames = []string{"cache_home", "config_home", "cwd", "data_home", "home", "runtime_dir", "state_home", "tmproot", "uid", "user"}

// FactNames lists the facts that a value may use as ${NAME}, sorted;
// ${env:NAME} comes on top of them.
func FactNames() []string { return slices.Clone(factNames) }

// Lookup gives the value of one fact by the name it has in a document:
// "home", "cwd", "env:EDITOR". known is false for a name that no host has;
// an empty value means that this host does not have the fact.
func (f *Facts) Lookup(name string) (value string, known bool) {
	if v, ok := strings.CutPrefix(name, "env:"); ok {
		value, _ = f.Getenv(v)
		return value, v != ""
	}
	switch name {
	case "home":
		return f.Home, true
	case "cwd":
		return f.Cwd, true
	case "uid":
		return strconv.Itoa(f.UID), true
	case "user":
		if f.User == nil {
			return "", true
		}
		return f.User(), true
	case "tmproot":
		return f.TmpRoot, true
	case "config_home":
		return f.ConfigHome, true
	case "cache_home":
		return f.CacheHome, true
	case "data_home":
		return f.DataHome, true
	case "state_home":
		return f.StateHome, true
	case "runtime_dir":
		return f.RuntimeDir, true
	}
	return "", false
}

// A part of a value: a literal, or the name of a fact.
type part struct {
	text string
	fact bool
}

// split takes a value apart at its ${...}. A "$" that no brace follows is an
// ordinary character. why is not empty when a brace is never closed.
func split(s string) (parts []part, why string) {
	for s != "" {
		i := strings.Index(s, "${")
		if i < 0 {
			return append(parts, part{text: s}), ""
		}
		if i > 0 {
			parts = append(parts, part{text: s[:i]})
		}
		s = s[i+2:]
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return nil, "a ${ is never closed"
		}
		parts = append(parts, part{text: s[:end], fact: true})
		s = s[end+1:]
	}
	return parts, ""
}

// expand puts facts in the place of ${...}, first those of extra, then the
// host's. unset names the first fact that has no value here. The syntax of s was
// checked when the document was read; a fact that is unknown all the same
// counts as unset.
func (f *Facts) expand(s string, extra map[string]string) (out, unset string) {
	parts, why := split(s)
	if why != "" {
		return "", s
	}
	var b strings.Builder
	for _, p := range parts {
		if !p.fact {
			b.WriteString(p.text)
			continue
		}
		v, ok := extra[p.text]
		if !ok {
			v, _ = f.Lookup(p.text)
		}
		if v == "" {
			return "", p.text
		}
		b.WriteString(v)
	}
	return b.String(), ""
}

// expandPath is expand for a path: "~/" at the beginning is the home
// directory. The result still has to be absolute.
func (f *Facts) expandPath(s string, extra map[string]string) (out, unset string) {
	if rest, ok := strings.CutPrefix(s, "~/"); ok {
		if f.Home == "" {
			return "", "home"
		}
		out, unset = f.expand(rest, extra)
		return strings.TrimRight(f.Home, "/") + "/" + out, unset
	}
	return f.expand(s, extra)
}

// Absolute makes a path that a person typed on a command line absolute: it
// means the caller's working directory, as everywhere in a shell. Paths of
// documents never pass here. It is lexical and keeps "..", which only the walk
// can resolve. Where the working directory is unset the path stays relative, and
// is refused later on.
func (f *Facts) Absolute(path string) string {
	if path == "" || filepath.IsAbs(path) || f.Cwd == "" {
		return path
	}
	return strings.TrimRight(f.Cwd, "/") + "/" + path
}
