package enforce

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/confinectl/confinectl/resolve"
)

// Host is what this machine can enforce, as [Probe] found it.
type Host struct {
	Arm     string // "landlock" or "seatbelt"; empty where there is none
	Release string // of the kernel

	// The next four are Landlock's, and zero elsewhere.
	Offered int    // the Landlock ABI that the kernel claims; 0 where there is none
	Used    int    // the ABI that counts: what the kernel then accepts, at most [NewestABI]
	Lowered string // why Used is less than Offered; empty where it is not
	Errata  int    // bit N-1 is set when erratum N is fixed

	// LegacyTIOCSTI is sysctl dev.tty.legacy_tiocsti: "1" when any process may
	// type into its terminal, "0" when only a privileged one may; empty
	// where the kernel does not say, which means "1".
	LegacyTIOCSTI string

	// Missing says why nothing can be enforced here: arm-missing, or apply-failed
	// where the question itself failed. Nil when an arm was found.
	Missing *resolve.Refusal
}

// fixedSignalScope is the errata bit of erratum 2: signals between the threads
// of one process were denied across domains. go-landlock counts a kernel without the fix as ABI 5.
const fixedSignalScope = 1 << 1

// hostOf judges what the kernel said. offered and err are the answer to the
// version query, accepts asks the kernel to create a ruleset of one ABI. A claim is
// believed only as far as the kernel then acts on it: a kernel may know fewer rights
// than its number says (RHEL 9 claimed ABI 6 without the signal scope).
func hostOf(offered int, err error, errata int, accepts func(abi int) error) Host {
	if err != nil || offered < 1 {
		return Host{Missing: missing(err)}
	}
	h := Host{Arm: "landlock", Offered: offered, Errata: errata, Used: offered}
	if h.Used > NewestABI {
		h.Used, h.Lowered = NewestABI, fmt.Sprintf("ABI %d is the newest that this program knows", NewestABI)
	}
	if h.Used >= 6 && errata&fixedSignalScope == 0 {
		h.Used, h.Lowered = 5, "erratum 2 (signal scope between threads) is not fixed in this kernel"
	}
	for ; h.Used > 0; h.Used-- {
		err := accepts(h.Used)
		if err == nil {
			return h
		}
		// A kernel that knows a smaller attribute struct than the rights need
		// answers E2BIG, one that knows the struct and not the bits EINVAL.
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.E2BIG) {
			return Host{Arm: h.Arm, Offered: offered, Errata: errata, Missing: applyFailed("landlock_create_ruleset", err)}
		}
		h.Lowered = fmt.Sprintf("this kernel refuses the rights of ABI %d", h.Used)
	}
	return Host{Offered: offered, Errata: errata, Missing: &resolve.Refusal{Code: resolve.ArmMissing, Subject: "landlock",
		Detail: fmt.Sprintf("the kernel claims ABI %d and refuses even the rights of ABI 1", offered)}}
}

// missing tells apart why the version query failed. Source: landlock_create_ruleset(2).
func missing(err error) *resolve.Refusal {
	r := &resolve.Refusal{Code: resolve.ArmMissing, Subject: "landlock", Cause: err}
	switch {
	case errors.Is(err, syscall.ENOSYS):
		r.Detail = "this kernel was built without Landlock"
		r.Hints = []string{"boot a kernel of Linux 5.13 or later that has CONFIG_SECURITY_LANDLOCK=y"}
	case errors.Is(err, syscall.EOPNOTSUPP):
		r.Detail = "Landlock is built into this kernel and was disabled at boot: lsm= does not list it"
		r.Hints = []string{"put landlock first in lsm= on the kernel command line and reboot (`cat /sys/kernel/security/lsm` shows the list)"}
	case errors.Is(err, syscall.EPERM):
		r.Detail = "the landlock system calls are blocked, as by the seccomp filter of a container"
		r.Hints = []string{"permit landlock_create_ruleset, landlock_add_rule and landlock_restrict_self in the container's seccomp profile"}
	case err == nil:
		r.Detail = "the kernel offers no ABI"
	default:
		r.Detail = "the version query failed: " + err.Error()
	}
	return r
}

func applyFailed(step string, err error) *resolve.Refusal {
	return &resolve.Refusal{Code: resolve.ApplyFailed, Subject: step, Detail: errno(err), Cause: err}
}

// errno is the system's own words for an error, without what a library put
// around them.
func errno(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}
