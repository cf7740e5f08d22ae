package enforce

import (
	"os"
	"strings"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/resolve"
)

func compileHere(b *resolve.Boundary) (*Plan, error) { return compile(b, probeArm()) }

// Probe asks this machine what it can enforce. It creates and closes an empty ruleset,
// reads one sysctl, and changes nothing.
func Probe() Host {
	h := probeArm()
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Release = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/sys/dev/tty/legacy_tiocsti"); err == nil {
		h.LegacyTIOCSTI = strings.TrimSpace(string(b))
	}
	return h
}

// probeArm is Probe without what only reports print.
func probeArm() Host {
	offered, err := ll.LandlockGetABIVersion()
	errata := 0
	if err == nil {
		if e, err := ll.LandlockGetErrata(); err == nil {
			errata = e // older kernels do not know the query: none is fixed
		}
	}
	return hostOf(offered, err, errata, accepts)
}

// accepts tries the whole handled set of an ABI on the kernel.
func accepts(abi int) error {
	fd, err := createRuleset(Handled(abi))
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// createRuleset makes a ruleset that handles the rights and scopes; the kernel marks its
// descriptor close-on-exec.
func createRuleset(r Rights, s Scopes) (int, error) {
	return ll.LandlockCreateRuleset(&ll.RulesetAttr{HandledAccessFS: uint64(r), Scoped: uint64(s)}, 0)
}
