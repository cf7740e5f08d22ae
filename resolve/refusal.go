package resolve

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Code is the stable name of a refusal. It says which stage refused and why,
// never which operating system; callers and scripts route on it. A Code is an
// error, so errors.Is(err, resolve.PathMissing) asks for one.
type Code string

// Error returns the code itself.
func (c Code) Error() string { return string(c) }

// The catalogue of refusals, in the order of the pipeline. docs/refusals.md
// explains each one; a test keeps the two in step.
const (
	ProfileSyntax    Code = "profile-syntax"
	ProfileKey       Code = "profile-key"
	ProfileValue     Code = "profile-value"
	ProfileCycle     Code = "profile-cycle"
	ProfileName      Code = "profile-name"
	ProfileMissing   Code = "profile-missing"
	ProfileUntrusted Code = "profile-untrusted"

	PolicySyntax Code = "policy-syntax"
	PolicyKey    Code = "policy-key"
	PolicyValue  Code = "policy-value"

	FactUnset      Code = "fact-unset"
	CwdNotPortable Code = "cwd-not-portable"

	PathRelative     Code = "path-relative"
	PathMissing      Code = "path-missing"
	PathNotDirectory Code = "path-not-directory"
	PathNotFile      Code = "path-not-file"
	PathNotSocket    Code = "path-not-socket"
	PathLoop         Code = "path-loop"
	PathEncoding     Code = "path-encoding"
	PathUnreadable   Code = "path-unreadable"
	PathMoved        Code = "path-moved"
	PathUntrusted    Code = "path-untrusted"

	PermitMissing Code = "permit-missing"
	PermitFixed   Code = "permit-fixed"
	PermitRoot    Code = "permit-root"
	SelfWidening  Code = "self-widening"

	ScratchUnresolved Code = "scratch-unresolved"
	ScratchUnfit      Code = "scratch-unfit"
	CdOutside         Code = "cd-outside"

	ArmMissing          Code = "arm-missing"
	ABIBelowFloor       Code = "abi-below-floor"
	MinABINotApplicable Code = "min-abi-not-applicable"
	Inexpressible       Code = "inexpressible"
	AlreadyConfined     Code = "already-confined"
	LayerLimit          Code = "layer-limit"
	ProfileTooLarge     Code = "profile-too-large"
	ApplyFailed         Code = "apply-failed"
)

// Codes lists the whole catalogue in its documented order.
func Codes() []Code {
	return []Code{
		ProfileSyntax, ProfileKey, ProfileValue, ProfileCycle, ProfileName, ProfileMissing, ProfileUntrusted,
		PolicySyntax, PolicyKey, PolicyValue,
		FactUnset, CwdNotPortable,
		PathRelative, PathMissing, PathNotDirectory, PathNotFile, PathNotSocket, PathLoop, PathEncoding, PathUnreadable, PathMoved, PathUntrusted,
		PermitMissing, PermitFixed, PermitRoot, SelfWidening,
		ScratchUnresolved, ScratchUnfit, CdOutside,
		ArmMissing, ABIBelowFloor, MinABINotApplicable, Inexpressible, AlreadyConfined, LayerLimit, ProfileTooLarge, ApplyFailed,
	}
}

// Origin says where a value was written. Every part may be missing: a policy
// that came over the wire has no file and no lines, a fact has no key, and a
// document that is too large is too large on no line.
type Origin struct {
	File string // path of the profile, "built-in/NAME.toml", or "policy"
	Key  string // dotted key, with the index for an element of a list: "linux.read_paths[2]"
	Line int    // counted from 1; 0 where it is not known
}

// String joins the known parts: "FILE:LINE: KEY".
func (o Origin) String() string {
	var b strings.Builder
	b.WriteString(o.File)
	if o.File != "" && o.Line > 0 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(o.Line))
	}
	if o.Key != "" {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(o.Key)
	}
	return b.String()
}

// Refusal is a named reason why nothing was run. It is always an error that
// the user can act on; a state that cannot happen is reported as a plain error
// that begins with BUG.
type Refusal struct {
	Code    Code
	Subject string   // what was refused, as it was written
	Detail  string   // why, and where it was looked for
	Origin  Origin   // where the subject was written
	Hints   []string // at most two: the next command to type, or the line to write
	Cause   error    // the system's own error, where there was one
}

// Error gives the one line that a person sees after "confinectl: refused: ".
func (r *Refusal) Error() string {
	s := string(r.Code) + ": "
	if r.Subject == "" {
		s += `""` // what was written can be nothing
	} else {
		s += printable(r.Subject)
	}
	if r.Detail != "" {
		s += ": " + printable(r.Detail)
	}
	if o := r.Origin.String(); o != "" && o != r.Subject {
		s += " (" + printable(o) + ")"
	}
	return s
}

// Is makes errors.Is(err, code) work.
func (r *Refusal) Is(target error) bool { return target == error(r.Code) }

// Unwrap gives the system's own error.
func (r *Refusal) Unwrap() error { return r.Cause }

// Refusals are all the problems of one document or one profile, in the order
// in which a reader of the file would meet them. An empty list is not an error;
// use [Refusals.Err].
type Refusals []*Refusal

// Error gives one line a refusal.
func (rs Refusals) Error() string {
	lines := make([]string, len(rs))
	for i, r := range rs {
		lines[i] = r.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is and errors.As look at every refusal.
func (rs Refusals) Unwrap() []error {
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = r
	}
	return errs
}

// Err returns nil for an empty list, and otherwise the list sorted by file
// and line; problems without a line keep their order after those that have one.
func (rs Refusals) Err() error {
	if len(rs) == 0 {
		return nil
	}
	slices.SortStableFunc(rs, func(a, b *Refusal) int {
		if c := strings.Compare(a.Origin.File, b.Origin.File); c != 0 {
			return c
		}
		if (a.Origin.Line == 0) != (b.Origin.Line == 0) {
			return b.Origin.Line - a.Origin.Line
		}
		return a.Origin.Line - b.Origin.Line
	})
	return rs
}

// printable keeps a message on one line and a terminal unharmed whatever a
// file name or a document contains.
func printable(s string) string {
	if !strings.ContainsFunc(s, unprintable) && utf8.ValidString(s) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
