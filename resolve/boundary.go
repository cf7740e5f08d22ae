package resolve

import (
	"slices"
	"strings"
)

// Access is what a rule allows at a path and, for a directory, at everything
// beneath it. The names are ours; each arm has its own words for them.
type Access uint8

// The accesses a rule can be made of.
const (
	// Read: read files; for a directory also list it.
	Read Access = 1 << iota
	// Execute: run files.
	Execute
	// Write: change the content of existing files.
	Write
	// Names: make, remove, rename and link files, directories, symlinks,
	// sockets and FIFOs beneath a directory. Device nodes are never included.
	Names
	// Ioctl: device ioctls, for terminals only.
	Ioctl
	// Connect: connect to a Unix socket that a process outside serves.
	Connect
)

// ReadWrite is the one set that every read-write directory gets. All have the
// same so that a rename between two of them works: the kernel refuses one
// that would gain a right (measured: EXDEV).
const ReadWrite = Read | Execute | Write | Names | Connect

var accessNames = []struct {
	a    Access
	name string
}{
	{Read, "read"}, {Execute, "execute"}, {Write, "write"}, {Names, "names"}, {Ioctl, "ioctl"}, {Connect, "connect"},
}

// Words are the names of the accesses in a, in a fixed order.
func (a Access) Words() []string {
	var w []string
	for _, n := range accessNames {
		if a&n.a != 0 {
			w = append(w, n.name)
		}
	}
	return w
}

// String joins the words with commas.
func (a Access) String() string { return strings.Join(a.Words(), ",") }

// Has reports whether a includes all of b.
func (a Access) Has(b Access) bool { return a&b == b }

// Kind is what stands at the path of a rule. An arm needs it because rights
// on directories and rights on files differ.
type Kind uint8

// The kinds a rule can be for.
const (
	Directory Kind = iota + 1
	RegularFile
	Device
	Socket
)

// String names the kind as it is printed in reports.
func (k Kind) String() string {
	switch k {
	case Directory:
		return "directory"
	case RegularFile:
		return "file"
	case Device:
		return "device"
	case Socket:
		return "socket"
	}
	return "BUG: no kind"
}

// FileID tells one file of this host from every other, whatever its name.
type FileID struct {
	Dev, Ino uint64
}

// Rule is one grant of a boundary: a real path, an access, and everybody who
// asked for it.
type Rule struct {
	Path   string // absolute and real when it was walked: no symlink, no "..", no trailing slash
	Kind   Kind
	Access Access
	ID     FileID // what was found there; zero for a directory that is still to be made
	// Reasons are the values that asked for the rule, as they were written; the
	// Origin.File is "runtime" for the runtime read set and "command" for the command.
	Reasons []Value

	// Make tells the launcher to make the directory (mode 0700, one level)
	// where it is missing, and in any case to judge what it then opens: a real directory that
	// UID owns and nobody else can write.
	Make bool
	// Unprovisioned marks a scratch rule that nobody provisions. An arm that can only
	// grant what exists refuses it (inexpressible).
	Unprovisioned bool
}

// FromHost reports whether only the runtime read set and the command asked for
// the rule, and no line of a profile.
func (r *Rule) FromHost() bool {
	return !slices.ContainsFunc(r.Reasons, func(w Value) bool { return w.Origin.File != "runtime" && w.Origin.File != "command" })
}

// Skipped is an entry with a "-" marker that does not exist on this host, and
// so grants nothing here.
type Skipped struct {
	Value Value
	Why   string
}

// Variables that the boundary adds to the caller's environment. No variable
// is ever removed.
type EnvVar struct {
	Name, Value string
	Origin      Origin
}

// Boundary is a resolved confinement: every path real, every fact replaced.
// Only [Resolve] makes one; the zero Boundary permits nothing, and an arm refuses it.
// It holds on the host and at the time of its making; an arm judges every path again.
type Boundary struct {
	policy  *Policy
	cwd     string // of the caller
	given   string // the permit path of the command line
	os      string
	uid     int
	onPaper bool
	rules   []Rule
	covered []Rule
	skipped []Skipped
	permit  string
	dir     string
	dirID   FileID
	minABI  Floor
	audit   Flag
	mach    []Value
	environ []string
	env     []EnvVar
	command *Command
	parents []string
}

