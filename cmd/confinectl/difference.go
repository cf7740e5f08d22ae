package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"
	"unique"

	"github.com/go-json-experiment/json/jsontext"
)

// effect is what a boundary comes to: what two boundaries can differ in for the
// program inside. Files, lines and descriptions are not part of it. Equal
// grants share memory: thousands of profiles have the same runtime read set.
type effect struct {
	grants   []unique.Handle[grant]
	settings []unique.Handle[setting]
}

// grant is one rule: where, and what.
type grant struct {
	path, kind, access string
}

// setting is one of the few things beside the rules. A list is several
// settings of one name.
type setting struct {
	name, value string
}

func effectOf(b boundaryJSON) effect {
	var e effect
	for _, r := range b.Rules {
		e.grants = append(e.grants, unique.Make(grant{r.Path, r.Kind, strings.Join(r.Access, ",")}))
	}
	set := func(name string, values ...string) {
		for _, v := range values {
			e.settings = append(e.settings, unique.Make(setting{name, v}))
		}
	}
	set("os", b.OS)
	set("permit_path", b.PermitPath)
	set("dir", b.Dir)
	set("min_abi", strconv.Itoa(b.MinABI))
	set("audit", strconv.FormatBool(b.Audit))
	set("mach_lookup", b.MachLookup...)
	set("made", b.Made...)
	for name, value := range b.Env {
		set("env", name+"="+value)
	}
	set("open", b.Open...)
	return e
}

// difference is what one effect has and another has not, sorted.
type difference struct {
	Added   []changeJSON `json:"added"`
	Removed []changeJSON `json:"removed"`
}

// changeJSON is a rule (path, kind, access) or a setting (name, value).
type changeJSON struct {
	Path   string   `json:"path,omitempty"`
	Kind   string   `json:"kind,omitempty"`
	Access []string `json:"access,omitempty"`

	Setting string `json:"setting,omitempty"` // os, permit_path, dir, min_abi, audit, mach_lookup, made, env, open
	Value   string `json:"value,omitempty"`
}

func (d difference) none() bool { return len(d.Added) == 0 && len(d.Removed) == 0 }

// since gives what must be added to and removed from old to get e.
func (e effect) since(old effect) difference {
	return difference{Added: e.without(old), Removed: old.without(e)}
}

// without gives what e has and other has not: first rules, sorted by path, then settings.
func (e effect) without(other effect) []changeJSON {
	grants, settings := missing(e.grants, other.grants), missing(e.settings, other.settings)
	slices.SortFunc(grants, func(a, b grant) int { return strings.Compare(a.path+a.kind+a.access, b.path+b.kind+b.access) })
	slices.SortFunc(settings, func(a, b setting) int { return strings.Compare(a.name+"="+a.value, b.name+"="+b.value) })
	list := []changeJSON{}
	for _, g := range grants {
		list = append(list, changeJSON{Path: g.path, Kind: g.kind, Access: strings.Split(g.access, ",")})
	}
	for _, s := range settings {
		list = append(list, changeJSON{Setting: s.name, Value: s.value})
	}
	return list
}

func missing[T comparable](list, from []unique.Handle[T]) []T {
	there := make(map[unique.Handle[T]]bool, len(from))
	for _, h := range from {
		there[h] = true
	}
	var left []T
	for _, h := range list {
		if !there[h] {
			left = append(left, h.Value())
		}
	}
	return left
}

// String is the change in one word for a line: "/srv/a (read,execute)" or "min_abi=3".
func (c changeJSON) String() string {
	if c.Path == "" {
		return oneLine(c.Setting + "=" + c.Value)
	}
	return oneLine(c.Path) + " (" + strings.Join(c.Access, ",") + ")"
}

// oneLine keeps a terminal unharmed, whatever an environment variable contains.
func oneLine(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// print writes one line a change, what is gone first.
func (d difference) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, side := range []struct {
		sign string
		list []changeJSON
	}{{"-", d.Removed}, {"+", d.Added}} {
		for _, c := range side.list {
			if c.Path == "" {
				fmt.Fprintf(w, "%s %s\n", side.sign, c)
				continue
			}
			fmt.Fprintf(w, "%s %s\t%s\t%s\n", side.sign, oneLine(c.Path), c.Kind, strings.Join(c.Access, ","))
		}
	}
	return w.Flush()
}

// readBoundary reads what `show --json` wrote, and takes nothing else for it.
func readBoundary(file string) (boundaryJSON, error) {
	var b boundaryJSON
	notOne := func(err error) (boundaryJSON, error) {
		return b, usagef("`confinectl show --json PROFILE >FILE` writes one", "%s is not a boundary that show --json wrote: %s", file, err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return b, usagef("`confinectl show --json PROFILE >FILE` writes one", "%s cannot be read: %s", file, errText(err))
	}
	if err := strictly(data, &b); err != nil {
		return notOne(err)
	}
	if b.Name == "" || b.OS == "" || len(b.Rules) == 0 {
		return notOne(fmt.Errorf("it has no name, no os or no rules"))
	}
	return b, nil
}

// strictly reads what marshal wrote of such a value: UTF-8, no key twice, none that is
// unknown or in another letter case, nothing behind it.
func strictly(data []byte, into any) error {
	text := jsontext.Value(data)
	if err := text.Format(); err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return err
	}
	again, err := marshal(into)
	if err != nil {
		return err
	}
	var read, written any
	if err := errors.Join(json.Unmarshal(text, &read), json.Unmarshal(again, &written)); err != nil {
		return err
	}
	if !within(read, written) {
		return errors.New("it has other keys")
	}
	return nil
}

// within reports whether every key of a is one of b, at any depth.
func within(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, _ := b.(map[string]any)
		for key, value := range a {
			if other, there := b[key]; !there || !within(value, other) {
				return false
			}
		}
	case []any:
		b, _ := b.([]any)
		for i, value := range a {
			if i >= len(b) || !within(value, b[i]) {
				return false
			}
		}
	}
	return true
}

// showDifference compares a boundary with a saved one. The status is 1 where they differ.
func (c *cli) showDifference(now boundaryJSON, file string, asJSON bool) error {
	saved, err := readBoundary(file)
	if err != nil {
		return err
	}
	d := effectOf(now).since(effectOf(saved))
	if asJSON {
		err = c.printJSON(c.stdout, struct {
			Name    string `json:"name"`
			Against string `json:"against"`
			Differs bool   `json:"differs"`
			difference
		}{now.Name, file, !d.none(), d})
	} else {
		err = d.print(c.stdout)
	}
	if err == nil && !d.none() {
		err = errProblems
	}
	return err
}
