package enforce

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/confinectl/confinectl/resolve"
)

// Plan is a boundary that this host was found able to enforce in full. Only
// [Compile] makes one; the zero Plan permits nothing, and its methods report a BUG.
// A Plan is good for any number of starts, and does not change.
type Plan struct {
	b       *resolve.Boundary
	host    Host
	ruleset *Ruleset // on Linux
	sbpl    *SBPL    // on macOS
}

// Compile asks whether this host can enforce the whole of b, and refuses by
// name if it cannot. It asks the kernel and changes nothing: no file is made, no right is given up.
//
// It does not look at the paths: a Plan may still be refused by [Plan.Exec]
// when a path is not what it was.
//
// Refusals: arm-missing (no Landlock, no sandbox-exec, or b was resolved for another
// system). On Linux: abi-below-floor (min_abi, the default floor, or audit records below
// ABI 7); inexpressible (a scratch directory that nobody provisions); these two are reported together.
// On macOS: those of [Seatbelt]; already-confined; apply-failed (sandbox-exec
// does not take the profile, as was tried with /usr/bin/true).
func Compile(b *resolve.Boundary) (*Plan, error) {
	switch {
	case b == nil || b.OS() == "":
		return nil, errNoBoundary
	case b.OS() != runtime.GOOS:
		return nil, &resolve.Refusal{Code: resolve.ArmMissing, Subject: b.Name(),
			Detail: "the boundary was resolved for " + b.OS() + ", and this host runs " + runtime.GOOS}
	case b.OnPaper():
		return nil, &resolve.Refusal{Code: resolve.ArmMissing, Subject: b.Name(), Detail: "the boundary was resolved on paper: no path was looked at"}
	}
	return compileHere(b)
}

var errNoBoundary = errors.New("BUG: a boundary that Resolve did not make was handed to enforce")

// terms are what the refusals of Compile depend on.
type terms struct {
	floor resolve.Floor
	audit resolve.Flag
	rules []resolve.Rule
}

func compile(b *resolve.Boundary, h Host) (*Plan, error) {
	if h.Missing != nil {
		return nil, h.Missing
	}
	t := terms{b.MinABI(), b.Audit(), b.Rules()}
	if err := t.judge(h).Err(); err != nil {
		return nil, err
	}
	return &Plan{b: b, host: h, ruleset: newRuleset(t.rules, h.Used, t.audit.On)}, nil
}

func (t terms) judge(h Host) (problems resolve.Refusals) {
	if floor := cmp.Or(t.floor.N, DefaultFloor); h.Used < floor {
		r := &resolve.Refusal{Code: resolve.ABIBelowFloor, Origin: t.floor.Origin}
		if t.floor.N == 0 {
			r.Subject = "min_abi"
			r.Detail = fmt.Sprintf("%s, and the policy writes no floor: %d holds, because below it truncate(2) outside the roots is not confined", offer(h), floor)
			r.Hints = []string{fmt.Sprintf("min_abi = %d in [linux] accepts this kernel and what is lost on it", h.Used)}
		} else {
			r.Subject = "min_abi = " + strconv.Itoa(floor)
			r.Detail = fmt.Sprintf("%s, and the policy asks for at least %d", offer(h), floor)
		}
		if floor <= NewestABI {
			r.Hints = append(r.Hints, fmt.Sprintf("Landlock ABI %d came with Linux %s", floor, abiSteps[floor-1].Linux))
		}
		problems = append(problems, r)
	}
	if t.audit.On && h.Used < AuditABI {
		problems = append(problems, &resolve.Refusal{Code: resolve.ABIBelowFloor, Subject: "audit = true", Origin: t.audit.Origin,
			Detail: fmt.Sprintf("%s, and records of denials after the exec need at least %d", offer(h), AuditABI),
			Hints:  []string{fmt.Sprintf("Landlock ABI %d came with Linux %s; without audit = true the boundary is the same", AuditABI, abiSteps[AuditABI-1].Linux)}})
	}
	for _, rule := range t.rules {
		if rule.Unprovisioned {
			r := ruleRefusal(resolve.Inexpressible, rule, "Landlock can only grant a directory that exists, and nobody provisions "+rule.Path, nil)
			r.Hints = []string{"write `provision = true` in agent_scratch: the launcher then makes the directory, or accepts yours"}
			problems = append(problems, r)
		}
	}
	return problems
}

