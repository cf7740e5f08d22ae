package resolve

// Explanation says which rules of a boundary reach a path. It is read off the
// boundary and was not measured.
type Explanation struct {
	Path   string // as it was asked for
	Real   string // where it leads; the part that does not exist is kept as written
	Exists bool
	rules  []Rule // that reach it, nearest first
}

// By gives the nearest rule that grants the whole access, or nil. Rights add
// up along the way: where no single rule grants all of it, a is best asked for one by one.
func (e Explanation) By(a Access) *Rule {
	for i := range e.rules {
		if e.rules[i].Access.Has(a) {
			return &e.rules[i]
		}
	}
	return nil
}

// Explain finds the rules that reach an absolute path, the way the kernel
// does: from the file itself up through every directory that really holds it, each
// known by device and inode, so that other names of a granted file are found too. A path whose end does not
// exist is judged by the directory that it would be made in.
//
// Refusal: path-relative, path-loop, path-not-directory, path-unreadable, as for a profile.
func (b *Boundary) Explain(path string) (Explanation, error) {
	s := &resolver{walker: NewWalker(), facts: &Facts{UID: b.uid}, b: &Boundary{}}
	if path == "" || path[0] != '/' {
		return Explanation{}, &Refusal{Code: PathRelative, Subject: path, Detail: "is not an absolute path"}
	}
	t, err := s.walker.Walk(path)
	if err != nil {
		s.pathProblem(path, path, t, err, Origin{})
		return Explanation{}, s.problems[0]
	}
	e := Explanation{Path: path, Real: t.Target(), Exists: t.Rest == ""}
	known, toMake := map[FileID]Rule{}, map[string]Rule{} // a directory that is still to be made has only its path
	for _, r := range b.rules {
		if r.ID == (FileID{}) {
			toMake[r.Path] = r
		} else {
			known[r.ID] = r
		}
	}
	for dir := e.Real; ; dir = parent(dir) {
		r, found := toMake[dir]
		if st, err := s.walker.lstat(dir); err == nil && !found {
			r, found = known[st.ID]
		}
		if found && (r.Kind == Directory || dir == e.Real) {
			e.rules = append(e.rules, r)
		}
		if dir == "/" {
			return e, nil
		}
	}
}
