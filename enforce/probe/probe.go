// Package probe measures a boundary on the host it runs on: it starts a probe
// of its own inside, by the very [enforce.Plan.Start] that dispatchers use, and has it try
// to get out in every way that we know of.
//
// A denial proves something only where the same operation works without the boundary.
// So every row has a control: the operation, unconfined, on the same file
// system. And a boundary that kills its program denies everything, so before any attempt the probe
// runs a program, writes in each root and reads each read path. What has no control
// is reported as unproven, never as held.
//
// What holds: nothing is changed but files below two directories with unguessable names,
// one in a read-write root and one outside all of them, and both are
// removed again. Every file is opened from a descriptor of those directories, no link is followed but
// the probe's own, and nothing is written to before its device and inode are those of
// the file that was made: what a confined program may have planted meanwhile is not touched.
//
// What does not: a process that is killed with SIGKILL leaves the two
// directories (.confinectl-probe-*) behind. Directory times change.
package probe

import (
	"strings"
	"time"

	"github.com/confinectl/confinectl/resolve"
)

// Prefix is how the name of everything that a measurement makes begins.
const Prefix = ".confinectl-probe-"

// A Verdict is what one row came to.
type Verdict string

// The verdicts.
const (
	Held     Verdict = "held"     // the control succeeded, the attempt was denied
	Breached Verdict = "BREACHED" // the attempt succeeded
	Unproven Verdict = "unproven" // nothing follows: there was no control, or the attempt failed for another reason
	Limit    Verdict = "limit"    // open, and documented as open at this ABI
)

// A Result is one row of a report.
type Result struct {
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	Control string  `json:"control"` // "ok", or why the operation does not work unconfined either
	Detail  string  `json:"detail"`  // the system's own words for the attempt
}

// NotThereYet is how an entry of [Report.Skipped] ends for a directory that only exec makes.
const NotThereYet = ": is not there yet; exec makes it"

// A Report is what was measured of one boundary.
type Report struct {
	Rows []Result // in the order of [Cases]; empty when Unmeasured is not

	// Unmeasured says why the attempts prove nothing, in one sentence that begins with
	// "the profile kills the program" where a control failed inside that works outside.
	Unmeasured string
	Killed     *resolve.Rule // the rule whose control failed inside; nil for any other reason
	// Skipped names the controls that could not be done, and why.
	Skipped []string
}

// Count says how many rows have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, row := range r.Rows {
		if row.Verdict == v {
			n++
		}
	}
	return n
}

// Proven reports whether the row that everything rests on was held: an
// outside file could be written, and inside the boundary it could not.
func (r *Report) Proven() bool {
	return len(r.Rows) > 0 && r.Rows[0].Verdict == Held
}

// Options are what a [Prober] needs to know of its caller.
type Options struct {
	Self  string   // the program that runs: it is the probe as well
	Entry []string // arguments with which Self ends up in [Inside]
	Wider []string // arguments with which Self confines again: a policy follows, then "--" and a command

	// Places are directories in which the outside target may be made, the best one
	// first. The first one outside every root is taken.
	Places []string
	// Timeout is for one boundary; zero means one minute.
	Timeout time.Duration
	// Parallel is how many boundaries are measured at a time; zero means one.
	Parallel int
}

// kind is what a case attacks.
type kind uint8

const (
	write     kind = iota // content or names outside: what the boundary is for
	read                  // content outside
	process               // other processes
	privilege             // what confinectl closes beside Landlock: capabilities, descriptors
	works                 // must work inside
)

// always marks a limit that no Landlock ABI ends.
const always = 1 << 10

// A Case is one row: what is attempted, and from which ABI on it is confined.
type Case struct {
	Key  string // names its files, and the row in the documentation
	Name string
	kind kind

	// Since is the first Landlock ABI that confines it; below it the row is a limit.
	// 0: every ABI does.
	Since int
	why   string // for a limit: where it is documented, and since when it is not open

	inside bool // needs a read-write root in which something can be made
	once   bool // the control does not depend on the profile: done once for all
}

// Writes reports whether the case changes content or names outside.
func (c Case) Writes() bool { return c.kind == write }

// Documented reports whether the case is a limit at an ABI.
func (c Case) Documented(abi int) bool { return abi < c.Since }

// Always reports whether the case is a limit at every ABI.
func (c Case) Always() bool { return c.Since == always }

