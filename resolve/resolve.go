package resolve

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Request is what one launch adds to a policy.
type Request struct {
	PermitPath string      // the directory for a template; empty for a policy that has its own
	Dir        string      // working directory; empty for the permit path
	Command    []string    // what will be run; nil when the boundary is wanted for a report
	Protected  []Protected // what no read-write root may reach

	// Walker is what was seen of this host's paths a moment ago, by the loader of
	// the policy or by another resolution; nil for one that has seen nothing.
	Walker *Walker
}

// Protected is a path that a confined program could use to widen its own
// boundary: a profile directory, a profile, the launcher. It need not exist.
type Protected struct {
	Path string
	What string // "the profile directory", "the confinectl binary"
}

// Resolve turns a policy into a boundary: it lays the keys of f.OS over the
// common ones, puts facts in their place, walks every path, adds the runtime
// read set and the command with its interpreters, and holds every
// read-write root against r.Protected.
//
// It looks and changes nothing: directories that have to be made are only
// named. What it saw may change afterwards, so an arm opens and judges each path again.
// The boundary keeps p, which must not be changed afterwards.
//
// All problems are reported together, as [Refusals]: fact-unset, path-*,
// permit-*, scratch-*, self-widening, cd-outside, min-abi-not-applicable,
// policy-value (private_tmp without a name).
func Resolve(p *Policy, f *Facts, r Request) (*Boundary, error) {
	k := p.Common
	switch f.OS {
	case "linux":
		k.Merge(&p.Linux)
	case "darwin":
		k.Merge(&p.Darwin)
	}
	s := &resolver{
		facts: f, request: r, walker: r.Walker,
		rules: make(map[string]*Rule, 64), trails: map[string]*Trail{}, extra: map[string]string{},
		b: &Boundary{policy: p, cwd: f.Cwd, given: r.PermitPath, os: f.OS, uid: f.UID, onPaper: f.OnPaper, minABI: k.MinABI, audit: k.Audit, mach: k.MachLookup},
	}
	if f.OnPaper {
		s.walker = &Walker{paper: &Stat{Mode: fs.ModeDir | 0o700, UID: f.UID}}
	} else if s.walker == nil {
		s.walker = NewWalker()
	}
	if f.OS == "darwin" && p.Common.MinABI.N > 0 {
		s.refuse(MinABINotApplicable, "min_abi", "nothing on macOS can check a Landlock floor", p.Common.MinABI.Origin, nil, "write it in [linux], where it does not concern macOS")
	}
	if v, uses := p.UsesCwd(); uses && f.Cwd != "" {
		s.literal(Value{Text: f.Cwd, Origin: v.Origin}) // it is written out for other processes
	}
	s.permitPath(k.PermitPath)
	for _, v := range k.PermitExtraSubpaths {
		s.readWrite(v)
	}
	for _, v := range k.ReadPaths {
		s.entry(v, Read|Execute, Directory, RegularFile, Device)
	}
	for _, v := range k.PermitFiles {
		s.entry(v, Read|Write, RegularFile)
	}
	for _, v := range k.UnixSockets {
		s.entry(v, Connect, Socket)
	}
	s.scratch(k.AgentScratch)
	s.privateTmp(k.PrivateTmp, p.Name)
	if k.Runtime.Text != "none" {
		s.runtime(k.PTY.On)
	}
	s.environment(k.SetEnv)
	s.workingDir()
	s.command()
	s.protect()
	s.collect()
	if err := s.problems.Err(); err != nil {
		return nil, err
	}
	return s.b, nil
}

// resolver holds one resolution.
type resolver struct {
	facts    *Facts
	request  Request
	walker   *Walker
	problems Refusals
	rules    map[string]*Rule  // by real path
	trails   map[string]*Trail // of read-write rules, by real path
	ways     []way             // values whose way goes through a symlink
	extra    map[string]string // facts that the policy itself makes: agent_scratch, private_tmp
	b        *Boundary
	permit   Rule // the permit path's rule; zero when it was refused

	ruleSlab   []Rule
	reasonSlab [][1]Value
}

// piece puts v into a slab and gives its place: one allocation for 64 values.
func piece[T any](slab *[]T, v T) *T {
	if len(*slab) == cap(*slab) {
		*slab = make([]T, 0, 64)
	}
	*slab = append(*slab, v)
	return &(*slab)[len(*slab)-1]
}

