package escapes

import (
	"fmt"
	"strings"
)

// kind says what a row is there to show.
type kind string

const (
	held   kind = "held"   // Landlock itself denies it
	closed kind = "closed" // gets out of a bare domain; confinectl closes it
	limit  kind = "limit"  // a documented limit, measured as open
	works  kind = "works"  // must go on working inside: a boundary that kills denies everything
)

// change is what a successful attempt changes outside the permit path.
type change int

const (
	nothing  change = iota // nothing that a look at the fixture shows
	content                // file content or names
	metadata               // mode, owner, times, attributes
)

const (
	asRoot = iota
	asUser
)

// expect is the verdict that a row must have inside the boundary, by Landlock ABI.
type expect struct {
	verdict string // alternatives are separated by "|"
	since   int    // from this ABI on
	before  string // below it
}

func always(verdict string) expect { return expect{verdict: verdict} }

// since is for what a later ABI closes: allowed below it.
func since(abi int, verdict string) expect { return expect{verdict, abi, "allowed"} }

func (e expect) at(abi int) string {
	if abi < e.since {
		return e.before
	}
	return e.verdict
}

func (e expect) String() string {
	if e.since == 0 {
		return e.verdict
	}
	return fmt.Sprintf("ABI %d: %s (before: %s)", e.since, e.verdict, e.before)
}

func both(e expect) [2]expect { return [2]expect{e, e} }

var (
	allowed   = both(always("allowed"))
	eacces    = both(always("denied EACCES"))
	eperm     = both(always("denied EPERM"))
	exdev     = both(always("denied EXDEV"))
	ebadf     = both(always("denied EBADF"))
	eaccesOr1 = both(always("denied EACCES|denied EPERM"))
)

// blocked says why the control of a row cannot succeed on some hosts, or for
// one of the users, and with which errno it then fails. It excuses nothing
// else: another errno is a failure, and the row confined must still not be
// allowed.
type blocked struct {
	errnos string // separated by blanks
	why    string
}

func (b blocked) covers(errno string) bool {
	for _, e := range strings.Fields(b.errnos) {
		if e == errno {
			return true
		}
	}
	return false
}

// row is one case: what is tried, by which set-up, and what must come of it.
type row struct {
	name    string // section/case; unique
	id      string // number in the list of what leaves a bare domain, if it is one of these
	about   string
	kind    kind
	want    [2]expect
	blocked [2]blocked
	changes change

	// try is the attempt. It runs in a process of its own, confined or not.
	// nil is a success; the errno that stopped it is the verdict otherwise.
	try func(a *attempt) error
	// inner runs in a child that try starts with attempt.child.
	inner func(a *attempt) error

	// prepare runs outside before the launch, with the fixture in place.
	prepare func(fx *fixture) error
	// step runs outside when the attempt calls attempt.ask.
	step func(fx *fixture) error
	// effect replaces the look at the fixture for what it cannot show.
	effect func(fx *fixture) (changed bool, err error)

	profile     func(fx *fixture) string // replaces the profile's text
	flags       []string                 // for confinectl exec
	silent      bool                     // the call succeeds in any case: without an effect it is harmless
	ownMounts   bool                     // runs in a mount namespace of its own
	rootFixture bool                     // only a privileged harness can prepare it
}

// wants is the verdict that must be measured for a user at an ABI.
func (r *row) wants(user, abi int) string { return r.want[user].at(abi) }

// matches compares a measured verdict with an expected one.
func matches(measured, want string) bool {
	for _, w := range strings.Split(want, "|") {
		if measured == w {
			return true
		}
	}
	return false
}

// rows is the whole table, in the order in which it is printed.
func rows() []*row {
	var all []*row
	for _, section := range [][]*row{
		pathRows(), linkRows(), handleRows(), processRows(), descriptorRows(), ringRows(),
		brokerRows(), terminalRows(), mountRows(), privilegeRows(), deviceRows(), kernelRows(),
		metadataRows(), subvolumeRows(), readRows(), execRows(), aliasRows(), moveRows(), profileRows(),
	} {
		all = append(all, section...)
	}
	return all
}
