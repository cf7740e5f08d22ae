package enforce

import (
	"fmt"
	"strings"

	"github.com/confinectl/confinectl/resolve"
)

// Rights is a set of Landlock filesystem access rights, with the kernel's own
// bits and names (linux/landlock.h, LANDLOCK_ACCESS_FS_*).
type Rights uint64

// The filesystem access rights, in the order of the header.
const (
	fsExecute Rights = 1 << iota
	fsWriteFile
	fsReadFile
	fsReadDir
	fsRemoveDir
	fsRemoveFile
	fsMakeChar
	fsMakeDir
	fsMakeReg
	fsMakeSock
	fsMakeFifo
	fsMakeBlock
	fsMakeSym
	fsRefer       // ABI 2
	fsTruncate    // ABI 3
	fsIoctlDev    // ABI 5
	fsResolveUnix // ABI 9
)

var rightNames = [...]string{
	"execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir", "make_reg",
	"make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev", "resolve_unix",
}

// Words are the kernel's names of the rights in r, in the kernel's order.
func (r Rights) Words() []string { return bitNames(uint64(r), rightNames[:]) }

// String joins the words with blanks; the empty set is "none".
func (r Rights) String() string { return joinWords(r.Words()) }

// Scopes is a set of Landlock IPC scopes (LANDLOCK_SCOPE_*): what a confined
// process cannot reach outside its domain. A scope has no exceptions.
type Scopes uint64

// The scopes, both from ABI 6.
const (
	scopeAbstractUnixSocket Scopes = 1 << iota
	scopeSignal
)

var scopeNames = [...]string{"abstract_unix_socket", "signal"}

// Words are the kernel's names of the scopes in s, in the kernel's order.
func (s Scopes) Words() []string { return bitNames(uint64(s), scopeNames[:]) }

// String joins the words with blanks; the empty set is "none".
func (s Scopes) String() string { return joinWords(s.Words()) }

func bitNames(set uint64, names []string) []string {
	var w []string
	for i := range 64 {
		switch {
		case set&(1<<i) == 0:
		case i < len(names):
			w = append(w, names[i])
		default:
			w = append(w, fmt.Sprintf("BUG:1<<%d", i))
		}
	}
	return w
}