// way is how a value was reached.
type way struct {
	value Value
	trail *Trail
}

// through notes the way of a value that goes through a symlink, and refuses
// one that somebody else made: he could aim it at whatever the user may read and write.
func (s *resolver) through(v Value, t *Trail) bool {
	if h := s.foreign(t); h != nil {
		s.refuse(PathUntrusted, v.Text, fmt.Sprintf("goes through the symlink %s of uid %d, who decides where it leads", h.Path, h.Stat.UID), v.Origin, nil,
			"write the path that is meant, "+t.Target())
		return false
	}
	if slices.ContainsFunc(t.Hops, func(h Hop) bool { return h.Stat.Mode.Type() == fs.ModeSymlink }) {
		s.ways = append(s.ways, way{v, t})
	}
	return true
}

// foreign finds a symlink on the way that belongs neither to root nor to the user.
func (s *resolver) foreign(t *Trail) *Hop {
	for i, h := range t.Hops {
		if h.Stat.Mode.Type() == fs.ModeSymlink && h.Stat.UID != 0 && h.Stat.UID != s.facts.UID {
			return &t.Hops[i]
		}
	}
	return nil
}

func (s *resolver) refuse(code Code, subject, detail string, o Origin, cause error, hints ...string) {
	s.problems = append(s.problems, &Refusal{Code: code, Subject: subject, Detail: detail, Origin: o, Cause: cause, Hints: hints})
}

// grant adds a rule, or an access and a reason to the rule that is there already.
func (s *resolver) grant(r Rule, why Value) *Rule {
	have := s.rules[r.Path]
	if have == nil {
		have = piece(&s.ruleSlab, r)
		have.Reasons = append(piece(&s.reasonSlab, [1]Value{})[:0], why)
		s.rules[r.Path] = have
		return have
	}
	have.Access |= r.Access
	have.Make = have.Make || r.Make
	have.Unprovisioned = have.Unprovisioned || r.Unprovisioned
	have.Reasons = append(have.Reasons, why)
	return have
}

// locate expands and walks one value. It reports what is wrong, and gives nil
// for that and for a "-" entry that this host does not have; a path whose end is missing is
// wrong only when mayMiss is false.
func (s *resolver) locate(v Value, mayMiss bool) *Trail {
	text, optional := v.Text, false
	if strings.HasPrefix(text, "-") {
		text, optional = text[1:], true
	} else {
		text = strings.TrimPrefix(text, "+")
	}
	skip := func(why string) *Trail {
		s.b.skipped = append(s.b.skipped, Skipped{Value: v, Why: why})
		return nil
	}
	path, unset := s.facts.expandPath(text, s.extra)
	if unset != "" {
		why := "${" + unset + "} has no value here"
		if optional {
			return skip(why)
		}
		s.refuse(FactUnset, v.Text, why, v.Origin, nil, unsetHint(unset))
		return nil
	}
	if !strings.HasPrefix(path, "/") {
		s.refuse(PathRelative, v.Text, "means "+strconv.Quote(path)+", which is not an absolute path", v.Origin, nil)
		return nil
	}
	t, err := s.walker.Walk(path)
	if err == syscall.ENOTDIR && optional {
		return skip(t.Real + " is not a directory")
	}
	if err != nil {
		s.pathProblem(v.Text, path, t, err, v.Origin)
		return nil
	}
	if t.Rest != "" && optional {
		return skip(below(t.Real, t.Rest) + " does not exist")
	}
	if t.Rest != "" && !mayMiss {
		var hints []string
		if strings.ContainsAny(text, "*?[") {
			hints = append(hints, "globs are not expanded: name the directory above")
		} else if v.Text == text {
			hints = append(hints, "make it first, or correct the path; nothing was created")
		}
		s.refuse(PathMissing, v.Text, below(t.Real, t.Rest)+" does not exist", v.Origin, syscall.ENOENT, hints...)
		return nil
	}
	if why := badName(t.Target()); why != "" {
		s.refuse(PathEncoding, v.Text, "leads to "+strconv.Quote(t.Target())+", which "+why, v.Origin, nil)
		return nil
	}
	if !s.through(v, t) {
		return nil
	}
	return t
}

