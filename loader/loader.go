// Package loader finds profiles: on the search path, with their parents and
// drop-ins, in files that nobody else could have written; and it collects the
// facts of this host. What it returns are policies; it enforces nothing.
package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/confinectl/confinectl/profiles"
	"github.com/confinectl/confinectl/resolve"
)

// A Layer is one of the places that profiles are searched in.
type Layer struct {
	Name string // "operations", "user", "vendor", "built-in", or "--profile-dir"
	Dir  string // absolute; "built-in" for the profiles in the binary
	fs   Files  // only for the built-in layer
}

// Files are the profiles that are part of a program.
type Files interface {
	fs.ReadDirFS
	fs.ReadFileFS
}

// builtIn is the Dir of the built-in layer and the first part of its file names.
const builtIn = "built-in"

// SearchPath gives the layers in the order in which they are searched; the
// first that has a profile wins. dirs, the directories of --profile-dir,
// replace all the others. Otherwise: operations, user, vendor, and builtins, the
// profiles that are part of the program. No environment variable but
// XDG_CONFIG_HOME and HOME has a say, and these only in where the user's own profiles lie.
func SearchPath(f *resolve.Facts, builtins Files, dirs []string) []Layer {
	if len(dirs) > 0 {
		var layers []Layer
		for _, d := range dirs {
			layers = append(layers, Layer{Name: "--profile-dir", Dir: f.Absolute(d)})
		}
		return layers
	}
	layers := append(make([]Layer, 0, 5), Layer{Name: "operations", Dir: "/etc/confinectl/profiles"})
	if f.ConfigHome != "" {
		layers = append(layers, Layer{Name: "user", Dir: strings.TrimRight(f.ConfigHome, "/") + "/confinectl/profiles"})
	}
	return append(layers,
		Layer{Name: "vendor", Dir: "/usr/local/share/confinectl/profiles"},
		Layer{Name: "vendor", Dir: "/usr/share/confinectl/profiles"},
		Layer{Name: builtIn, Dir: builtIn, fs: builtins})
}

// Loader reads profiles from its layers on behalf of one user. It keeps
// nothing between calls: each one looks at the disk again, as far as Walker has not.
type Loader struct {
	Layers []Layer
	UID    int // whose files, besides root's, are trusted

	// Walker makes all calls one look at the host, together with the resolutions that
	// share it ([resolve.Request]); the loader is then as little safe for concurrent use. Nil: each
	// call looks for itself.
	Walker *resolve.Walker
}

// look begins one look at the disk.
func (l *Loader) look() *survey {
	if l.Walker != nil {
		return &survey{walker: l.Walker}
	}
	return &survey{walker: resolve.NewWalker()}
}

// Loaded is a profile that was found, merged over its parents and drop-ins.
type Loaded struct {
	Name        string
	Description string
	Layer       Layer
	File        string   // the profile's own file
	Files       []string // every file that took part, in merging order
	Policy      *resolve.Policy
	Value       any // the caller's own; see [StoreOptions.Judge]

	Looked []string // where it was looked for something to read, whether or not there was
}

// Load finds a profile and everything that takes part in it. Refusals:
// profile-name, profile-missing (says where it was looked for), profile-untrusted,
// profile-cycle, path-unreadable, and whatever [profiles.Parse] refuses, for all files
// together.
func (l *Loader) Load(name string) (*Loaded, error) {
	d := l.load(name, l.look())
	return d.loaded, d.problems.Err()
}

// survey is one look at the disk: a Load's own, or one that all profiles of a
// [Store] share.
type survey struct {
	walker *resolve.Walker
	ways   *ways             // nil for a Load: nobody watches afterwards
	texts  *texts            // nil for a Load: it parses each file once anyway
	files  map[string][]byte // nil for a Load; a parent is the same one for all its children
}

func (l *Loader) load(name string, s *survey) *load {
	d := &load{loader: l, survey: s, done: map[string]bool{}}
	d.visit(name, resolve.Origin{}, nil)
	if len(d.problems) > 0 {
		return d
	}
	last := d.found[len(d.found)-1]
	var ancestors []*profiles.Profile
	for _, f := range d.found[:len(d.found)-1] {
		ancestors = append(append(ancestors, f.profile), f.dropIns...)
	}
	merged := profiles.Merge(ancestors, last.profile, last.dropIns)
	out := &Loaded{Name: name, Description: merged.Description, Layer: last.layer, File: last.profile.File, Policy: &merged.Policy, Looked: d.looked}
	d.loaded = out
	for _, f := range d.found {
		out.Files = append(out.Files, f.profile.File)
		for _, p := range f.dropIns {
			out.Files = append(out.Files, p.File)
		}
	}
	return d
}

