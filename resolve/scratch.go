package resolve

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

// tempRoot walks and judges the directory that scratch directories lie in. It
// must be of a kind in which nobody else can replace what we made: owned by root or the
// user, and sticky where others can write. path is the root to judge.
func (s *resolver) tempRoot(path, subject string, o Origin) *Trail {
	hint := "set TMPDIR to a directory of your own, or unset it"
	if !strings.HasPrefix(path, "/") {
		s.refuse(ScratchUnresolved, subject, "the temp root "+strconv.Quote(path)+" is not an absolute path", o, nil, hint)
		return nil
	}
	t, err := s.walker.Walk(path)
	switch {
	case err == nil && t.Rest != "":
		err = syscall.ENOENT
	case err == nil && !t.Stat.Mode.IsDir():
		err = syscall.ENOTDIR
	}
	if err != nil {
		s.refuse(ScratchUnresolved, subject, "the temp root "+path+": "+errText(err), o, err, hint)
		return nil
	}
	st := t.Stat
	if st.UID != 0 && st.UID != s.facts.UID {
		s.refuse(ScratchUnfit, subject, fmt.Sprintf("the temp root %s is owned by uid %d", t.Real, st.UID), o, nil, hint)
		return nil
	}
	if st.Mode.Perm()&0o022 != 0 && st.Mode&fs.ModeSticky == 0 {
		s.refuse(ScratchUnfit, subject, fmt.Sprintf("the temp root %s can be written by others (%04o) and is not sticky", t.Real, st.Mode.Perm()), o, nil, "chmod +t "+t.Real)
		return nil
	}
	if why := badName(t.Real); why != "" {
		s.refuse(PathEncoding, subject, "the temp root "+strconv.Quote(t.Real)+" "+why, o, nil, hint)
		return nil
	}
	if !s.through(Value{path, o}, t) {
		return nil
	}
	return t
}

// unfit says why a directory that exists is not fit to be used as if the
// launcher had made it; loose are the permission bits that it must not have.
func unfit(st Stat, uid int, loose fs.FileMode) string {
	switch {
	case !st.Mode.IsDir():
		return "is " + kindName(st.Mode) + ", not a directory"
	case st.UID != uid:
		return fmt.Sprintf("is owned by uid %d, not by uid %d", st.UID, uid)
	case st.Mode.Perm()&loose != 0:
		return fmt.Sprintf("can be written by others (%04o)", st.Mode.Perm())
	}
	return ""
}

// own looks at dir/name, a directory of the user's own that may be missing. It
// reports what is unfit; nothing is ever repaired.
func (s *resolver) own(dir, name, subject string, o Origin) (id FileID, ok bool) {
	path := below(dir, name)
	st, err := s.walker.lstat(path)
	if err == syscall.ENOENT {
		return FileID{}, true
	}
	why := ""
	if err != nil {
		why = "cannot be looked at: " + errText(err)
	} else {
		why = unfit(*st, s.facts.UID, 0o022)
	}
	if why != "" {
		s.refuse(ScratchUnfit, subject, path+" "+why, o, err, "remove it: it is made again, with mode 0700")
		return FileID{}, false
	}
	return st.ID, true
}

// scratch grants <tmproot>/<agent>-<uid>.
func (s *resolver) scratch(a AgentScratch) {
	if a.Agent == "" {
		return
	}
	t := s.tempRoot(s.facts.TmpRoot, "agent_scratch", a.Origin)
	if t == nil {
		return
	}
	name := a.Agent + "-" + strconv.Itoa(s.facts.UID) // on macOS below /private/tmp, not the user's own: there Claude Code makes it
	r := Rule{Path: below(t.Real, name), Kind: Directory, Access: ReadWrite, Make: a.Provision, Unprovisioned: !a.Provision}
	if a.Provision {
		id, ok := s.own(t.Real, name, "agent_scratch", a.Origin)
		if !ok {
			return
		}
		r.ID = id
	}
	s.grant(r, Value{"agent_scratch " + a.Agent, a.Origin})
	s.trails[r.Path] = t
	s.extra["agent_scratch"] = r.Path
}

// privateTmp grants <tmproot>/confinectl-<uid>/<name>; on macOS the temp root
// is the user's own ([Facts.UserTmp]). Where the temp root is
// that directory already, because confinectl exported it as TMPDIR to the process
// that calls it now, it is used as it is.
func (s *resolver) privateTmp(flag Flag, name string) {
	if !flag.On {
		return
	}
	if name == "" {
		s.refuse(PolicyValue, "private_tmp", "the directory is named after the policy, and the policy has no name", flag.Origin, nil, `add "name" to the policy`)
		return
	}
	top := "confinectl-" + strconv.Itoa(s.facts.UID)
	tmp := s.facts.TmpRoot
	if s.facts.OS == "darwin" { // /private/tmp is everybody's, and macOS has a directory for each user
		tmp = ""
		if s.facts.UserTmp != nil {
			tmp = s.facts.UserTmp()
		}
	}
	root := strings.TrimRight(tmp, "/")
	if outer, ok := strings.CutSuffix(root, "/"+top+"/"+name); ok {
		root = outer
	}
	if root == "" && tmp != "" {
		root = "/"
	}
	t := s.tempRoot(root, "private_tmp", flag.Origin)
	if t == nil {
		return
	}
	topID, ok := s.own(t.Real, top, "private_tmp", flag.Origin)
	if !ok {
		return
	}
	dir := below(t.Real, top)
	r := Rule{Path: below(dir, name), Kind: Directory, Access: ReadWrite, Make: true}
	if topID != (FileID{}) {
		if r.ID, ok = s.own(dir, name, "private_tmp", flag.Origin); !ok {
			return
		}
	}
	s.b.parents = append(s.b.parents, dir)
	s.grant(r, Value{"private_tmp", flag.Origin})
	s.trails[r.Path] = t
	s.extra["private_tmp"] = r.Path
}