func unsetHint(fact string) string {
	if name, ok := strings.CutPrefix(fact, "env:"); ok {
		return "set " + name + `, or mark the entry with "-" to skip it where it is not set`
	}
	if fact == "agent_scratch" || fact == "private_tmp" {
		return "the policy does not have " + fact + ": add it, or write another path"
	}
	return "`confinectl facts` shows what this host has"
}

// badName says why a real path cannot be written down in a report or a policy.
func badName(path string) string {
	if !utf8.ValidString(path) {
		return "is not valid UTF-8"
	}
	if strings.ContainsFunc(path, unprintable) {
		return "contains a control character"
	}
	if strings.Contains(path, "${") {
		return "contains ${, which means a fact in a profile"
	}
	return ""
}

// pathProblem names the refusal for a walk that failed.
func (s *resolver) pathProblem(subject, path string, t *Trail, err error, o Origin) {
	code, detail := PathUnreadable, "cannot look at "+path+": "+errText(err)
	var hints []string
	switch err {
	case syscall.ENOTDIR:
		code, detail = PathNotDirectory, t.Real+" is not a directory"
	case syscall.ELOOP:
		code, detail = PathLoop, path+" goes through more than 40 symlinks"
	case syscall.ENAMETOOLONG:
		code, detail = PathMissing, "the path is longer than any path can be"
	case syscall.EACCES, syscall.EPERM:
		detail = "uid " + strconv.Itoa(s.facts.UID) + " may not search " + t.Real
	case syscall.ESTALE:
		code, detail = PathMoved, path+" leads elsewhere than its text says"
		hints = append(hints, "links like /proc/self/fd/N name open files and not paths: write the real path")
	}
	if len(subject) > 200 {
		subject = subject[:200] + "…"
	}
	if len(detail) > 400 {
		detail = detail[:400] + "…"
	}
	s.refuse(code, subject, detail, o, err, hints...)
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return strings.ToLower(err.Error())
}

// entry grants access to a path that must exist, be of one of the kinds, and
// is what a profile wrote.
func (s *resolver) entry(v Value, access Access, kinds ...Kind) {
	t := s.locate(v, false)
	if t == nil {
		return
	}
	kind := kinds[0]
	if !s.facts.OnPaper {
		if kind = t.Stat.Kind(); !s.kind(v, t, kinds...) {
			return
		}
	}
	if kind == Device {
		access &^= Execute
	}
	s.grant(Rule{Path: t.Real, Kind: kind, Access: access, ID: t.Stat.ID}, v)
	if access&(Write|Names) != 0 {
		s.trails[t.Real] = t
	}
}

func (s *resolver) kind(v Value, t *Trail, kinds ...Kind) bool {
	if slices.Contains(kinds, t.Stat.Kind()) {
		return true
	}
	is := kindName(t.Stat.Mode)
	if t.Real != v.Text {
		is = t.Real + " is " + is
	} else {
		is = "is " + is
	}
	switch kinds[0] {
	case Socket:
		s.refuse(PathNotSocket, v.Text, is+", not a socket", v.Origin, nil)
	case RegularFile:
		s.refuse(PathNotFile, v.Text, is+", not a regular file", v.Origin, nil, "a directory belongs in permit_extra_subpaths")
	default:
		if len(kinds) > 1 {
			s.refuse(PathNotFile, v.Text, is+", neither a directory nor a file", v.Origin, nil)
		} else {
			s.refuse(PathNotDirectory, v.Text, is+", not a directory", v.Origin, syscall.ENOTDIR, "a single file belongs in permit_files or read_paths")
		}
	}
	return false
}

func kindName(m fs.FileMode) string {
	switch m.Type() {
	case fs.ModeDir:
		return "a directory"
	case 0:
		return "a regular file"
	case fs.ModeNamedPipe:
		return "a FIFO"
	case fs.ModeSocket:
		return "a socket"
	case fs.ModeSymlink:
		return "a symlink"
	}
	return "a device"
}

