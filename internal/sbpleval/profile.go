package sbpleval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A Param is a value by the name that the text uses, as sandbox-exec -D gives it.
type Param struct {
	Key, Value string
}

// Profile is a text that was read and understood in full.
type Profile struct {
	rules []rule
}

type rule struct {
	allow   bool
	op      string
	filters []filter // any one of them; none: always
}

// filter is one condition. Only one of its parts is used.
type filter struct {
	kind string
	arg  string
	of   []filter
}

// operations are those that are known, each with the one that it falls back
// to: Apple's rule library of 10.11 and the tables of 10.15.
var operations = map[string]string{
	"file*": "default", "network*": "default", "mach*": "default", "process*": "default", "sysctl*": "default", "ipc*": "default",
	"system*": "default", "signal": "default", "pseudo-tty": "default", "iokit-open": "default", "lsopen": "default", "appleevent-send": "default",
	"job-creation": "default", "hid-control": "default", "user-preference*": "default", "user-preference-read": "user-preference*", "user-preference-write": "user-preference*",
	"file-read*": "file*", "file-read-data": "file-read*", "file-read-metadata": "file-read*", "file-read-xattr": "file-read*",
	"file-write*": "file*", "file-write-acl": "file-write*", "file-write-create": "file-write*", "file-write-data": "file-write*",
	"file-write-finderinfo": "file-write*", "file-write-flags": "file-write*", "file-write-mode": "file-write*", "file-write-owner": "file-write*",
	"file-write-times": "file-write*", "file-write-unlink": "file-write*", "file-write-xattr": "file-write*", "file-write-setugid": "default",
	"file-ioctl": "file*", "file-mknod": "file*", "file-mount": "file*", "file-chroot": "file*", "file-issue-extension": "file*",
	"file-map-executable": "default", "file-link": "default", "file-clone": "default", "file-test-existence": "default",
	"network-inbound": "network*", "network-bind": "network-inbound", "network-outbound": "network*",
	"process-exec*": "process*", "process-exec-interpreter": "process-exec*", "process-fork": "process*", "process-info*": "default",
	"sysctl-read": "sysctl*", "sysctl-write": "sysctl*",
	"mach-lookup": "mach*", "mach-register": "mach*", "mach-task-name": "mach*", "mach-priv-task-port": "mach*",
	"ipc-posix*": "ipc*", "ipc-posix-sem": "ipc-posix*", "ipc-posix-shm*": "ipc-posix*", "ipc-posix-shm-read-data": "ipc-posix-shm*",
	"ipc-posix-shm-write-data": "ipc-posix-shm*", "ipc-sysv*": "ipc*", "ipc-sysv-sem": "ipc-sysv*", "ipc-sysv-shm": "ipc-sysv*",
	"system-socket": "system*",
}

// ownTerminal are the operations that never fall back to the default: what
// holds where no rule speaks of them (tables of 10.15).
var ownTerminal = map[string]bool{
	"process-info*": true, "file-map-executable": true, "file-link": true, "file-clone": true, "file-test-existence": true,
	"file-write-setugid": false, "job-creation": false,
}

// free are the operations that an allow rule without a filter may be for. Every
// other one reaches files or programs, and without a filter all of them.
var free = []string{"file-read-metadata", "process-fork", "sysctl-read", "ipc-posix-sem", "ipc-sysv-sem", "system-socket", "pseudo-tty"}

// filterKinds says which operations a filter may stand with, by their beginnings.
var filterKinds = map[string][]string{
	"literal": {"file-", "process-exec", "network-"}, "subpath": {"file-", "process-exec", "network-"}, "extension": {"file-"},
	"remote": {"network-outbound"}, "local": {"network-inbound", "network-bind"},
	"global-name": {"mach-lookup"}, "sysctl-name": {"sysctl-"}, "ipc-posix-name": {"ipc-posix-"}, "preference-domain": {"user-preference-"},
	"iokit-registry-entry-class": {"iokit-open"}, "target": {"signal", "process-info"},
}

// Parse reads a profile and the parameters of its launch.
func Parse(text string, params []Param) (*Profile, error) {
	for i := range len(text) {
		if text[i] > 0x7e {
			return nil, errors.New("text that is not ASCII outside the parameters")
		}
	}
	top, err := read(text)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, p := range params {
		if _, twice := values[p.Key]; twice || p.Key == "" || strings.Contains(p.Key, "=") {
			return nil, fmt.Errorf("parameter %q", p.Key)
		}
		values[p.Key] = p.Value
	}
	p := &Profile{}
	b := &builder{values: values, used: map[string]bool{}}
	for i, form := range top {
		if form.kind != '(' || len(form.list) == 0 || form.list[0].kind != 'a' {
			return nil, fmt.Errorf("form %d is no rule", i)
		}
		switch word := form.list[0].text; {
		case i == 0:
			if word != "version" || len(form.list) != 2 || form.list[1].text != "1" || form.list[1].kind != 'a' {
				return nil, errors.New("the first form is not (version 1)")
			}
		case i == 1:
			if word != "deny" || len(form.list) != 2 || form.list[1].text != "default" || form.list[1].kind != 'a' {
				return nil, errors.New("the second form is not (deny default)")
			}
			p.rules = append(p.rules, rule{false, "default", nil})
		case word == "allow" || word == "deny":
			rules, err := b.rule(word == "allow", form.list[1:])
			if err != nil {
				return nil, fmt.Errorf("form %d: %w", i, err)
			}
			p.rules = append(p.rules, rules...)
		default:
			return nil, fmt.Errorf("form %d: the word %s is not known", i, word)
		}
	}
	if len(top) < 2 {
		return nil, errors.New("no (deny default)")
	}
	for key := range values {
		if !b.used[key] {
			return nil, fmt.Errorf("parameter %s is not used", key)
		}
	}
	return p, nil
}

