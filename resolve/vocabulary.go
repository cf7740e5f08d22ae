package resolve

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxProblems is how many problems of one document are reported one by one:
// more than a person reads, and few enough that a hostile document costs nothing.
const maxProblems = 100

// MaxDocument is the most bytes of one profile or policy that is ever read.
const MaxDocument = 1 << 20

// Document is a profile or policy on its way to becoming a [Policy]: where it was
// read from, and the codes that its problems get. TOML and JSON share one
// vocabulary, so they share this reader.
type Document struct {
	File  string               // the Origin.File of every value
	Key   Code                 // refusal for a key that does not exist
	Value Code                 // refusal for a value that the key cannot have
	Line  func(key string) int // line of a dotted key, 0 if not known; may be nil
}

// commonKeys exist at the top level and in both OS tables.
var commonKeys = []string{
	"agent_scratch", "min_abi", "permit_extra_subpaths", "permit_files", "permit_path", "private_tmp",
	"pty", "read_paths", "runtime", "set_env", "unix_sockets",
}

// reader collects the problems of one document.
type reader struct {
	doc      Document
	problems Refusals
	more     int // problems beyond maxProblems, which are only counted
}

// Read turns a decoded document into a Policy. table holds string, int64,
// bool, nil, []any and map[string]any; every other type of a value is wrong by being
// none of these. own are top-level keys that the caller reads itself.
//
// Keys are exact: another letter case, an unknown key, null, a wrong type and
// a value out of range are problems, and all of them are reported, sorted by
// key. The Policy is nil unless there are none.
func (d Document) Read(table map[string]any, own ...string) (*Policy, Refusals) {
	r := &reader{doc: d}
	p := &Policy{}
	for _, key := range sortedKeys(table) {
		switch {
		case slices.Contains(own, key):
		case key == "linux":
			r.keys(&p.Linux, "linux.", table[key], append([]string{"audit"}, commonKeys...))
		case key == "darwin":
			r.keys(&p.Darwin, "darwin.", table[key], append(slices.DeleteFunc(slices.Clone(commonKeys), func(k string) bool { return k == "min_abi" }), "mach_lookup"))
		case slices.Contains(commonKeys, key):
			r.key(&p.Common, key, key, table[key])
		default:
			r.unknown(key, table[key], append([]string{"linux", "darwin"}, append(own, commonKeys...)...))
		}
	}
	if len(r.problems) > 0 {
		if r.more > 0 {
			o := r.origin("")
			r.problems = append(r.problems, &Refusal{Code: r.doc.Key, Subject: orElse(r.doc.File, "document"), Detail: fmt.Sprintf("has %d problems more", r.more), Origin: o})
		}
		return nil, r.problems
	}
	return p, nil
}

// String reads one of the caller's own keys as one line of text.
func (d Document) String(key string, v any) (string, *Refusal) {
	r := &reader{doc: d}
	if s, ok := r.str(key, v); ok && r.line(key, s) {
		return s, nil
	}
	return "", r.problems[0]
}

// Strings reads one of the caller's own keys as a list of strings.
func (d Document) Strings(key string, v any) ([]Value, Refusals) {
	r := &reader{doc: d}
	return r.list(key, v, nil), r.problems
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (r *reader) origin(key string) Origin {
	o := Origin{File: r.doc.File, Key: key}
	if r.doc.Line != nil {
		o.Line = r.doc.Line(key)
	}
	return o
}

func (r *reader) problem(code Code, key, detail string, hints ...string) {
	o := r.origin(key)
	o.Key = "" // the key is the subject; saying it twice helps nobody
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, &Refusal{Code: code, Subject: key, Detail: detail, Origin: o, Hints: hints})
}

func (r *reader) wrong(key, detail string, hints ...string) {
	r.problem(r.doc.Value, key, detail, hints...)
}

// unknown reports a key that does not exist. Of a table that looks like no
// other it reports every key: one that slipped below a [header] is found by its own name.
func (r *reader) unknown(key string, v any, known []string) {
	dot := strings.LastIndexByte(key, '.')
	name := key[dot+1:]
	hints := r.hint(name, known)
	if t, ok := v.(map[string]any); ok && len(t) > 0 && len(hints) == 0 {
		for _, k := range sortedKeys(t) {
			r.unknown(key+"."+k, t[k], nil)
		}
		return
	}
	if dot > 0 && len(hints) == 0 && slices.Contains(commonKeys, name) {
		hints = slipped(name, key[:dot])
	}
	r.problem(r.doc.Key, key, "unknown key", hints...)
}

func slipped(name, table string) []string {
	return []string{"a key below a [table] header belongs to that table: move " + name + " above [" + table + "]"}
}