func joinWords(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// NewestABI is the newest Landlock ABI that this program knows. A kernel that
// offers more is used at this one: rights that nobody here has heard of are
// not handled, and so stay as they are without Landlock.
const NewestABI = 11

// DefaultFloor is the least ABI that is accepted where the policy wrote none:
// below it truncate(2) empties files outside the roots.
const DefaultFloor = 3

// AuditABI is the first ABI that can write audit records for what a confined
// program does after the exec.
const AuditABI = 7

// An ABIStep is what one Landlock ABI added to the one before it.
type ABIStep struct {
	ABI    int
	Linux  string // the first Linux release that offers it
	Rights Rights
	Scopes Scopes

	// Confines names what is confined from this ABI on; empty where the ABI adds
	// nothing that holds a program back.
	Confines string
	// Note says what else the ABI brought, for reports.
	Note string
}

// abiSteps is indexed by ABI-1. Sources: Documentation/userspace-api/landlock.rst and
// linux/landlock.h of Linux 7.2, and for 11 go-landlock v0.11.2. The sets
// were compared with what real kernels of ABI 2 and 6 to 11 accept.
var abiSteps = [NewestABI]ABIStep{
	{ABI: 1, Linux: "5.13", Rights: 1<<13 - 1,
		Confines: "reading, listing, executing, writing, making and removing files outside the boundary"},
	{ABI: 2, Linux: "5.19", Rights: fsRefer,
		Note: "rename and link between directories can be granted; without it they fail inside the boundary too"},
	{ABI: 3, Linux: "6.2", Rights: fsTruncate,
		Confines: "truncate(2) outside the roots"},
	{ABI: 4, Linux: "6.7",
		Note: "TCP rights; a boundary does not handle the network"},
	{ABI: 5, Linux: "6.10", Rights: fsIoctlDev,
		Confines: "ioctl(2) on devices opened from inside"},
	{ABI: 6, Linux: "6.12", Scopes: scopeAbstractUnixSocket | scopeSignal,
		Confines: "connecting to abstract Unix sockets of processes outside, and sending them signals,"},
	{ABI: 7, Linux: "6.15",
		Note: "audit records of denials after the exec"},
	{ABI: 8, Linux: "7.0",
		Note: "restricting all threads at once; one thread is enough for an exec"},
	{ABI: 9, Linux: "7.1", Rights: fsResolveUnix,
		Confines: "connecting to pathname Unix sockets of processes outside"},
	{ABI: 10, Linux: "7.2",
		Note: "UDP rights; a boundary does not handle the network"},
	{ABI: 11, Linux: "7.3",
		Note: "no_new_privs in the same call"},
}

// ABISteps lists what each known ABI added, oldest first.
func ABISteps() []ABIStep { return append([]ABIStep(nil), abiSteps[:]...) }

// Handled are the rights and scopes that a ruleset handles at an ABI: all that
// it has, whatever the policy asks, because an unhandled right is an
// unrestricted one. Network rights are never handled. Below 1 nothing is.
func Handled(abi int) (Rights, Scopes) {
	var r Rights
	var s Scopes
	for _, step := range abiSteps[:min(max(abi, 0), NewestABI)] {
		r |= step.Rights
		s |= step.Scopes
	}
	return r, s
}

// Guarantee is what a Landlock ABI is worth, in plain words.
type Guarantee struct {
	ABI      int
	Confined []string // held by every kernel that offers this ABI
	Open     []string // not held at this ABI, and since which it would be
	Lost     []string // what a floor below [DefaultFloor] gives up on some host, not on every one; empty from there on
}

// Guarantees says what min_abi = abi promises on every host that accepts it,
// and what it leaves open. What a host adds is the difference to the Guarantees
// of the ABI it uses. It says nothing of what Landlock never confines at any ABI; [Ruleset.Text] does.
func Guarantees(abi int) Guarantee {
	g := Guarantee{ABI: abi}
	for _, step := range abiSteps {
		if step.Confines == "" {
			continue
		}
		if step.ABI <= abi {
			g.Confined = append(g.Confined, fmt.Sprintf("%s is confined (ABI %d)", step.Confines, step.ABI))
		} else {
			g.Open = append(g.Open, fmt.Sprintf("%s is confined only from ABI %d on", step.Confines, step.ABI))
		}
	}
	if abi < 3 {
		g.Lost = append(g.Lost, "below ABI 3, which this floor accepts, truncate(2) empties any file outside the roots that the user may write")
	}
	if abi < 2 {
		g.Lost = append(g.Lost, "below ABI 2, which this floor accepts, rename and link between two directories fail, inside the roots as well")
	}
	return g
}

// neverConfined is what stays open at every ABI so far.
var neverConfined = []string{
	"metadata: chmod, chown, utimes, setxattr and file flags, on every file the user owns",
	"existence: stat, readlink, access, chdir and inotify work everywhere",
	"descriptors 0 to 2 and those that were kept: what they are open on is the caller's grant",
	"the network",
}

// A PathRule is one path beneath rule of a ruleset.
type PathRule struct {
	Path   string
	Rights Rights
	rule   *resolve.Rule
}

// An Omission is a rule of the boundary that a ruleset of this ABI cannot hold,
// because the ABI has none of its rights. What the rule would have
// granted is not confined there, so leaving it out denies the program nothing.
type Omission struct {
	Path   string
	Rights Rights // what the rule would need
	ABI    int    // the first ABI that has one of them
}

// Ruleset is a boundary in Landlock's words at one ABI: what exactly the kernel
// is asked to enforce. It exists beside [Plan] because it can be printed and
// compared on a host that cannot enforce it.
type Ruleset struct {
	ABI     int
	Handled Rights
	Scoped  Scopes
	Audit   bool       // audit records after the exec
	Rules   []PathRule // sorted by path
	Omitted []Omission // sorted by path
}

// Landlock says b in Landlock's words at an ABI. It is pure and works on every
// operating system; it makes no claim that a host could enforce the result.
func Landlock(b *resolve.Boundary, abi int) *Ruleset {
	return newRuleset(b.Rules(), abi, b.Audit().On)
}

func newRuleset(rules []resolve.Rule, abi int, audit bool) *Ruleset {
	s := &Ruleset{ABI: abi, Audit: audit}
	s.Handled, s.Scoped = Handled(abi)
	s.Rules = make([]PathRule, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		want := rightsOf(r.Kind, r.Access)
		if have := want & s.Handled; have != 0 {
			s.Rules = append(s.Rules, PathRule{Path: r.Path, Rights: have, rule: r})
			continue
		}
		s.Omitted = append(s.Omitted, Omission{Path: r.Path, Rights: want, ABI: firstABI(want)})
	}
	return s
}

// rightsOf maps what a rule allows to Landlock rights, before any ABI is
// looked at. The kernel refuses directory rights on anything else (EINVAL), so
// a file gets file rights only. make_char and make_block are never granted: a
// device node is a way around every path rule.
func rightsOf(kind resolve.Kind, a resolve.Access) Rights {
	var table rightsTable
	switch kind {
	case resolve.Directory:
		table = directoryRights
	case resolve.RegularFile:
		table = fileRights
	case resolve.Device:
		table = deviceRights
	case resolve.Socket:
		table = socketRights
	}
	var r Rights
	for _, row := range table {
		if a.Has(row.a) {
			r |= row.r
		}
	}
	return r
}

type rightsTable = []struct {
	a resolve.Access
	r Rights
}

var (
	directoryRights = rightsTable{
		{resolve.Read, fsReadFile | fsReadDir},
		{resolve.Execute, fsExecute},
		{resolve.Write, fsWriteFile | fsTruncate},
		{resolve.Names, fsRemoveDir | fsRemoveFile | fsMakeDir | fsMakeReg | fsMakeSock | fsMakeFifo | fsMakeSym | fsRefer},
		{resolve.Ioctl, fsIoctlDev},
		{resolve.Connect, fsResolveUnix},
	}
	fileRights = rightsTable{
		{resolve.Read, fsReadFile},
		{resolve.Execute, fsExecute},
		{resolve.Write, fsWriteFile | fsTruncate},
		{resolve.Ioctl, fsIoctlDev},
	}
	// O_TRUNC on a device asks for no truncate right: the kernel ignores the
	// flag there.
	deviceRights = rightsTable{
		{resolve.Read, fsReadFile},
		{resolve.Write, fsWriteFile},
		{resolve.Ioctl, fsIoctlDev},
	}
	socketRights = rightsTable{
		{resolve.Connect, fsResolveUnix},
	}
)

// firstABI is the oldest ABI that has one of the rights; 0 if none has.
func firstABI(r Rights) int {
	for _, step := range abiSteps {
		if step.Rights&r != 0 {
			return step.ABI
		}
	}
	return 0
}

// Text is the ruleset in the kernel's own words: what is handled, the scopes,
// every rule with its rights, what was left out, and what stays open. The same ruleset
// gives the same bytes.
func (s *Ruleset) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "landlock ABI %d\n", s.ABI)
	fmt.Fprintf(&b, "handled_access_fs: %s\n", s.Handled)
	b.WriteString("handled_access_net: none\n")
	fmt.Fprintf(&b, "scoped: %s\n", s.Scoped)
	if s.Audit {
		b.WriteString("restrict_self: log_new_exec_on\n")
	} else {
		b.WriteString("restrict_self: none\n")
	}
	for _, r := range s.Rules {
		fmt.Fprintf(&b, "path_beneath %s: %s\n", quotePath(r.Path), r.Rights)
	}
	for _, o := range s.Omitted {
		if o.ABI == 0 {
			fmt.Fprintf(&b, "left out %s: Landlock has no right for it\n", quotePath(o.Path))
			continue
		}
		fmt.Fprintf(&b, "left out %s: %s needs ABI %d, below it this is not confined\n", quotePath(o.Path), o.Rights, o.ABI)
	}
	for _, line := range Guarantees(s.ABI).Open {
		fmt.Fprintf(&b, "not confined: %s\n", line)
	}
	for _, line := range neverConfined {
		fmt.Fprintf(&b, "never confined: %s\n", line)
	}
	return b.String()
}

// quotePath keeps one rule on one line and the words after the path apart from it.
func quotePath(p string) string {
	q := fmt.Sprintf("%q", p)
	if q == `"`+p+`"` && !strings.ContainsAny(p, " :") {
		return p
	}
	return q
}