// offer says what a kernel offers.
func offer(h Host) string {
	text := fmt.Sprintf("this kernel offers Landlock ABI %d", h.Offered)
	if h.Lowered != "" {
		text += fmt.Sprintf(", used as %d because %s", h.Used, h.Lowered)
	}
	return text
}

// ruleRefusal refuses a rule in the words of whoever asked for it.
func ruleRefusal(code resolve.Code, rule resolve.Rule, detail string, cause error) *resolve.Refusal {
	r := &resolve.Refusal{Code: code, Subject: rule.Path, Detail: detail, Cause: cause}
	for _, why := range rule.Reasons {
		if why.Origin.Key != "" { // written by a person, and not by the runtime read set
			r.Subject, r.Origin = why.Text, why.Origin
			break
		}
	}
	r.Detail = strings.TrimPrefix(r.Detail, r.Subject+" ") // once is enough
	return r
}

var errNoPlan = errors.New("BUG: a plan that Compile did not make was used")

func (p *Plan) ok() error {
	if p == nil || p.b == nil || p.ruleset == nil && p.sbpl == nil {
		return errNoPlan
	}
	return nil
}

// Boundary is what the plan enforces.
func (p *Plan) Boundary() *resolve.Boundary { return p.b }

// Host is what Compile found on this machine. Release and LegacyTIOCSTI are not
// filled in; [Probe] does that.
func (p *Plan) Host() Host { return p.host }

// Ruleset is the boundary in Landlock's terms, and nil on macOS. It must not be changed.
func (p *Plan) Ruleset() *Ruleset { return p.ruleset }

// Text is the plan in the arm's own words; see [Ruleset.Text] and [SBPL.Text].
func (p *Plan) Text() string {
	switch {
	case p.ok() != nil:
		return ""
	case p.sbpl != nil:
		return p.sbpl.Text()
	}
	return p.ruleset.Text()
}

// StatusRefused is the exit status for "nothing was executed"; the other two
// are those of [ExecError].
const (
	StatusRefused      = 125
	StatusNotExecuted  = 126
	StatusNotFound     = 127
	maxPolicyArgument  = 120 << 10 // the kernel's MAX_ARG_STRLEN is 128 KiB
	confineExecCommand = "confine-exec"
)

// ExecError says that no refusal stood in the way and the command could still
// not be executed. Nothing of it ran.
type ExecError struct {
	Status int    // 126: found, could not be executed; 127: not found
	Argv0  string // as typed
	Path   string // what was handed to execve(2); empty when nothing was found
	Detail string // why, in one sentence
	Err    error  // the system's own error; nil when nothing was found
}

// Error gives the command as typed and why it was not executed.
func (e *ExecError) Error() string {
	name := oneLine(e.Argv0)
	if name == "" {
		name = `""`
	}
	return name + ": " + oneLine(e.Detail)
}

// Unwrap gives the system's own error.
func (e *ExecError) Unwrap() error { return e.Err }

// KeepError says that a descriptor that was to be kept cannot be: the caller
// named one that this process was not given.
type KeepError struct {
	FD  int
	Err error
}

// Error names the descriptor.
func (e *KeepError) Error() string {
	return fmt.Sprintf("descriptor %d cannot be kept: %v", e.FD, e.Err)
}

// Unwrap gives the system's own error.
func (e *KeepError) Unwrap() error { return e.Err }