// load is the state of one Load: the profile and its ancestors, each once,
// parents before children.
type load struct {
	loader   *Loader
	survey   *survey
	done     map[string]bool
	found    []found
	looked   []string // see Loaded.Looked
	loaded   *Loaded  // nil where there are problems
	problems resolve.Refusals
}

type found struct {
	layer   Layer
	profile *profiles.Profile
	dropIns []*profiles.Profile
}

// visit reads a profile after its parents. below are the names that lead
// here, to find a cycle; from is where the last of them names this one.
func (d *load) visit(name string, from resolve.Origin, below []string) {
	if i := slices.Index(below, name); i >= 0 {
		hint := "leave one of them out of extends"
		if len(below)-i == 1 {
			hint = "a profile cannot extend the one it shadows: give it a name of its own"
		}
		d.problems = append(d.problems, &resolve.Refusal{Code: resolve.ProfileCycle, Subject: name,
			Detail: strings.Join(append(slices.Clone(below[i:]), name), " extends "), Origin: from, Hints: []string{hint}})
		return
	}
	if d.done[name] {
		return
	}
	d.done[name] = true
	layer, data, file, err := d.loader.find(d.survey, name, from)
	if err != nil {
		d.add(err)
		return
	}
	for _, l := range d.loader.Layers {
		if l.fs == nil {
			d.looked = append(d.looked, l.file(name))
		}
		if l.Dir == layer.Dir {
			break
		}
	}
	f := found{layer: layer}
	if f.profile, err = d.survey.texts.parse(text{name, file, false}, data); err != nil {
		d.add(err)
	} else {
		for _, parent := range f.profile.Extends {
			d.visit(parent.Text, parent.Origin, append(slices.Clone(below), name))
		}
	}
	f.dropIns = d.dropIns(layer, name)
	d.found = append(d.found, f)
}

// add takes the refusals out of an error; other errors become one.
func (d *load) add(err error) {
	var list resolve.Refusals
	var one *resolve.Refusal
	switch {
	case errors.As(err, &list):
		d.problems = append(d.problems, list...)
	case errors.As(err, &one):
		d.problems = append(d.problems, one)
	default:
		d.problems = append(d.problems, &resolve.Refusal{Code: resolve.PathUnreadable, Subject: "profile", Detail: err.Error(), Cause: err})
	}
}

// find reads the first NAME.toml of the layers.
func (l *Loader) find(s *survey, name string, from resolve.Origin) (Layer, []byte, string, error) {
	if !resolve.ValidName(name) {
		return Layer{}, nil, "", &resolve.Refusal{Code: resolve.ProfileName, Subject: name, Origin: from,
			Detail: "is not a profile name: small letters, digits, . - and _, at most 64, beginning with a letter or digit",
			Hints:  []string{"profiles are named, never given as a path: --profile-dir DIR says where they lie"}}
	}
	var looked []string
	for _, layer := range l.Layers {
		if layer.fs != nil {
			if data, err := layer.fs.ReadFile(name + ".toml"); err == nil {
				return layer, data, layer.file(name), nil
			}
			looked = append(looked, "the built-in profiles")
			continue
		}
		if there, err := l.trustedDir(s, layer.Dir, from); err != nil {
			return Layer{}, nil, "", err
		} else if !there {
			looked = append(looked, layer.Dir+" (does not exist)")
			continue
		}
		looked = append(looked, layer.Dir)
		data, err := l.read(s, layer.file(name), from)
		if err != nil {
			return Layer{}, nil, "", err
		}
		if data != nil {
			return layer, data, layer.file(name), nil
		}
	}
	return Layer{}, nil, "", &resolve.Refusal{Code: resolve.ProfileMissing, Subject: name, Origin: from, Cause: fs.ErrNotExist,
		Detail: "no " + name + ".toml in " + strings.Join(looked, ", "), Hints: []string{"`confinectl list` shows what there is"}}
}