type builder struct {
	values map[string]string
	used   map[string]bool
}

func (b *builder) rule(allow bool, parts []node) ([]rule, error) {
	var ops []string
	for len(parts) > 0 && parts[0].kind == 'a' {
		if _, known := operations[parts[0].text]; !known {
			return nil, fmt.Errorf("the operation %s is not known", parts[0].text)
		}
		ops = append(ops, parts[0].text)
		parts = parts[1:]
	}
	if len(ops) == 0 {
		return nil, errors.New("a rule without an operation")
	}
	var filters []filter
	for _, n := range parts {
		f, err := b.filter(n, ops)
		if err != nil {
			return nil, err
		}
		filters = append(filters, f)
	}
	var rules []rule
	for _, op := range ops {
		if len(filters) == 0 && (!allow || !slices.Contains(free, op)) {
			return nil, fmt.Errorf("%s without a filter", op)
		}
		if !allow && !strings.HasPrefix(op, "sysctl-") {
			return nil, fmt.Errorf("a deny of %s: only what a rule of the same operation allows can be cut", op)
		}
		rules = append(rules, rule{allow, op, filters})
	}
	return rules, nil
}

func (b *builder) filter(n node, ops []string) (filter, error) {
	if n.kind != '(' || len(n.list) == 0 || n.list[0].kind != 'a' {
		return filter{}, errors.New("a filter that is none")
	}
	f := filter{kind: n.list[0].text}
	args := n.list[1:]
	switch f.kind {
	case "require-all", "require-any", "require-not":
		if len(args) == 0 || f.kind == "require-not" && len(args) != 1 {
			return f, fmt.Errorf("%s of %d filters", f.kind, len(args))
		}
		for _, a := range args {
			sub, err := b.filter(a, ops)
			if err != nil {
				return f, err
			}
			f.of = append(f.of, sub)
		}
		return f, nil
	}
	beginnings, known := filterKinds[f.kind]
	if !known {
		return f, fmt.Errorf("the filter %s is not known", f.kind)
	}
	for _, op := range ops {
		if !slices.ContainsFunc(beginnings, func(s string) bool { return strings.HasPrefix(op, s) }) {
			return f, fmt.Errorf("%s does not go with %s", f.kind, op)
		}
	}
	if len(args) != 1 {
		return f, fmt.Errorf("%s with %d arguments", f.kind, len(args)) // (remote) alone ends the real parser
	}
	var err error
	switch a := args[0]; {
	case f.kind == "remote" || f.kind == "local" || f.kind == "target":
		f.arg = a.text
		if a.kind != 'a' || f.kind == "target" && f.arg != "self" && f.arg != "same-sandbox" || f.kind != "target" && f.arg != "ip" {
			err = fmt.Errorf("%s %s", f.kind, a.text)
		}
	default:
		f.arg, err = b.str(a)
	}
	if err == nil && (f.kind == "literal" || f.kind == "subpath") {
		err = pathShape(f.arg, f.kind == "literal")
	}
	if err == nil && f.arg == "" {
		err = fmt.Errorf("%s of nothing", f.kind)
	}
	return f, err
}

// str is a string of the text or a parameter.
func (b *builder) str(n node) (string, error) {
	if n.kind == '"' {
		return n.text, nil
	}
	if n.kind != '(' || len(n.list) != 2 || n.list[0].text != "param" || n.list[1].kind != '"' {
		return "", errors.New("an argument that is neither a string nor a parameter")
	}
	v, ok := b.values[n.list[1].text]
	if !ok {
		return "", fmt.Errorf("parameter %s has no value", n.list[1].text)
	}
	b.used[n.list[1].text] = true
	return v, nil
}

func pathShape(p string, root bool) error {
	switch {
	case p == "/" && root:
		return nil
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("%q is not absolute", p)
	case strings.HasSuffix(p, "/"):
		return fmt.Errorf("%q ends in a slash", p)
	case strings.Contains(p, "//") || strings.Contains(p+"/", "/./") || strings.Contains(p+"/", "/../"):
		return fmt.Errorf("%q is no real path", p)
	}
	return nil
}

// A Fact is one thing that a profile states about a path.
type Fact struct {
	Op, Filter, Path string
}

// Facts are all filters of the profile that name a path, as operation, filter
// and path; one inside a require form has that form's name before its own.
func (p *Profile) Facts() []Fact {
	var facts []Fact
	var walk func(op, prefix string, f filter)
	walk = func(op, prefix string, f filter) {
		if f.kind == "literal" || f.kind == "subpath" {
			facts = append(facts, Fact{op, prefix + f.kind, f.arg})
		}
		for _, sub := range f.of {
			walk(op, prefix+f.kind+" ", sub)
		}
	}
	for _, r := range p.rules {
		for _, f := range r.filters {
			walk(r.op, "", f)
		}
	}
	return facts
}
