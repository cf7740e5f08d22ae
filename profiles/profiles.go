// Package profiles is the TOML language of confinectl: it turns the text of one
// document into a [Profile], or reports everything that is wrong with it.
//
// It knows documents, not files: where profiles are searched, whom they may belong to
// and in which order they extend each other is the loader's business. The keys and their
// values are package resolve's, so that a profile and a JSON policy cannot
// drift apart. docs/profile.md is the manual, docs/profile.schema.json the schema
// for editors; a test holds both against this package.
package profiles

import (
	"slices"
	"strconv"

	"github.com/confinectl/confinectl/resolve"
)

// Profile is what one document says, or what several say after [Merge].
type Profile struct {
	Name        string          // the name it is asked for by
	File        string          // where it was read from, for messages
	Description string          // one line for people
	Extends     []resolve.Value // names of its parents, in order, none twice
	Policy      resolve.Policy  // everything else; Policy.Name is Name
}

// Parse reads one profile. name is the name it is asked for by, file is what
// messages call the document; Parse opens nothing.
//
// Keys are exact: another letter case is another key, and refused as unknown. Every
// value has an Origin with file, key and line.
//
// Refusals: profile-name alone for a name that is none; profile-syntax alone for a
// document that is not TOML, not UTF-8, or larger than [resolve.MaxDocument];
// otherwise every profile-key, profile-value, profile-name and path-relative of the document.
func Parse(name, file string, data []byte) (*Profile, error) {
	return parse(name, file, data, "description", "extends")
}

// ParseDropIn reads one document of NAME.d, which is laid over the profile name.
// It is a profile in all but one thing: it cannot extend (profile-key), because
// parents come before the profile and a drop-in comes after it.
func ParseDropIn(name, file string, data []byte) (*Profile, error) {
	return parse(name, file, data, "description")
}

// parse reads a document that has the keys own besides those of a policy.
func parse(name, file string, data []byte, own ...string) (*Profile, error) {
	if !resolve.ValidName(name) {
		return nil, resolve.Refusals{{Code: resolve.ProfileName, Subject: name, Detail: "is not a profile name: " + nameRule,
			Origin: resolve.Origin{File: file}}}
	}
	table, lines, problem := decode(data)
	if problem != nil {
		problem.Subject, problem.Origin.File = name, file
		return nil, resolve.Refusals{problem}
	}
	doc := resolve.Document{
		File: file, Key: resolve.ProfileKey, Value: resolve.ProfileValue,
		Line: func(key string) int { return lines[key] },
	}
	p := &Profile{Name: name, File: file}
	policy, problems := doc.Read(table, own...)
	for _, r := range problems {
		if r.Code == resolve.ProfileKey && r.Subject == "extends" {
			r.Detail, r.Hints = "a drop-in cannot extend", []string{"write extends in " + name + ".toml: parents come before the profile, drop-ins after it"}
		}
	}
	if v, ok := table["description"]; ok {
		s, wrong := doc.String("description", v)
		if wrong != nil {
			problems = append(problems, wrong)
		}
		p.Description = s
	}
	if v, ok := table["extends"]; ok && slices.Contains(own, "extends") {
		list, wrong := doc.Strings("extends", v)
		p.Extends, problems = list, append(problems, append(wrong, extends(list)...)...)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	p.Policy = *policy
	p.Policy.Name = name
	return p, nil
}

const nameRule = "small letters, digits, . - and _, at most 64, beginning with a letter or digit"

// extends judges the spelling of parents; whether they exist is for the loader.
func extends(list []resolve.Value) (problems resolve.Refusals) {
	seen := map[string]string{}
	for _, v := range list {
		r := &resolve.Refusal{Subject: v.Origin.Key, Origin: resolve.Origin{File: v.Origin.File, Line: v.Origin.Line}}
		switch first, twice := seen[v.Text]; {
		case !resolve.ValidName(v.Text):
			r.Code, r.Detail = resolve.ProfileName, "is "+strconv.Quote(v.Text)+", not a profile name: "+nameRule
			r.Hints = []string{"extends takes names, never paths; `confinectl list` shows them"}
		case twice:
			r.Code, r.Detail = resolve.ProfileValue, "names "+strconv.Quote(v.Text)+" again, after "+first
		default:
			seen[v.Text] = v.Origin.Key
			continue
		}
		problems = append(problems, r)
	}
	return problems
}

// Merge lays p over what it extends, in order, and its drop-ins over p, by the
// rules of [resolve.Policy.Merge]: lists join, scalars replace, a floor never sinks.
//
// parents are all that comes before p: for a profile with grandparents also those,
// each once, parents before children and each followed by its drop-ins. Name, file and
// extends of the result are those of p. Parents pass no description on; a drop-in
// that has one replaces it. The arguments stay as they are, so that profiles can share a
// parent; they must not be changed afterwards, the result shares memory with them.
func Merge(parents []*Profile, p *Profile, dropIns []*Profile) *Profile {
	merged := &Profile{Name: p.Name, File: p.File, Description: p.Description, Extends: p.Extends}
	for _, parent := range parents {
		merged.Policy.Merge(&parent.Policy)
	}
	merged.Policy.Merge(&p.Policy)
	for _, d := range dropIns {
		merged.Policy.Merge(&d.Policy)
		if d.Description != "" {
			merged.Description = d.Description
		}
	}
	merged.Policy.Name = p.Name
	return merged
}
