package sbpleval

import (
	"fmt"
	"strings"
)

// Query is one thing that a program does, as the kernel asks Seatbelt about it.
type Query struct {
	Op     string
	Path   string // the real path: files, executables, Unix sockets
	Name   string // a Mach service, sysctl, preference domain
	IP     bool   // the other end is an address and not a path
	Target string // of a signal: "self", "same-sandbox", "others"
}

// Allows answers by both accounts of rule order. It is an error where they
// differ: a profile whose meaning depends on a dispute holds nothing.
func (p *Profile) Allows(q Query) (bool, error) {
	if _, known := operations[q.Op]; !known {
		return false, fmt.Errorf("the operation %s is not known", q.Op)
	}
	apple, last := p.apple(q), p.lastMatch(q)
	if apple != last {
		return false, fmt.Errorf("%+v: Apple's rule library says %t, the last match %t", q, apple, last)
	}
	return apple, nil
}

// apple is the account of Apple's own rule library: every operation has a list of filtered rules, of
// which the one written last is asked first, and a terminal, which an
// unfiltered rule replaces wherever it stands; without a terminal the parent is asked.
func (p *Profile) apple(q Query) bool {
	for op := q.Op; ; op = operations[op] {
		terminal, has := ownTerminal[op]
		for i := len(p.rules) - 1; i >= 0; i-- {
			if r := p.rules[i]; r.op == op && len(r.filters) > 0 && r.matches(q) {
				return r.allow
			}
		}
		for _, r := range p.rules {
			if r.op == op && len(r.filters) == 0 {
				terminal, has = r.allow, true
			}
		}
		if has || op == "default" {
			return terminal
		}
	}
}

// lastMatch is the other account: of all rules for the operation or one that it
// falls back to, the last that matches.
func (p *Profile) lastMatch(q Query) bool {
	covers := map[string]bool{}
	verdict := false
	for op := q.Op; ; op = operations[op] {
		covers[op] = true
		if own, has := ownTerminal[op]; has {
			verdict = own
			break
		}
		if op == "default" {
			break
		}
	}
	for _, r := range p.rules {
		if covers[r.op] && r.matches(q) {
			verdict = r.allow
		}
	}
	return verdict
}

func (r rule) matches(q Query) bool {
	for _, f := range r.filters {
		if f.matches(q) {
			return true
		}
	}
	return len(r.filters) == 0
}

func (f filter) matches(q Query) bool {
	switch f.kind {
	case "literal":
		return q.Path != "" && q.Path == f.arg
	case "subpath":
		return q.Path == f.arg || strings.HasPrefix(q.Path, f.arg+"/")
	case "remote", "local":
		return q.IP
	case "target":
		return q.Target == f.arg
	case "extension":
		return false // nothing has handed one out
	case "require-all":
		for _, sub := range f.of {
			if !sub.matches(q) {
				return false
			}
		}
		return true
	case "require-any":
		for _, sub := range f.of {
			if sub.matches(q) {
				return true
			}
		}
		return false
	case "require-not":
		return !f.of[0].matches(q)
	}
	return q.Name != "" && q.Name == f.arg
}