func oneLine(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r != ' ' && !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// command is what Exec and Start run.
func (p *Plan) command() (*resolve.Command, error) {
	if err := p.ok(); err != nil {
		return nil, err
	}
	c := p.b.Command()
	if c == nil || len(c.Argv) == 0 || c.Path == "" && c.Missing == "" {
		return nil, errNoCommand
	}
	return c, nil
}

// notFound is the answer when there is nothing to execute.
func notFound(c *resolve.Command) *ExecError {
	return &ExecError{Status: StatusNotFound, Argv0: c.Argv[0], Detail: c.Missing}
}

// notExecuted puts a failed execve(2) into plain words.
func notExecuted(c *resolve.Command, err error) *ExecError {
	e := &ExecError{Status: StatusNotExecuted, Argv0: c.Argv[0], Path: c.Path, Err: err}
	switch {
	case errors.Is(err, syscall.E2BIG):
		e.Detail = "the arguments and the environment are too large"
	case errors.Is(err, syscall.ETXTBSY):
		e.Detail = c.Path + " is open for writing"
	case c.Doubt != "" && strings.HasPrefix(c.Doubt, c.Path):
		e.Detail = c.Doubt
	case c.Doubt != "":
		e.Detail = c.Path + ": " + c.Doubt
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		e.Detail = c.Path + " exists, but its interpreter or loader does not"
	case errors.Is(err, syscall.EACCES):
		e.Detail = "permission denied: " + c.Path + " may not be executed by this user, or its interpreter lies outside the boundary"
	case errors.Is(err, syscall.ENOEXEC):
		e.Detail = c.Path + " is in no format that this kernel runs: a script needs a #! line, a binary this machine's architecture"
	case errors.Is(err, syscall.EISDIR):
		e.Detail = c.Path + " or its interpreter is a directory"
	default:
		e.Detail = c.Path + ": " + errno(err)
	}
	return e
}

// LaunchSpec is what a caller in any language spawns to get the confined
// command: the argument vector, the variables to add to its environment, and the
// working directory. Its JSON form is the wire format of `confinectl spec`.
type LaunchSpec struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args"`
	Env  map[string]string `json:"env"`
	Cd   string            `json:"cd"`
}

// LaunchSpec names wrapper, the absolute path of confinectl, as the program to
// spawn: it resolves the policy again on this host, so the spec holds no longer than the
// paths in it do, and confers nothing that the policy does not say. Env holds only what the
// boundary adds; the caller's own environment passes through.
//
// Refusal: profile-too-large, because the kernel takes at most 128 KiB in one argument.
func (p *Plan) LaunchSpec(wrapper string) (LaunchSpec, error) {
	if err := p.ok(); err != nil {
		return LaunchSpec{}, err
	}
	c := p.b.Command()
	if c == nil || len(c.Argv) == 0 {
		return LaunchSpec{}, errNoCommand
	}
	if !strings.HasPrefix(wrapper, "/") {
		return LaunchSpec{}, fmt.Errorf("BUG: the wrapper %q is not an absolute path", wrapper)
	}
	policy := bytes.TrimSuffix(resolve.EncodePolicy(p.b.Policy()), []byte("\n"))
	if len(policy) > maxPolicyArgument {
		return LaunchSpec{}, &resolve.Refusal{Code: resolve.ProfileTooLarge, Subject: p.b.Name(),
			Detail: fmt.Sprintf("the policy has %d bytes as JSON, and one argument may have %d", len(policy), maxPolicyArgument),
			Hints:  []string{"grant the directory above many single paths"}}
	}
	dir, _ := p.b.Dir()
	argv := append([]string(nil), c.Argv...)
	if c.Relative && c.Path != "" {
		argv[0] = c.Path // it meant the caller's directory, and the command starts in another
	}
	spec := LaunchSpec{Cmd: wrapper, Env: map[string]string{}, Cd: dir}
	spec.Args = append([]string{confineExecCommand, "--policy", string(policy), "--cd", dir, "--"}, argv...)
	for _, v := range p.b.Env() {
		spec.Env[v.Name] = v.Value
	}
	return spec, nil
}

var errNoCommand = errors.New("BUG: a boundary that was resolved without a command cannot be executed")