// cases is the table; the attempts are in try_linux.go, by key. The first row
// is the one that the others rest on.
var cases = []Case{
	{Key: "write", Name: "write a file outside by its absolute path, as of a sibling directory"},
	{Key: "create", Name: "make a new file outside"},
	{Key: "remove", Name: "remove a file outside"},
	{Key: "dotdot", Name: "write outside through .. from the working directory"},
	{Key: "procroot", Name: "write outside through /proc/self/root"},
	{Key: "symlink-before", Name: "write through a symlink out that was made before the launch", inside: true},
	{Key: "symlink-after", Name: "write through a symlink out that is made inside after the launch", inside: true},
	{Key: "rename-out", Name: "rename a file of a root to the outside", inside: true},
	{Key: "rename-in", Name: "rename a file outside into a root", inside: true},
	{Key: "rename-root", Name: "rename the root itself"},
	{Key: "link-out", Name: "hard link a file of a root to the outside", inside: true},
	{Key: "link-in", Name: "hard link made inside to an outside file, then written", inside: true},
	{Key: "tmpfile", Name: "O_TMPFILE in a directory outside"},
	{Key: "tmpfile-link", Name: "O_TMPFILE inside, then linkat to the outside", inside: true},
	{Key: "truncate", Name: "truncate(2) of a file outside", Since: 3, why: "Landlock confines truncate(2) from ABI 3 on"},
	{Key: "reopen", Name: "re-open an inherited read-only descriptor for writing through /proc/self/fd"},
	{Key: "nested", Name: "write outside after three nested execs", once: true},
	{Key: "wider", Name: "confinectl again, inside, with a wider profile", once: true},
	{Key: "read", Name: "read a file outside", kind: read},
	{Key: "list", Name: "list a directory outside", kind: read},
	{Key: "execute", Name: "execute a program outside", kind: read},
	{Key: "device", Name: "open a device node that is not granted", kind: read},
	{Key: "leaked", Name: "inherited descriptor of an outside file that nobody passed on", kind: privilege},
	{Key: "mknod", Name: "make a device node", kind: privilege, inside: true},
	{Key: "mount", Name: "mount, as root or in a user namespace of its own", kind: privilege, once: true},
	{Key: "ptrace", Name: "ptrace a process outside", kind: process, once: true},
	{Key: "signal", Name: "signal a process outside", kind: process, once: true, Since: 6, why: "Landlock confines signals from ABI 6 on"},
	{Key: "abstract", Name: "connect to an abstract socket of a process outside", kind: process, once: true, Since: 6, why: "Landlock confines abstract sockets from ABI 6 on"},
	{Key: "socket", Name: "connect to a pathname socket of a process outside", kind: process, Since: 9, why: "Landlock confines pathname sockets from ABI 9 on"},
	{Key: "passed", Name: "inherited descriptor that the caller passes on (0 to 2, --keep-fd)", kind: privilege, Since: always, why: "an open file is the caller's grant"},
	{Key: "metadata", Name: "metadata: chmod of a file outside", kind: privilege, Since: always, why: "Landlock has no right for metadata"},
	{Key: "existence", Name: "existence: stat of a file outside", kind: read, Since: always, why: "Landlock has no right for it"},
	{Key: "environment", Name: "environment variable arrives unmodified", kind: works},
}

// Cases lists what is tried, in the order of a report.
func Cases() []Case { return append([]Case(nil), cases...) }

func caseOf(key string) *Case {
	for i := range cases {
		if cases[i].Key == key {
			return &cases[i]
		}
	}
	return nil
}

// An answer is what came of one operation, as it travels through the pipe.
type answer struct {
	Row   string `json:"row"`
	OK    bool   `json:"ok"`
	Errno int    `json:"errno,omitzero"` // the system's, when the operation itself failed
	Text  string `json:"text,omitempty"`
}

// judge makes a row of an attempt. control is empty when the operation works
// unconfined. changed says that the outside was found changed, whatever the
// attempt reported; abi is what the boundary uses.
func (c *Case) judge(control string, a *answer, changed bool, abi int) Result {
	r := Result{Name: c.Name, Verdict: Unproven, Control: "ok"}
	if control != "" {
		r.Control = control
		return r
	}
	if a == nil {
		a = &answer{Text: "the probe ended before it came to this row"}
	}
	r.Detail = a.Text
	open := a.OK || changed
	if changed && !a.OK {
		r.Detail = strings.TrimSuffix("the outside was changed, although the attempt reports: "+a.Text, ": ")
	}
	switch {
	case c.kind == works && a.OK:
		r.Verdict = Held
	case c.kind == works && a.Errno == 0:
		r.Verdict = Breached
	case open && c.Documented(abi):
		r.Verdict, r.Detail = Limit, c.why
	case open:
		r.Verdict = Breached
		if r.Detail == "" {
			r.Detail = "it succeeded"
		}
	case c.denies(a.Errno):
		r.Verdict = Held
	}
	return r
}
