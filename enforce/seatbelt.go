package enforce

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/confinectl/confinectl/resolve"
)

// sandboxExec is the only way into Seatbelt that is used. It is never looked
// up: a program by that name in PATH could confine nothing.
const sandboxExec = "/usr/bin/sandbox-exec"

const (
	// maxSBPL is the most bytes of text and parameters that are rendered. libsandbox
	// refuses 65,535 bytes of compiled data in one rule (NixOS/nix#4119), and
	// a rule's data are its paths, so less than that in all is safe with room to spare.
	maxSBPL = 48 << 10
	// maxDarwinPath is PATH_MAX of macOS without the NUL.
	maxDarwinPath = 1023
)

//go:embed base.sbpl
var baseSBPL string

//go:embed pty.sbpl
var ptySBPL string

// A Param is a path of the boundary by the name that the text has for it.
// sandbox-exec hands the value to the interpreter as a string object, so that
// nothing in a path is ever read as program text, and no token is too long.
type Param struct {
	Key, Value string
}

// SBPL is a boundary in Seatbelt's words: the profile text, and the paths that
// it names. It exists beside [Plan] because it can be printed and compared on a
// host that is no Mac. Nothing in it was measured by us on one; docs/seatbelt.md says
// on whose word it stands.
type SBPL struct {
	Profile string  // the text that is handed to sandbox-exec -p
	Params  []Param // in the order of the boundary's rules, one for each path
	b       *resolve.Boundary
}