func (s *resolver) permitPath(v Value) {
	given := s.request.PermitPath
	switch {
	case v.Text == "" && given == "":
		s.refuse(PermitMissing, "permit_path", "the profile names no directory that may be written", Origin{}, nil,
			"it is a template: give the directory with --permit-path DIR", `or write permit_path = "${cwd}" into the profile`)
		return
	case v.Text != "" && given != "":
		s.problems = append(s.problems, permitFixed(given, v))
		return
	case given != "":
		v = Value{Text: given, Origin: Origin{Key: "--permit-path"}}
		if !s.literal(v) {
			return
		}
	}
	t := s.locate(v, false)
	if t == nil || !s.kind(v, t, Directory) || s.isRoot(v, t) {
		return
	}
	r := Rule{Path: t.Real, Kind: Directory, Access: ReadWrite, ID: t.Stat.ID}
	s.grant(r, v)
	s.trails[t.Real] = t
	s.permit, s.b.permit = r, t.Real
}

// literal refuses a path of the command line that would not be taken as it
// stands: there, a shell has put in whatever was meant.
func (s *resolver) literal(v Value) bool {
	if !strings.HasPrefix(v.Text, "/") {
		s.refuse(PathRelative, v.Text, "is not an absolute path", v.Origin, nil)
		return false
	}
	if why := badName(v.Text); why != "" {
		s.refuse(PathEncoding, v.Text, why, v.Origin, nil)
		return false
	}
	return true
}

func permitFixed(given string, has Value) *Refusal {
	return &Refusal{Code: PermitFixed, Subject: given, Detail: "the profile has a permit path of its own, " + has.Text, Origin: has.Origin,
		Hints: []string{"leave --permit-path out"}}
}

// SetPermitPath gives a template its directory for good, and does not look
// whether it exists. A policy that has a permit path on any operating system keeps it:
// permit-fixed. A name that a policy cannot hold is path-encoding or path-relative.
func (p *Policy) SetPermitPath(path string) error {
	for _, k := range []*Keys{&p.Common, &p.Linux, &p.Darwin} {
		if k.PermitPath.Text != "" {
			return permitFixed(path, k.PermitPath)
		}
	}
	o := Origin{Key: "--permit-path"}
	if why := badName(path); why != "" {
		return &Refusal{Code: PathEncoding, Subject: path, Detail: why, Origin: o}
	}
	if !strings.HasPrefix(path, "/") {
		return &Refusal{Code: PathRelative, Subject: path, Detail: "is not an absolute path", Origin: o}
	}
	p.Common.PermitPath = Value{Text: path, Origin: o}
	return nil
}

func (s *resolver) isRoot(v Value, t *Trail) bool {
	if t.Real != "/" && (s.facts.OnPaper || t.Stat.ID != t.Hops[0].Stat.ID) {
		return false
	}
	s.refuse(PermitRoot, v.Text, "is the root directory: a boundary around everything is none", v.Origin, nil, "name the directories that are wanted")
	return true
}

// readWrite grants one entry of permit_extra_subpaths.
func (s *resolver) readWrite(v Value) {
	plus := strings.HasPrefix(v.Text, "+")
	t := s.locate(v, plus)
	if t == nil {
		return
	}
	r := Rule{Path: t.Target(), Kind: Directory, Access: ReadWrite, ID: t.Stat.ID}
	switch {
	case dots(t.Rest):
		s.refuse(PathMissing, v.Text, below(t.Real, t.Rest)+" does not exist, and a path through what is still to be made cannot be judged", v.Origin, syscall.ENOENT,
			`write it without "." and ".."`)
		return
	case t.Rest == "":
		if !s.kind(v, t, Directory) || s.isRoot(v, t) {
			return
		}
		if plus {
			if why := unfit(t.Stat, s.facts.UID, 0o002); why != "" {
				s.refuse(ScratchUnfit, v.Text, t.Real+" "+why, v.Origin, nil, `write it without "+" if that is meant`)
				return
			}
		}
	case t.dangling:
		s.refuse(PathMissing, v.Text, "is a symlink to "+t.Target()+", which does not exist", v.Origin, syscall.ENOENT, "make the directory that it leads to")
		return
	case strings.Contains(t.Rest, "/") && !inBaseDirectory(v.Text):
		s.refuse(PathMissing, v.Text, below(t.Real, t.Rest[:strings.IndexByte(t.Rest, '/')])+" does not exist, and only one level is made", v.Origin, syscall.ENOENT,
			"make the directories above it first")
		return
	default:
		r.ID, r.Make = FileID{}, true
		for i, c := range t.Rest {
			if dir := below(t.Real, t.Rest[:i]); c == '/' && !slices.Contains(s.b.parents, dir) {
				s.b.parents = append(s.b.parents, dir)
			}
		}
	}
	s.grant(r, v)
	s.trails[r.Path] = t
}

