package loader

import (
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/confinectl/confinectl/resolve"
)

// HostFacts collects the facts of this process: its user, its working
// directory, and what env, its environment, says of the rest. A variable that is set to
// the empty string counts as unset, and so does a relative XDG directory, as the XDG
// base directory specification demands.
//
// The home directory is $HOME and nothing else: agents and shells look there,
// and a boundary around another directory than they use would confine them
// wrongly. Without $HOME the fact is unset.
func HostFacts(env []string) *resolve.Facts {
	f := &resolve.Facts{OS: runtime.GOOS, UID: os.Getuid(), Env: env, Terminals: terminals()}
	f.Cwd, _ = syscall.Getwd() // unset in a directory that was removed
	if !strings.HasPrefix(f.Cwd, "/") {
		f.Cwd = "" // "(unreachable)…", getcwd(2)
	}
	f.Home, _ = f.Getenv("HOME")
	f.ConfigHome = xdg(f, "XDG_CONFIG_HOME", ".config")
	f.CacheHome = xdg(f, "XDG_CACHE_HOME", ".cache")
	f.DataHome = xdg(f, "XDG_DATA_HOME", ".local/share")
	f.StateHome = xdg(f, "XDG_STATE_HOME", ".local/state")
	f.RuntimeDir = xdg(f, "XDG_RUNTIME_DIR", "")
	f.TmpRoot = tmpRoot(f)
	f.UserTmp = func() string { return userTmp(f) }
	f.User = func() string {
		u, err := user.LookupId(strconv.Itoa(f.UID))
		if err != nil {
			return ""
		}
		return u.Username
	}
	return f
}

func xdg(f *resolve.Facts, name, below string) string {
	if v, _ := f.Getenv(name); strings.HasPrefix(v, "/") {
		return v
	}
	if below == "" || f.Home == "" {
		return ""
	}
	return strings.TrimRight(f.Home, "/") + "/" + below
}

// tmpRoot is the directory that an agent itself would take for temporary
// files: on Linux $TMPDIR, else /tmp; on macOS /private/tmp, because Claude
// Code does not look at TMPDIR there (its program text; not measured).
func tmpRoot(f *resolve.Facts) string {
	if f.OS == "darwin" {
		return "/private/tmp"
	}
	if v, _ := f.Getenv("TMPDIR"); v != "" {
		return v
	}
	return "/tmp"
}

// darwinTmp reports whether a path has the form that confstr(3) gives
// DARWIN_USER_TEMP_DIR: /var/folders/XX/HASH/T/, also by its real name.
func darwinTmp(path string) bool {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(path, "/private"), "/var/folders/")
	if !ok {
		return false
	}
	parts := strings.Split(strings.TrimSuffix(rest, "/"), "/")
	return len(parts) == 3 && len(parts[0]) == 2 && len(parts[1]) > 8 && !strings.Contains(parts[1], ".") && parts[2] == "T"
}

// PaperFacts are the facts of a host of another operating system, for a report
// on what a profile would come to there. None of them is known, so they are
// made to be recognised: the home directory is the usual one for a user of this
// name, a working directory below the home directory of this host lies at the same place below that one, the
// rest follows from it. The environment stays this caller's, so that a
// report can be asked for with other values.
func PaperFacts(here *resolve.Facts, os string) *resolve.Facts {
	f := *here
	f.OS, f.OnPaper, f.Terminals, f.RuntimeDir = os, true, nil, ""
	name := ""
	if here.User != nil {
		name = here.User()
	}
	if name == "" {
		name = "user"
	}
	switch {
	case os == "darwin" && f.UID == 0:
		f.Home = "/private/var/root"
	case os == "darwin":
		f.Home = "/Users/" + name
	case f.UID == 0:
		f.Home = "/root"
	default:
		f.Home = "/home/" + name
	}
	f.ConfigHome, f.CacheHome, f.DataHome, f.StateHome = f.Home+"/.config", f.Home+"/.cache", f.Home+"/.local/share", f.Home+"/.local/state"
	if rest, below := strings.CutPrefix(here.Cwd, strings.TrimRight(here.Home, "/")+"/"); below && here.Home != "" {
		f.Cwd = f.Home + "/" + rest
	}
	f.TmpRoot = "/tmp"
	if os == "darwin" {
		f.TmpRoot = "/private/tmp"
		f.UserTmp = func() string { return "/private/var/folders/xx/0123456789abcdef0123456789abcd/T" }
	}
	return &f
}