func (r *reader) hint(name string, known []string) []string {
	fold := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	switch fold(name) {
	case "deny", "denypaths", "except", "exclude", "readonlysubpaths", "denyread", "denywrite":
		return []string{"nothing can be taken away below a grant: grant the parts that are wanted instead"}
	case "audit":
		if !slices.Contains(known, "audit") {
			return []string{"audit is only known in [linux]"}
		}
	case "machlookup":
		if !slices.Contains(known, "mach_lookup") {
			return []string{"mach_lookup is only known in [darwin]"}
		}
	case "minabi":
		if known != nil && !slices.Contains(known, "min_abi") {
			return []string{"min_abi is a Landlock floor: write it in [linux]"}
		}
	}
	best, bestDistance := "", 3
	for _, k := range known {
		if fold(k) == fold(name) {
			best, bestDistance = k, 0
		} else if d := distance(name, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best != "" {
		return []string{"did you mean " + best + "?"}
	}
	return nil
}

// distance is the Levenshtein distance of two short words.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			last, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, last+cost)
		}
	}
	return row[len(b)]
}

func (r *reader) keys(k *Keys, prefix string, v any, known []string) {
	t, ok := v.(map[string]any)
	if !ok {
		r.wrong(strings.TrimSuffix(prefix, "."), "is "+typeName(v)+", not a table")
		return
	}
	for _, name := range sortedKeys(t) {
		if !slices.Contains(known, name) {
			r.unknown(prefix+name, t[name], known)
			continue
		}
		r.key(k, name, prefix+name, t[name])
	}
}

func (r *reader) key(k *Keys, name, full string, v any) {
	switch name {
	case "permit_path":
		if s, ok := r.str(full, v); ok && r.path(full, s, "") {
			k.PermitPath = Value{Text: s, Origin: r.origin(full)}
		}
	case "permit_extra_subpaths":
		k.PermitExtraSubpaths = r.list(full, v, func(key, s string) bool { return r.path(key, s, "-+") })
	case "read_paths":
		k.ReadPaths = r.list(full, v, func(key, s string) bool { return r.path(key, s, "-") })
	case "permit_files":
		k.PermitFiles = r.list(full, v, func(key, s string) bool { return r.path(key, s, "-") })
	case "unix_sockets":
		k.UnixSockets = r.list(full, v, func(key, s string) bool { return r.path(key, s, "-") })
	case "mach_lookup":
		k.MachLookup = r.list(full, v, r.machName)
	case "runtime":
		if s, ok := r.str(full, v); ok {
			if s != "default" && s != "none" {
				r.wrong(full, "is "+strconv.Quote(s)+`, not "default" or "none"`)
			}
			k.Runtime = Value{Text: s, Origin: r.origin(full)}
		}
	case "pty":
		k.PTY = r.flag(full, v)
	case "private_tmp":
		k.PrivateTmp = r.flag(full, v)
	case "audit":
		k.Audit = r.flag(full, v)
	case "min_abi":
		n, ok := v.(int64)
		switch {
		case !ok:
			r.wrong(full, "is "+typeName(v)+", not a whole number")
		case n < 1 || n > 1<<31-1:
			r.wrong(full, "is "+strconv.FormatInt(n, 10)+", not a Landlock ABI version: the first is 1")
		default:
			k.MinABI = Floor{N: int(n), Origin: r.origin(full)}
		}
	case "agent_scratch":
		r.agentScratch(&k.AgentScratch, full, v)
	case "set_env":
		t, ok := v.(map[string]any)
		if !ok {
			r.wrong(full, "is "+typeName(v)+", not a table of variables")
			return
		}
		for _, name := range sortedKeys(t) {
			key := full + "." + name
			if slices.Contains(commonKeys, name) { // it would be lost: runtime = "none" widens when nobody reads it
				r.wrong(key, "is a key of a profile, not a variable", slipped(name, full)...)
			} else if !envName(name) {
				r.wrong(key, "is not the name of an environment variable")
			} else if s, ok := r.str(key, t[name]); ok && r.facts(key, s, "agent_scratch", "private_tmp") {
				k.SetEnv = append(k.SetEnv, Variable{Name: name, Value: Value{Text: s, Origin: r.origin(key)}})
			}
		}
	default:
		panic("BUG: key " + name + " is known and has no reader")
	}
}

func (r *reader) agentScratch(s *AgentScratch, full string, v any) {
	t, ok := v.(map[string]any)
	if !ok {
		r.wrong(full, "is "+typeName(v)+`, not a table like { agent = "claude", provision = true }`)
		return
	}
	*s = AgentScratch{Origin: r.origin(full)}
	for _, name := range sortedKeys(t) {
		key := full + "." + name
		switch name {
		case "agent":
			if a, ok := r.str(key, t[name]); ok {
				if !agentName(a) {
					r.wrong(key, "is "+strconv.Quote(a)+", not a plain name: small letters, digits, - and _, at most 32")
				}
				s.Agent = a
			}
		case "provision":
			s.Provision = r.flag(key, t[name]).On
		default:
			r.unknown(key, t[name], []string{"agent", "provision"})
		}
	}
	if _, ok := t["agent"]; !ok {
		r.wrong(full, "has no agent")
	}
}

