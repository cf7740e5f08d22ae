// Package fakeabi makes this host look, to one child process and everything
// below it, as if it had another Landlock: an older or newer ABI, none at all, or one that
// fails at a certain step.
//
// It answers the landlock system calls of the child through seccomp user
// notification (seccomp_unotify(2)); what it does not answer the real
// kernel does, and the real kernel enforces. It is a tool for tests: what it says about rights of an
// ABI is the child's view only, and a child that wants to can tell the difference.
package fakeabi

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
)

// Spec says how the Landlock of the host shall look. The zero Spec leaves it as it is.
type Spec struct {
	ABI        int // the version query answers ABI, and rights that are newer give EINVAL; 0 leaves both to the kernel
	Errata     int // answer of the errata query, with FakeErrata
	FakeErrata bool

	All          syscall.Errno // every landlock call fails with it
	AddRule      syscall.Errno // only landlock_add_rule does
	RestrictSelf syscall.Errno // only landlock_restrict_self does

	// Liar makes landlock_restrict_self report success and enforce nothing: what a checker
	// must find out.
	Liar bool
}

// Usage is the command line that [Parse] reads.
const Usage = "usage: fakeabi [-v ABI] [-x ERRATA] [-e ERRNO] [-a ERRNO] [-r ERRNO] [-l] [--] CMD [ARG...]"

// Parse takes the arguments of a command line apart. An ERRNO is a number or a
// name. -l is the liar. -v 0 is a kernel with Landlock switched off at boot: -e EOPNOTSUPP.
func Parse(args []string) (s Spec, argv []string, err error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flag := args[0]
		if flag == "--" {
			args = args[1:]
			break
		}
		if flag == "-l" {
			s.Liar, args = true, args[1:]
			continue
		}
		if len(args) < 2 {
			return s, nil, errors.New(Usage)
		}
		value := args[1]
		args = args[2:]
		switch flag {
		case "-v", "-x":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 {
				return s, nil, fmt.Errorf("%s %s: not a number", flag, value)
			}
			switch {
			case flag == "-x":
				s.Errata, s.FakeErrata = n, true
			case n == 0:
				s.All = syscall.EOPNOTSUPP
			default:
				s.ABI = n
			}
		case "-e", "-a", "-r":
			e, err := parseErrno(value)
			if err != nil {
				return s, nil, fmt.Errorf("%s %s: %w", flag, value, err)
			}
			switch flag {
			case "-e":
				s.All = e
			case "-a":
				s.AddRule = e
			case "-r":
				s.RestrictSelf = e
			}
		default:
			return s, nil, errors.New(Usage)
		}
	}
	if len(args) == 0 {
		return s, nil, errors.New(Usage)
	}
	return s, args, nil
}