// Seatbelt says b in Seatbelt's words. It is pure and works on every operating
// system; it makes no claim that a host could enforce the result.
//
// The text denies by default and then only allows, so that every published
// account of rule order gives it the same meaning; an allow rule for a file, network
// or Mach operation that has no filter, and so would allow everything, cannot be built from the types here.
//
// Refusals, all of them together: inexpressible (a path that has a second name, or a Mach
// service that leads out), path-encoding (a path that is not UTF-8, has a control
// character, or is longer than PATH_MAX), profile-too-large (more than 48 KiB).
func Seatbelt(b *resolve.Boundary) (*SBPL, error) {
	if b == nil || b.OS() == "" {
		return nil, errNoBoundary
	}
	s := &SBPL{b: b}
	var rules sbplRules
	var problems resolve.Refusals
	counts := map[resolve.Kind]int{}
	for _, r := range b.Rules() {
		if refusal := inexpressible(r); refusal != nil {
			problems = append(problems, refusal)
			continue
		}
		name := strings.ToUpper(r.Kind.String()) + "_" + strconv.Itoa(counts[r.Kind])
		counts[r.Kind]++
		s.Params = append(s.Params, Param{name, r.Path})
		rules.add(r, param(name))
	}
	for _, v := range b.MachLookup() {
		if refusal := machRefusal(v); refusal != nil {
			problems = append(problems, refusal)
			continue
		}
		rules.mach = append(rules.mach, globalName(v.Text))
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	s.Profile = baseSBPL + rules.String()
	if size := s.size(); size > maxSBPL {
		return nil, &resolve.Refusal{Code: resolve.ProfileTooLarge, Subject: b.Name(),
			Detail: fmt.Sprintf("%d paths make %d bytes of SBPL with parameters, and more than %d are not handed to sandbox-exec", len(s.Params), size, maxSBPL),
			Hints:  []string{"grant the directory above many single paths"}}
	}
	return s, nil
}

func (s *SBPL) size() int {
	n := len(s.Profile)
	for _, p := range s.Params {
		n += len(p.Key) + len("=") + len(p.Value)
	}
	return n
}

// args are the arguments that make sandbox-exec become a command.
func (s *SBPL) args(command ...string) []string {
	var args []string
	for _, p := range s.Params {
		args = append(args, "-D", p.Key+"="+p.Value)
	}
	return append(append(args, "-p", s.Profile, "--"), command...)
}

// mayExecute reports whether a rule of the boundary lets a real path be executed.
func (s *SBPL) mayExecute(path string) bool {
	for _, r := range s.b.Rules() {
		if r.Access.Has(resolve.Execute) && (r.Path == path || r.Kind == resolve.Directory && strings.HasPrefix(path, r.Path+"/")) {
			return true
		}
	}
	return false
}

// Text is everything that sandbox-exec is given: one line for each parameter,
// then the profile. The same boundary gives the same bytes.
func (s *SBPL) Text() string {
	var b strings.Builder
	b.WriteString(sandboxExec + "\n")
	for _, p := range s.Params {
		fmt.Fprintf(&b, "-D %s=%s\n", p.Key, p.Value)
	}
	b.WriteString("-p\n")
	b.WriteString(s.Profile)
	return b.String()
}

// LaunchSpec is the launch in the arm's own form: what [Plan.Exec] becomes on
// macOS in the end. It is for reading. The launcher does more before it: it judges every path again,
// makes directories, asks whether Seatbelt works, and closes descriptors.
func (s *SBPL) LaunchSpec() (LaunchSpec, error) {
	c := s.b.Command()
	if c == nil || len(c.Argv) == 0 {
		return LaunchSpec{}, errNoCommand
	}
	if c.Missing != "" {
		return LaunchSpec{}, notFound(c)
	}
	dir, _ := s.b.Dir()
	spec := LaunchSpec{Cmd: sandboxExec, Args: s.args(append([]string{c.Path}, c.Argv[1:]...)...), Env: map[string]string{}, Cd: dir}
	for _, v := range s.b.Env() {
		spec.Env[v.Name] = v.Value
	}
	return spec, nil
}

// A filter says what an allow rule is about. Its makers are the types below, and
// none of them, not even a zero value, renders to nothing.
type filter interface{ sbpl() string }

type (
	param      string // the name of a parameter
	literal    param  // the file itself
	subpath    param  // the directory and everything beneath it
	beneath    param  // everything beneath the directory, and not itself
	globalName string // a Mach service; [machRefusal] holds its characters
	operation  string
	allowRule  struct {
		operations []operation
		first      filter // a field of its own: no rule without one
		more       []filter
	}
)

func (p param) sbpl() string      { return `(param "` + string(p) + `")` }
func (f literal) sbpl() string    { return "(literal " + param(f).sbpl() + ")" }
func (f subpath) sbpl() string    { return "(subpath " + param(f).sbpl() + ")" }
func (f globalName) sbpl() string { return `(global-name "` + string(f) + `")` }
func (f beneath) sbpl() string {
	return "(require-all " + subpath(f).sbpl() + " (require-not " + literal(f).sbpl() + "))"
}

func (r allowRule) sbpl() string {
	var b strings.Builder
	b.WriteString("\n(allow")
	for _, op := range r.operations {
		b.WriteString(" " + string(op))
	}
	for _, f := range append([]filter{r.first}, r.more...) {
		b.WriteString("\n  " + f.sbpl())
	}
	b.WriteString(")\n")
	return b.String()
}

// allow is a rule for operations, or no rule at all where there are no filters.
func allow(filters []filter, operations ...operation) []allowRule {
	if len(filters) == 0 {
		return nil
	}
	return []allowRule{{operations, filters[0], filters[1:]}}
}

// sbplRules sorts the rules of a boundary by the operations that they need.
type sbplRules struct {
	read, execute   []filter
	write           []filter // change everything beneath
	root            []filter // change the attributes of a read-write directory itself
	content, device []filter
	ioctl           []filter
	serve, connect  []filter // Unix sockets
	mach            []filter
	pty             bool
}

func (s *sbplRules) add(r resolve.Rule, p param) {
	var where filter = literal(p)
	if r.Kind == resolve.Directory {
		where = subpath(p)
	}
	put := func(list *[]filter, f filter, needs resolve.Access) {
		if r.Access.Has(needs) {
			*list = append(*list, f)
		}
	}
	put(&s.read, where, resolve.Read)
	put(&s.execute, where, resolve.Execute)
	put(&s.ioctl, where, resolve.Ioctl)
	switch {
	case r.Kind == resolve.RegularFile:
		put(&s.content, where, resolve.Write)
	case !r.Access.Has(resolve.Names):
		put(&s.device, where, resolve.Write)
	case r.Unprovisioned: // nobody but the program makes it
		s.write = append(s.write, where)
	default:
		// Not the directory itself: a program that can put a symlink in its place
		// decides what the next launch finds by that name, and so what it grants.
		s.write = append(s.write, beneath(p))
		s.root = append(s.root, literal(p))
	}
	if r.Kind == resolve.Directory {
		put(&s.serve, where, resolve.Connect)
	} else {
		put(&s.connect, where, resolve.Connect)
	}
	s.pty = s.pty || r.Path == "/dev/ptmx" && r.Access.Has(resolve.Ioctl)
}

// String renders the rules in a fixed order.
func (s *sbplRules) String() string {
	var b strings.Builder
	section := func(comment string, rules []allowRule) {
		if len(rules) > 0 {
			b.WriteString("\n; " + comment)
		}
		for _, r := range rules {
			b.WriteString(r.sbpl())
		}
	}
	section("Files that may be read, and directories that may be listed.", allow(s.read, "file-read*"))
	section("Programs, and libraries to be mapped.", allow(s.execute, "process-exec*", "file-map-executable"))
	section("Read-write directories: everything in them. Device nodes are another operation, and never allowed.", allow(s.write, "file-write*"))
	section("Their own attributes. They cannot be removed, renamed or replaced by a link.",
		allow(s.root, "file-write-acl", "file-write-flags", "file-write-mode", "file-write-owner", "file-write-times", "file-write-xattr"))
	section("Single files that are written in place, with their attributes. No other file can be renamed over them.",
		allow(s.content, "file-write-data", "file-write-flags", "file-write-mode", "file-write-times", "file-write-xattr"))
	section("Devices.", allow(s.device, "file-write-data"))
	section("Terminals.", allow(s.ioctl, "file-ioctl"))
	section("Unix sockets inside the read-write directories.", allow(s.serve, "network-bind", "network-outbound"))
	section("Unix sockets outside that the profile names.", allow(s.connect, "network-outbound"))
	section("Mach services that the profile names.", allow(s.mach, "mach-lookup"))
	if s.pty {
		b.WriteString("\n" + ptySBPL)
	}
	return b.String()
}

// dataVolume is another name of everything the user has. Whether the kernel
// compares it as it is written or by the short name is told in both ways.
const dataVolume = "/System/Volumes/Data"

// inexpressible says why a rule cannot be rendered; nil where it can.
func inexpressible(r resolve.Rule) *resolve.Refusal {
	in := func(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
	switch {
	case !utf8.ValidString(r.Path):
		return ruleRefusal(resolve.PathEncoding, r, strconv.Quote(r.Path)+" is not valid UTF-8", nil)
	case strings.ContainsFunc(r.Path, unicode.IsControl):
		return ruleRefusal(resolve.PathEncoding, r, strconv.Quote(r.Path)+" contains a control character", nil)
	case len(r.Path) > maxDarwinPath:
		return ruleRefusal(resolve.PathEncoding, r, fmt.Sprintf("the path has %d bytes, and %d are the most that macOS takes", len(r.Path), maxDarwinPath), nil)
	case r.Path == "/":
		return ruleRefusal(resolve.Inexpressible, r, "the root directory cannot be a subpath", nil)
	case in(r.Path, dataVolume):
		refusal := ruleRefusal(resolve.Inexpressible, r, r.Path+" lies on the data volume and has no other name: it is not known which name the kernel compares", nil)
		refusal.Hints = []string{"move it below /Users, /opt, /usr/local or /private"}
		return refusal
	case r.Kind == resolve.Directory && in(dataVolume, r.Path):
		refusal := ruleRefusal(resolve.Inexpressible, r, "below "+r.Path+" lies "+dataVolume+", another name of everything on the disk", nil)
		refusal.Hints = []string{"name the directories that are wanted, such as /System/Library"}
		return refusal
	}
	return nil
}

// leadsOut are Mach services that start programs or open files for their
// caller, outside the boundary: Launch Services and Apple events (agent-safehouse#181: `open` starts an
// unconfined program). A boundary with one of them would be none.
var leadsOut = [...]string{
	"com.apple.coreservices.appleevents",
	"com.apple.coreservices.launchservicesd",
	"com.apple.coreservices.quarantine-resolver",
	"com.apple.lsd.modifydb",
	"com.apple.lsd.open",
}

// machRefusal says why a Mach service cannot be allowed; nil where it can.
// Readers of documents refuse a name with other characters already; a policy
// written in Go has not passed one.
func machRefusal(v resolve.Value) *resolve.Refusal {
	refuse := func(detail string) *resolve.Refusal {
		return &resolve.Refusal{Code: resolve.Inexpressible, Subject: v.Text, Detail: detail, Origin: v.Origin}
	}
	plain := v.Text != "" && strings.Trim(v.Text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == ""
	if !plain {
		return refuse("is not the name of a Mach service: letters, digits, dots, _ and -")
	}
	for _, prefix := range leadsOut {
		if len(v.Text) >= len(prefix) && strings.EqualFold(v.Text[:len(prefix)], prefix) {
			return refuse("this service starts programs outside the boundary, or opens files there")
		}
	}
	return nil
}

// An answer is what became of a run of sandbox-exec.
type answer struct {
	status int    // exit status; 128 and the signal's number where a signal ended it
	stderr string // at most some hundred bytes of it
	err    error  // it could not be run, or did not end in time
}

// judgeAnswer says what the answer of sandbox-exec to a profile means, when
// the command was /usr/bin/true. Sources: status 65 for a text that does not
// compile, 71 both for a process that is confined already (sandbox_apply) and for a command that may not be
// executed (execvp), 134 for a program that dyld ended; nono#1646, opencode-swarm#2590, ai-jail#77.
// Other words than these on stderr mean nothing: some releases print that the tool is deprecated.
//
// mayRun says that the profile lets /usr/bin/true be executed.
func judgeAnswer(a answer, mayRun bool) *resolve.Refusal {
	says := strings.TrimSpace(a.stderr)
	if i := strings.LastIndexByte(says, '\n'); i >= 0 {
		says = says[i+1:]
	}
	failed := func(detail string, hints ...string) *resolve.Refusal {
		if says != "" {
			detail += ": " + says
		}
		return &resolve.Refusal{Code: resolve.ApplyFailed, Subject: sandboxExec, Detail: detail, Cause: a.err, Hints: hints}
	}
	switch {
	case a.err != nil:
		return failed("could not be tried: " + errno(a.err))
	case a.status == 0:
		return nil
	case a.status == 71 && strings.Contains(a.stderr, "sandbox_apply"):
		return &resolve.Refusal{Code: resolve.AlreadyConfined, Subject: sandboxExec,
			Detail: "this process is confined by Seatbelt already, which does not nest: " + says,
			Hints:  []string{"start it from outside the program that confined it"}}
	case a.status == 71 && strings.Contains(a.stderr, "execvp") && !mayRun:
		return nil // the profile was accepted, and does what it says
	case a.status == 65:
		return failed("this macOS does not take the profile", "please report it with the output of `sw_vers`")
	case a.status >= 128:
		return failed(fmt.Sprintf("a program under the profile is ended by signal %d before it begins", a.status-128), `with runtime = "none" the profile has to name what dyld reads`)
	}
	return failed(fmt.Sprintf("ended with status %d", a.status))
}