// Policy is the policy behind the boundary, made fit to be sent to another process on
// this host: the permit path is written out and ${cwd} is replaced.
func (b *Boundary) Policy() *Policy {
	if b.policy == nil {
		return nil
	}
	q := *b.policy
	here := func(list []Value) []Value {
		list = slices.Clone(list)
		for i := range list {
			list[i].Text = strings.ReplaceAll(list[i].Text, "${cwd}", b.cwd)
		}
		return list
	}
	for _, k := range []*Keys{&q.Common, &q.Linux, &q.Darwin} {
		k.PermitPath.Text = strings.ReplaceAll(k.PermitPath.Text, "${cwd}", b.cwd)
		k.PermitExtraSubpaths, k.ReadPaths = here(k.PermitExtraSubpaths), here(k.ReadPaths)
		k.PermitFiles, k.UnixSockets = here(k.PermitFiles), here(k.UnixSockets)
		k.SetEnv = slices.Clone(k.SetEnv)
		for i := range k.SetEnv {
			k.SetEnv[i].Value.Text = strings.ReplaceAll(k.SetEnv[i].Value.Text, "${cwd}", b.cwd)
		}
	}
	if b.given != "" {
		q.Common.PermitPath = Value{Text: b.given, Origin: Origin{Key: "--permit-path"}}
	}
	return &q
}

// Name is the profile's name.
func (b *Boundary) Name() string {
	if b.policy == nil {
		return ""
	}
	return b.policy.Name
}

// OS is the operating system the boundary was resolved for, "linux" or "darwin".
func (b *Boundary) OS() string { return b.os }

// UID is the user the boundary was resolved for.
func (b *Boundary) UID() int { return b.uid }

// OnPaper reports whether the boundary was resolved without looking at any
// path, for a host that is not this one ([Facts.OnPaper]). Every arm refuses to enforce one.
func (b *Boundary) OnPaper() bool { return b.onPaper }

// Rules are the grants, sorted by path, one rule a path and none that a wider
// rule above it covers. The slice is the caller's own.
func (b *Boundary) Rules() []Rule { return slices.Clone(b.rules) }

// Covered are the grants that a wider rule above them makes needless.
func (b *Boundary) Covered() []Rule { return slices.Clone(b.covered) }

// Skipped are the entries marked "-" that this host does not have.
func (b *Boundary) Skipped() []Skipped { return slices.Clone(b.skipped) }

// PermitPath is the real path of the one read-write directory.
func (b *Boundary) PermitPath() string { return b.permit }

// Dir is the real path of the working directory that the command starts in, and what was
// found there.
func (b *Boundary) Dir() (string, FileID) { return b.dir, b.dirID }

// MinABI is the floor that the policy wrote for this host; N is 0 where it
// wrote none and the arm's default holds.
func (b *Boundary) MinABI() Floor { return b.minABI }

// Audit is the request for kernel audit records of denials.
func (b *Boundary) Audit() Flag { return b.audit }

// MachLookup are the Mach services that the policy asks for, on macOS.
func (b *Boundary) MachLookup() []Value { return slices.Clone(b.mach) }

// Env is what the boundary adds to the environment, sorted by name.
func (b *Boundary) Env() []EnvVar { return slices.Clone(b.env) }

// Environ is the whole environment of the command: the caller's, in its order, with
// the variables of [Boundary.Env] replaced in place or appended.
func (b *Boundary) Environ() []string { return slices.Clone(b.environ) }

// Command is what will be run, or nil when the boundary was resolved for a report.
func (b *Boundary) Command() *Command { return b.command }

// ToMake are the directories that the launcher makes before it restricts
// itself, parents first. They include directories that exist and are only judged.
func (b *Boundary) ToMake() []string {
	dirs := slices.Clone(b.parents)
	for _, r := range b.rules {
		if r.Make {
			dirs = append(dirs, r.Path)
		}
	}
	return dirs
}