// dots reports whether a path has "." or ".." as a component.
func dots(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

// inBaseDirectory reports whether a "+" entry lies directly in an XDG base
// directory. Such a directory is made as well where it is missing: the XDG base
// directory specification says so, and a new home has none of them.
func inBaseDirectory(text string) bool {
	for _, fact := range []string{"cache_home", "config_home", "data_home", "state_home"} {
		if name, ok := strings.CutPrefix(text, "+${"+fact+"}/"); ok {
			return !strings.Contains(strings.TrimRight(name, "/"), "/")
		}
	}
	return false
}

// environment works out what is added to the caller's environment.
func (s *resolver) environment(set []Variable) {
	for _, v := range set {
		value, unset := s.facts.expand(v.Value.Text, s.extra)
		if unset != "" {
			s.refuse(FactUnset, v.Value.Text, "${"+unset+"} has no value here", v.Value.Origin, nil, unsetHint(unset))
			continue
		}
		s.b.env = append(s.b.env, EnvVar{v.Name, value, v.Value.Origin})
	}
	if tmp, ok := s.extra["private_tmp"]; ok && !slices.ContainsFunc(s.b.env, func(v EnvVar) bool { return v.Name == "TMPDIR" }) {
		s.b.env = append(s.b.env, EnvVar{"TMPDIR", tmp, Origin{Key: "private_tmp"}})
	}
	slices.SortFunc(s.b.env, func(a, b EnvVar) int { return strings.Compare(a.Name, b.Name) })
	env := append(make([]string, 0, len(s.facts.Env)+len(s.b.env)), s.facts.Env...)
	have := map[string]bool{}
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if at, found := slices.BinarySearchFunc(s.b.env, name, compareEnv); found {
			env[i], have[name] = name+"="+s.b.env[at].Value, true
		}
	}
	for _, v := range s.b.env {
		if !have[v.Name] {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	s.b.environ = env
}

func compareEnv(v EnvVar, name string) int { return strings.Compare(v.Name, name) }

// workingDir takes a directory that really lies in a granted one, as the kernel
// looks at it: a way that only leads through one ("in/../out") does not count.
func (s *resolver) workingDir() {
	if s.request.Dir == "" {
		s.b.dir, s.b.dirID = s.permit.Path, s.permit.ID
		return
	}
	o := Origin{Key: "--cd"}
	v := Value{Text: s.request.Dir, Origin: o}
	if !s.literal(v) {
		return
	}
	t := s.locate(v, false)
	if t == nil || !s.kind(v, t, Directory) {
		return
	}
	for _, r := range s.rules {
		if r.Kind == Directory && r.Access.Has(Read) && within(t.Real, r.Path) && !r.FromHost() {
			s.b.dir, s.b.dirID = t.Real, t.Stat.ID
			return
		}
	}
	s.refuse(CdOutside, s.request.Dir, t.Real+" lies in no directory that the profile grants", o, nil, "choose one at or below "+orElse(s.permit.Path, "the permit path"))
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// protect refuses a read-write root that is, contains, lies in or lies on the
// way to something that could widen the boundary. Files are compared by device and
// inode, so that no other spelling, symlink or bind mount hides one; what does not exist yet is
// compared by real path.
func (s *resolver) protect() {
	if s.facts.OnPaper {
		return // the guards are files of this host; the other one has its own, and judges itself
	}
	roots := make([]string, 0, len(s.trails))
	for path := range s.trails {
		roots = append(roots, path)
	}
	slices.Sort(roots)
	protected := s.request.Protected
	for _, guard := range protected {
		if dots(guard.Path) { // what does not exist yet can come to lead where its text says
			protected = append(slices.Clip(protected), Protected{filepath.Clean(guard.Path), guard.What})
		}
	}
	guards := make([]*Trail, len(protected))
	for i, guard := range protected {
		guards[i], _ = s.walker.Walk(guard.Path) // as far as it exists and may be looked at
	}
	for _, root := range roots {
		for i, guard := range protected {
			how := widens(s.rules[root], s.trails[root], guards[i])
			if how == "" {
				continue
			}
			why := s.rules[root].Reasons[0]
			s.refuse(SelfWidening, why.Text, fmt.Sprintf("%s %s %s, %s: the confined program could widen its own boundary", root, how, guard.What, guard.Path), why.Origin, nil,
				"choose a directory apart from it for the command to work in")
			break
		}
	}
	for _, w := range s.ways {
		if link := s.plantable(w.trail, roots); link != "" {
			s.refuse(SelfWidening, w.value.Text, fmt.Sprintf("leads to %s through the symlink %s: the confined program can replace it, and so choose what the next start grants", w.trail.Target(), link), w.value.Origin, nil,
				"write the path that is meant, "+w.trail.Target())
		}
	}
}

// plantable names a symlink on the way that lies in a read-write root, where
// the confined program could have put it, unless the way ends in what another value
// lets be written anyway. Replacing a directory by a link to somewhere else would
// otherwise be a way out that the next start opens.
func (s *resolver) plantable(t *Trail, roots []string) string {
	for _, root := range roots {
		if r := s.rules[root]; r.Access.Has(Names) && within(t.Target(), root) && (t.Target() != root || len(r.Reasons) > 1) {
			return ""
		}
	}
	for _, h := range t.Hops {
		if h.Stat.Mode.Type() != fs.ModeSymlink {
			continue
		}
		for _, root := range roots {
			if s.rules[root].Access.Has(Names) && h.Path != root && within(h.Path, root) {
				return h.Path
			}
		}
	}
	return ""
}

// widens says how a read-write rule, reached by t, touches what g leads to.
func widens(r *Rule, t, g *Trail) string {
	exists := r.ID != (FileID{})
	switch {
	case exists && g.Rest == "" && r.ID == g.Stat.ID:
		return "is"
	case exists && g.Passes(r.ID):
		return "contains, or lies on the way to,"
	case g.Rest == "" && g.Stat.Mode.IsDir() && t.Passes(g.Stat.ID):
		return "lies in"
	case g.targetWithin(r.Path):
		return "would contain"
	}
	return ""
}

// collect sorts the rules and leaves out those that wider rules above them
// cover. A directory that must be made keeps its rule: the launcher judges it.
func (s *resolver) collect() {
	var room [64]*Rule // mostly enough, and on the stack
	sorted := room[:0]
	for _, r := range s.rules {
		sorted = append(sorted, r)
	}
	slices.SortFunc(sorted, func(a, b *Rule) int { return strings.Compare(a.Path, b.Path) })
	all := make([]Rule, len(sorted))
	n, covered := 0, len(all) // those that are covered are filled in from the end
	for _, r := range sorted {
		if len(r.Reasons) > 1 {
			slices.SortStableFunc(r.Reasons, func(a, b Value) int { return strings.Compare(a.Origin.File, b.Origin.File) })
		}
		if !r.Make && !r.Unprovisioned && r.Path != "/" && s.reaches(parent(r.Path), r.Access) {
			covered--
			all[covered] = *r
		} else {
			all[n] = *r
			n++
		}
	}
	slices.Reverse(all[n:])
	s.b.rules, s.b.covered = all[:n:n], all[n:]
}

// UsesCwd names the first value of the policy that depends on the directory
// its caller stands in, and so means nothing on another host.
func (p *Policy) UsesCwd() (Value, bool) {
	for _, k := range []*Keys{&p.Common, &p.Linux, &p.Darwin} {
		if usesCwd(k.PermitPath) {
			return k.PermitPath, true
		}
		for _, list := range [][]Value{k.PermitExtraSubpaths, k.ReadPaths, k.PermitFiles, k.UnixSockets} {
			if i := slices.IndexFunc(list, usesCwd); i >= 0 {
				return list[i], true
			}
		}
		for _, v := range k.SetEnv {
			if usesCwd(v.Value) {
				return v.Value, true
			}
		}
	}
	return Value{}, false
}

func usesCwd(v Value) bool { return strings.Contains(v.Text, "${cwd}") }
