package sbpleval

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// FakeFS is a file system of macOS as far as names go: symlinks such as /tmp,
// firmlinks that give the data volume a second name, and a volume that
// finds a file by any letter case and either normalization of an accent.
type FakeFS struct {
	kinds map[string]byte   // by real path: d f l c s
	links map[string]string // where a symlink leads
	firm  []string          // directories that /System/Volumes/Data has as well
}

// NewFakeFS builds one from lines: a kind (d directory, f file, l link,
// c device, s socket, F a firmlinked directory), a real path, and for a link "->" and its
// target. Directories above are made.
func NewFakeFS(text string) (*FakeFS, error) {
	fs := &FakeFS{kinds: map[string]byte{"/": 'd', "/System": 'd', "/System/Volumes": 'd', "/System/Volumes/Data": 'd'}, links: map[string]string{}}
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind == "" || kind == "#" {
			continue
		}
		path, target, isLink := strings.Cut(rest, " -> ")
		if len(kind) != 1 || !strings.Contains("dflcsF", kind) || !strings.HasPrefix(path, "/") || isLink != (kind == "l") {
			return nil, fmt.Errorf("fake file system: %q", line)
		}
		for i := 1; i < len(path); i++ {
			if path[i] == '/' && fs.kinds[path[:i]] == 0 {
				fs.kinds[path[:i]] = 'd'
			}
		}
		switch kind {
		case "F":
			fs.firm = append(fs.firm, path)
			fs.kinds[path] = 'd'
		case "l":
			fs.links[path] = target
			fallthrough
		default:
			fs.kinds[path] = kind[0]
		}
	}
	return fs, nil
}

// Look is what became of a name.
type Look struct {
	Real    string   // the path that rules are compared with
	Crossed []string // the symlinks on the way, each of which is asked about too
	Kind    byte     // 0 where nothing is there, and only the directory above is
}

var errNoFile = errors.New("no such file or directory")

// Find resolves a path as a program types it. follow says whether a symlink at its
// end is followed.
func (fs *FakeFS) Find(path string, follow bool) (Look, error) {
	l := Look{Real: "/"}
	todo := strings.Split(strings.Trim(path, "/"), "/")
	for hops := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if fs.kinds[l.Real] != 'd' {
			return l, errNoFile
		}
		switch name {
		case "", ".":
			continue
		case "..":
			l.Real = l.Real[:max(strings.LastIndexByte(l.Real, '/'), 1)]
			continue
		}
		next := strings.TrimSuffix(l.Real, "/") + "/" + name
		if short, data := strings.CutPrefix(next, "/System/Volumes/Data"); data && slices.ContainsFunc(fs.firm, func(f string) bool { return fold(f) == fold(short) }) {
			next = short
		}
		next = fs.onDisk(next)
		if target, link := fs.links[next]; link && (follow || len(todo) > 0) {
			if hops++; hops > 32 {
				return l, errNoFile
			}
			l.Crossed = append(l.Crossed, next)
			if target[0] == '/' {
				l.Real = "/"
			}
			todo = append(strings.Split(strings.Trim(target, "/"), "/"), todo...)
			continue
		}
		if fs.kinds[next] == 0 && len(todo) > 0 {
			return l, errNoFile
		}
		l.Real = next
	}
	l.Kind = fs.kinds[l.Real]
	return l, nil
}

// onDisk is the spelling of a path whose directory is spelled right already.
func (fs *FakeFS) onDisk(path string) string {
	if fs.kinds[path] != 0 {
		return path
	}
	for have := range fs.kinds {
		if fold(have) == fold(path) {
			return have
		}
	}
	return path
}

// fold makes two spellings of one file equal; of the accents it knows as many
// as the tests have.
func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("e\u0301", "\u00e9", "E\u0301", "\u00e9", "u\u0308", "\u00fc").Replace(s))
}