func (layer Layer) file(name string) string {
	return strings.TrimRight(layer.Dir, "/") + "/" + name + ".toml"
}

// dropIns reads NAME.d/*.toml beside the profile, in lexical order. Names that
// begin with a dot are not drop-ins: editors and volume mounts leave such files.
func (d *load) dropIns(layer Layer, name string) []*profiles.Profile {
	if layer.fs != nil {
		return nil
	}
	dir := strings.TrimSuffix(layer.file(name), ".toml") + ".d"
	d.looked = append(d.looked, dir)
	there, err := d.loader.trustedDir(d.survey, dir, resolve.Origin{})
	if err != nil {
		d.add(err)
		return nil
	}
	if !there {
		return nil
	}
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		d.add(unreadable(dir, resolve.Origin{}, err))
		return nil
	}
	var list []*profiles.Profile
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".toml") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		file := dir + "/" + e.Name()
		d.looked = append(d.looked, file)
		data, err := d.loader.read(d.survey, file, resolve.Origin{})
		if err != nil {
			d.add(err)
			continue
		}
		if data == nil {
			continue // removed since the directory was read
		}
		p, err := d.survey.texts.parse(text{name, file, true}, data)
		if err != nil {
			d.add(err)
			continue
		}
		list = append(list, p)
	}
	return list
}

// trustedDir reports whether a directory exists; one that exists must be
// trusted, or anybody could add a profile to it.
func (l *Loader) trustedDir(s *survey, dir string, from resolve.Origin) (bool, error) {
	t, err := l.trusted(s, dir, from)
	if err != nil || t == nil {
		return false, err
	}
	if !t.Stat.Mode.IsDir() {
		return false, &resolve.Refusal{Code: resolve.ProfileUntrusted, Subject: dir, Detail: "is not a directory", Origin: from}
	}
	s.ways.all(t)
	return true, nil
}

// read gives the content of a trusted file, or nil where there is none.
func (l *Loader) read(s *survey, file string, from resolve.Origin) ([]byte, error) {
	if data, known := s.files[file]; known {
		return data, nil
	}
	data, err := l.readTrusted(s, file, from)
	if s.files != nil && err == nil { // a refusal says who asked
		s.files[file] = data
	}
	return data, err
}

// readTrusted judges what it opens: the open file must be the one that was walked to.
func (l *Loader) readTrusted(s *survey, file string, from resolve.Origin) ([]byte, error) {
	t, err := l.trusted(s, file, from)
	if err != nil || t == nil {
		return nil, err
	}
	untrusted := func(detail string, cause error) error {
		return &resolve.Refusal{Code: resolve.ProfileUntrusted, Subject: file, Detail: detail, Origin: from, Cause: cause}
	}
	if !t.Stat.Mode.IsRegular() {
		return nil, untrusted("is not a regular file", nil)
	}
	fd, err := syscall.Open(t.Real, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, unreadable(file, from, err)
	}
	defer syscall.Close(fd)
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, unreadable(file, from, err)
	}
	if (resolve.FileID{Dev: uint64(st.Dev), Ino: uint64(st.Ino)}) != t.Stat.ID {
		return nil, untrusted("was replaced while it was being read", errUnsettled)
	}
	if why := l.distrust(int(st.Uid), fs.FileMode(st.Mode&0o777)); why != "" {
		return nil, untrusted(why, nil)
	}
	if s.ways != nil && keepWritersOut(fd) == syscall.EAGAIN {
		return nil, untrusted("is open for writing: whatever writes it has not finished", errUnsettled)
	}
	data := make([]byte, 0, min(st.Size+1, resolve.MaxDocument+1))
	for len(data) <= resolve.MaxDocument { // one byte more: the parser refuses it by name
		if len(data) == cap(data) {
			data = slices.Grow(data, 4096)
		}
		n, err := syscall.Read(fd, data[len(data):min(cap(data), resolve.MaxDocument+1)])
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return nil, unreadable(file, from, err)
		}
		if n == 0 {
			break
		}
		data = data[:len(data)+n]
	}
	return data, nil
}

// errUnsettled is the cause of a refusal that the next look may not meet: the
// file was being changed at this moment.
var errUnsettled = errors.New("the file is being changed")

