// Package findings looks at what a boundary grants, and reports what an operator
// should know of it although it is no reason to refuse: files in a root that run
// outside later, other names of files outside, sockets within reach, entries without
// effect.
//
// It reads names and attributes, of a few small files also the content, and
// changes nothing. It follows no link and leaves no root on the way down, not even
// through a mount. A finding is an observation and no verdict: what a program may do was said by
// the profile, and this says what may come of it. No finding is no promise either: a
// large tree is looked at for a limited time, and the report says where that ended.
package findings

import (
	"slices"
	"strings"

	"github.com/confinectl/confinectl/resolve"
)

// A Code is the stable name of a kind of finding.
type Code string

// The codes, the gravest first.
const (
	SocketInReach   Code = "socket-in-reach"
	DeviceNode      Code = "device-node"
	SetUID          Code = "set-uid"
	AuthorizedKeys  Code = "authorized-keys"
	ShellStartup    Code = "shell-startup"
	PathDirectory   Code = "path-directory"
	Crontab         Code = "crontab"
	SystemdUnit     Code = "systemd-unit"
	Autostart       Code = "autostart"
	AgentHooks      Code = "agent-hooks"
	GitHooks        Code = "git-hooks"
	EnvRC           Code = "envrc"
	EditorTask      Code = "editor-task"
	HardLink        Code = "hard-link"
	MountPoint      Code = "mount-point"
	ControlFailed   Code = "control-failed"
	FileReplaced    Code = "file-replaced"
	NotThereYet     Code = "not-there-yet"
	Shadowed        Code = "shadowed"
	OptionalMissing Code = "optional-missing"
	ScanLimited     Code = "scan-limited"
)

// reasons has all codes, the gravest first, and in one sentence why a finding matters.
// It is no map, which would be made at the start of every program that links it.
var reasons = [...]struct {
	code Code
	why  string
}{
	{SocketInReach, "whoever serves it acts outside the boundary, and may do so on the program's word"},
	{DeviceNode, "it reaches what lies behind it past every path rule, if file permissions let the program open it"},
	{SetUID, "the program cannot gain by it, but can change it, and whoever runs it outside gets its owner's rights"},
	{AuthorizedKeys, "who can write it can log in as its owner"},
	{ShellStartup, "the next shell that starts outside runs what is written there"},
	{PathDirectory, "a program that is put there is run outside under the name of another"},
	{Crontab, "cron runs what is written there, outside"},
	{SystemdUnit, "systemd runs what is written there, outside"},
	{Autostart, "the next desktop session runs what is written there, outside"},
	{AgentHooks, "an agent that runs outside runs the commands of its settings with all your rights"},
	{GitHooks, "the next git command outside runs what is put there"},
	{EnvRC, "direnv runs it outside, once it is allowed, when a shell enters the directory"},
	{EditorTask, "an editor outside offers or runs its tasks"},
	{HardLink, "the file has another name, maybe outside, and is written by every name"},
	{MountPoint, "what is mounted there is granted too, wherever else it lies"},
	{ControlFailed, "the boundary denies there what it grants: the file system (9p, for one) does not keep the identity of files"},
	{FileReplaced, "the rule holds for the file and not for its name: a program that replaces it by rename leaves the rule with the old one"},
	{NotThereYet, "exec makes it, so it was not measured"},
	{Shadowed, "it is never read: another layer has a profile of this name"},
	{OptionalMissing, "this host does not have it, so the entry grants nothing"},
	{ScanLimited, "the tree is larger than the time for it: what lies deeper was not looked at"},
}

// Codes lists all codes, the gravest first.
func Codes() []Code {
	list := make([]Code, len(reasons))
	for i, r := range reasons {
		list[i] = r.code
	}
	return list
}

// Why says in one sentence why findings of this code matter.
func (c Code) Why() string {
	for _, r := range reasons {
		if r.code == c {
			return r.why
		}
	}
	return ""
}

// A Finding is one observation.
type Finding struct {
	Code   Code   `json:"code"`
	Path   string `json:"path"`
	Detail string `json:"detail"` // what is special about this one, and why the code matters
}

func of(c Code, path, special string) Finding {
	d := c.Why()
	if special != "" {
		d = special + ": " + d
	}
	return Finding{Code: c, Path: path, Detail: d}
}

// New makes a finding of what somebody else observed.
func New(c Code, path, special string) Finding { return of(c, path, special) }

// Static are the findings that the boundary itself shows, without a look at
// any tree.
func Static(b *resolve.Boundary) (list []Finding) {
	for _, s := range b.Skipped() {
		list = append(list, of(OptionalMissing, s.Value.Text, s.Why))
	}
	for _, r := range b.Rules() {
		switch {
		case r.Kind == resolve.RegularFile && r.Access.Has(resolve.Write):
			list = append(list, of(FileReplaced, r.Path, ""))
		case r.Make && r.ID == (resolve.FileID{}):
			list = append(list, of(NotThereYet, r.Path, ""))
		}
	}
	return Sort(list)
}

// Sort sorts findings by gravity, then by path, and drops doubles.
func Sort(list []Finding) []Finding {
	order := map[Code]int{}
	for i, c := range Codes() {
		order[c] = i
	}
	slices.SortStableFunc(list, func(a, b Finding) int {
		if d := order[a.Code] - order[b.Code]; d != 0 {
			return d
		}
		return strings.Compare(a.Path, b.Path)
	})
	return slices.CompactFunc(list, func(a, b Finding) bool { return a.Code == b.Code && a.Path == b.Path })
}

// ends reports whether a path ends with these whole components.
func ends(path, end string) bool {
	return path == end || len(path) > len(end) && path[len(path)-len(end)-1] == '/' && strings.HasSuffix(path, end)
}

// hooksPath finds core.hooksPath in a git configuration, as far as its simple
// form goes: includes are not followed.
func hooksPath(config string) string {
	section := ""
	for line := range strings.Lines(config) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.ToLower(strings.TrimSpace(strings.Trim(line, "[]")))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if ok && section == "core" && strings.EqualFold(strings.TrimSpace(key), "hookspath") {
			return strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return ""
}
