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
