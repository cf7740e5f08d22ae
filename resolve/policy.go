package resolve

import (
	"slices"
	"strings"
)

// Policy says what a program may reach, before any host has looked at it: what
// remains of a profile after merging. It claims nothing; anyone may write one, as a
// TOML profile, as JSON ([DecodePolicy]) or as a Go literal. Only [Resolve] turns it into
// something that can be enforced. The zero Policy permits nothing and is refused.
type Policy struct {
	Name   string // the profile's name; empty for a policy that never had one
	Common Keys   // for every operating system
	Linux  Keys   // laid over Common on Linux
	Darwin Keys   // laid over Common on macOS
}

// Keys are the keys that a profile and a policy share. A zero field means that
// the key was not written. docs/profile.md explains each key.
type Keys struct {
	PermitPath          Value
	PermitExtraSubpaths []Value
	ReadPaths           []Value
	PermitFiles         []Value
	UnixSockets         []Value
	Runtime             Value // "default" or "none"
	PTY                 Flag
	PrivateTmp          Flag
	AgentScratch        AgentScratch
	SetEnv              []Variable // sorted by name, no name twice
	MinABI              Floor

	Audit      Flag    // only in Policy.Linux
	MachLookup []Value // only in Policy.Darwin
}

// Value is one string of a document and the place where it was written.
type Value struct {
	Text   string
	Origin Origin
}

// Flag is a boolean that may be absent. Set tells "false" from "not written",
// so that a profile can switch off what a parent switched on.
type Flag struct {
	Set, On bool
	Origin  Origin
}

// AgentScratch asks for <tmproot>/<agent>-<uid>, a directory that the
// executing host names. With Provision the launcher makes it.
type AgentScratch struct {
	Agent     string // empty: the key was not written
	Provision bool
	Origin    Origin
}

// Variable is one entry of set_env.
type Variable struct {
	Name  string
	Value Value
}

// Floor is the least Landlock ABI that a policy accepts; N is 0 where none was written.
type Floor struct {
	N      int
	Origin Origin
}

// Merge lays over on p: lists join (an element that is already there is not
// added again), scalars replace, and the higher min_abi wins, so that a floor
// never sinks. over must not be changed afterwards.
func (p *Policy) Merge(over *Policy) {
	if over.Name != "" {
		p.Name = over.Name
	}
	p.Common.Merge(&over.Common)
	p.Linux.Merge(&over.Linux)
	p.Darwin.Merge(&over.Darwin)
}

// Merge lays over on k by the rules of [Policy.Merge].
func (k *Keys) Merge(over *Keys) {
	if over.PermitPath.Text != "" {
		k.PermitPath = over.PermitPath
	}
	if over.Runtime.Text != "" {
		k.Runtime = over.Runtime
	}
	if over.PTY.Set {
		k.PTY = over.PTY
	}
	if over.PrivateTmp.Set {
		k.PrivateTmp = over.PrivateTmp
	}
	if over.Audit.Set {
		k.Audit = over.Audit
	}
	if over.AgentScratch.Agent != "" {
		k.AgentScratch = over.AgentScratch
	}
	if over.MinABI.N > k.MinABI.N {
		k.MinABI = over.MinABI
	}
	k.PermitExtraSubpaths = join(k.PermitExtraSubpaths, over.PermitExtraSubpaths)
	k.ReadPaths = join(k.ReadPaths, over.ReadPaths)
	k.PermitFiles = join(k.PermitFiles, over.PermitFiles)
	k.UnixSockets = join(k.UnixSockets, over.UnixSockets)
	k.MachLookup = join(k.MachLookup, over.MachLookup)
	k.SetEnv = mergeEnv(k.SetEnv, over.SetEnv)
}

// mergeEnv joins two lists that are sorted by name; where both have one, over wins.
func mergeEnv(under, over []Variable) []Variable {
	if len(over) == 0 {
		return under
	}
	merged := make([]Variable, 0, len(under)+len(over))
	for len(under) > 0 && len(over) > 0 {
		switch c := strings.Compare(under[0].Name, over[0].Name); {
		case c < 0:
			merged, under = append(merged, under[0]), under[1:]
		case c > 0:
			merged, over = append(merged, over[0]), over[1:]
		default:
			merged, under, over = append(merged, over[0]), under[1:], over[1:]
		}
	}
	return append(append(merged, under...), over...)
}

// join appends the values of more whose text is not in list yet. It leaves
// the array behind list alone: profiles that share a parent share it.
func join(list, more []Value) []Value {
	if len(more) == 0 {
		return list
	}
	has := func(text string) bool {
		return slices.ContainsFunc(list, func(v Value) bool { return v.Text == text })
	}
	if all := len(list) + len(more); all > 32 {
		seen := make(map[string]bool, all)
		for _, v := range list {
			seen[v.Text] = true
		}
		has = func(text string) bool {
			if seen[text] {
				return true
			}
			seen[text] = true
			return false
		}
	}
	list = slices.Clip(list)
	for _, v := range more {
		if !has(v.Text) {
			list = append(list, v)
		}
	}
	return list
}