func (r *reader) str(key string, v any) (string, bool) {
	s, ok := v.(string)
	switch {
	case !ok:
		r.wrong(key, "is "+typeName(v)+", not a string")
	case !utf8.ValidString(s):
		r.wrong(key, "is not valid UTF-8")
		ok = false
	case strings.Contains(s, "\x00"):
		r.wrong(key, "contains a NUL character")
		ok = false
	}
	return s, ok
}

func (r *reader) flag(key string, v any) Flag {
	on, ok := v.(bool)
	if !ok {
		r.wrong(key, "is "+typeName(v)+", not true or false")
	}
	return Flag{Set: true, On: on, Origin: r.origin(key)}
}

func (r *reader) list(full string, v any, check func(key, s string) bool) []Value {
	l, ok := v.([]any)
	if !ok {
		r.wrong(full, "is "+typeName(v)+", not a list of strings")
		return nil
	}
	var out []Value
	for i, e := range l {
		key := full + "[" + strconv.Itoa(i) + "]"
		if s, ok := r.str(key, e); ok && (check == nil || check(key, s)) {
			out = append(out, Value{Text: s, Origin: r.origin(key)})
		}
	}
	return out
}

// line reports characters that would break a line of output, or its order.
func (r *reader) line(key, s string) bool {
	i := strings.IndexFunc(s, unprintable)
	if i >= 0 {
		r.wrong(key, fmt.Sprintf("contains the control character %q", []rune(s[i:])[0]))
	}
	return i < 0
}

// path judges the spelling of a path value; whether it exists is for Resolve.
func (r *reader) path(key, s, markers string) bool {
	if s == "" {
		r.wrong(key, "is empty")
		return false
	}
	if !r.line(key, s) {
		return false
	}
	rest := s
	if s[0] == '-' || s[0] == '+' {
		if !strings.Contains(markers, s[:1]) {
			r.wrong(key, "takes no "+s[:1]+" marker", markerHint(s[0]))
			return false
		}
		rest = s[1:]
	}
	if !strings.HasPrefix(rest, "/") && !strings.HasPrefix(rest, "~/") && !strings.HasPrefix(rest, "${") {
		r.problem(PathRelative, key, strconv.Quote(s)+" is neither absolute nor begins with ~/ or a fact", relativeHint(rest))
		return false
	}
	return r.facts(key, rest)
}

func markerHint(c byte) string {
	if c == '+' {
		return "+ (make it if missing) is for permit_extra_subpaths"
	}
	return "- (skip if missing) is for the lists of paths"
}

func relativeHint(s string) string {
	switch {
	case s == "." || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"):
		return `write "${cwd}" for the directory that the command is started in`
	case strings.HasPrefix(s, "~"):
		return `write "${home}" for the home directory, or begin with ~/; other users' homes are written out`
	case strings.HasPrefix(s, "$"):
		return "write ${home}, ${cwd} or ${env:NAME}; `confinectl facts` lists them all"
	}
	return `write the whole path, or begin with "~/" or "${cwd}/"`
}

// facts reports facts that no host has. more are known in this place only.
func (r *reader) facts(key, s string, more ...string) bool {
	parts, why := split(s)
	if why != "" {
		r.wrong(key, why)
		return false
	}
	ok := true
	for _, p := range parts {
		if !p.fact || slices.Contains(more, p.text) || slices.Contains(factNames, p.text) {
			continue
		}
		if name, env := strings.CutPrefix(p.text, "env:"); env && envName(name) {
			continue
		}
		r.wrong(key, "unknown fact ${"+p.text+"}", "known: "+strings.Join(append(slices.Clone(factNames), more...), " ")+" env:NAME")
		ok = false
	}
	return ok
}

func (r *reader) machName(key, s string) bool {
	ok := s != "" && len(s) <= 128 && !strings.ContainsFunc(s, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c))
	})
	if !ok {
		r.wrong(key, "is "+strconv.Quote(s)+", not the name of a Mach service")
	}
	return ok
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int64:
		return "a number"
	case float64:
		return "a number that is not whole, or too large"
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

func envName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

func agentName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_')) {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

// ValidName reports whether s can name a profile: [a-z0-9][a-z0-9._-]{0,63}.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || i > 0 && (c == '-' || c == '_' || c == '.')) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// unprintable are the characters that no path of a document may contain:
// controls, and the marks that make text read in another order than it stands.
func unprintable(c rune) bool {
	return unicode.IsControl(c) || c >= 0x202a && c <= 0x202e || c >= 0x2066 && c <= 0x2069
}