// trusted walks to a file and judges every step: each directory, each symlink
// and the file must belong to root or to the user (for root: to root), and nobody else may
// write them; a directory that others may write must be sticky. It gives nil where
// the file does not exist.
func (l *Loader) trusted(s *survey, path string, from resolve.Origin) (*resolve.Trail, error) {
	t, err := s.walker.Walk(path)
	s.ways.add(t)
	if err != nil {
		return nil, unreadable(path, from, err)
	}
	for _, h := range t.Hops {
		mode := h.Stat.Mode.Perm()
		if h.Stat.Mode.Type() == fs.ModeSymlink || h.Stat.Mode&fs.ModeSticky != 0 && h.Stat.Mode.IsDir() {
			mode = 0 // a link has no mode of its own; in a sticky directory only owners rename
		}
		if why := l.distrust(h.Stat.UID, mode); why != "" {
			return nil, &resolve.Refusal{Code: resolve.ProfileUntrusted, Subject: path, Detail: h.Path + " " + why, Origin: from,
				Hints: []string{l.mend(h.Stat.UID)}}
		}
	}
	if t.Rest != "" {
		return nil, nil
	}
	return t, nil
}

// mend says what to do about a step that is not trusted.
func (l *Loader) mend(owner int) string {
	switch {
	case owner == 65534:
		return "its owner does not exist in this user namespace: --profile-dir DIR names a directory whose owners do"
	case l.UID == 0 && owner != 0:
		return "root reads what root owns: start with HOME=/root, or with --profile-dir DIR"
	}
	return "`confinectl check` lists every such file; chown and chmod go-w mend it"
}

func (l *Loader) distrust(uid int, mode fs.FileMode) string {
	switch {
	case uid != 0 && uid != l.UID:
		if l.UID == 0 {
			return fmt.Sprintf("is owned by uid %d, not by root", uid)
		}
		return fmt.Sprintf("is owned by uid %d, neither root nor uid %d", uid, l.UID)
	case mode&0o022 != 0:
		return fmt.Sprintf("can be written by others (%04o)", mode)
	}
	return ""
}

func unreadable(path string, from resolve.Origin, err error) error {
	return &resolve.Refusal{Code: resolve.PathUnreadable, Subject: path, Detail: strings.ToLower(err.Error()), Origin: from, Cause: err}
}

// Entry is one profile file of the search path.
type Entry struct {
	Name       string
	Layer      Layer
	File       string
	ShadowedBy string // the file of the same name that wins; empty for the winner
}

// List names the profiles of all layers, sorted by name, the winner of each
// name first. It does not read them. A layer that exists and cannot be trusted or read
// is an error; the entries of the others are returned with it.
func (l *Loader) List() ([]Entry, error) {
	return l.list(l.look())
}

func (l *Loader) list(s *survey) ([]Entry, error) {
	winner := map[string]string{}
	var entries []Entry
	d := &load{loader: l}
	for _, layer := range l.Layers {
		var names []fs.DirEntry
		if layer.fs != nil {
			names, _ = layer.fs.ReadDir(".")
		} else {
			there, err := l.trustedDir(s, layer.Dir, resolve.Origin{})
			if err != nil {
				d.add(err)
				continue
			}
			if !there {
				continue
			}
			if names, err = os.ReadDir(layer.Dir); err != nil {
				d.add(unreadable(layer.Dir, resolve.Origin{}, err))
				continue
			}
		}
		for _, e := range names {
			name, ok := strings.CutSuffix(e.Name(), ".toml")
			if !ok || !resolve.ValidName(name) {
				continue
			}
			file := layer.file(name)
			entries = append(entries, Entry{Name: name, Layer: layer, File: file, ShadowedBy: winner[name]})
			if winner[name] == "" {
				winner[name] = file
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return entries, d.problems.Err()
}

// Protected is what no read-write root may reach: the directories that are
// searched, and every file and directory that p was or would have been read
// from. It need not exist: a link that leads into a root today is a profile there tomorrow.
func (l *Loader) Protected(p *Loaded) []resolve.Protected {
	list := make([]resolve.Protected, 0, 16)
	for _, layer := range l.Layers {
		if layer.fs == nil {
			list = append(list, resolve.Protected{Path: layer.Dir, What: "a searched profile directory"})
		}
	}
	if p != nil {
		for _, file := range p.Looked {
			list = append(list, resolve.Protected{Path: file, What: "which a profile is read from"})
		}
	}
	return list
}
