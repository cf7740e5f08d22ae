package loader

import (
	"context"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/confinectl/confinectl/profiles"
	"github.com/confinectl/confinectl/resolve"
)

// Store holds profiles for a program that lives long: the last good value of
// each, and why what lies on disk now is not that value. One reload reads all of
// them, and readers see all of it or nothing of it.
//
// What holds: a profile that cannot be loaded, is not trusted or does not pass
// [StoreOptions.Judge] never takes the place of one that did. A profile whose file is gone
// is withdrawn: it has no value any more. A content hash over every file that took part
// decides whether a profile changed, never a time stamp.
//
// What does not: a Store does not reload by itself, [Store.Watch] and [Store.Reload]
// do. It follows profiles, not the paths that they name. A launch that must not use
// a last good value loads the profile itself ([Loader.Load]), as `exec` does.
//
// Any number of goroutines may use a Store. Current, Status, Statuses and Health never block.
type Store struct {
	loader *Loader
	o      StoreOptions
	notify func() (*notifier, error) // newNotifier, but in tests

	current atomic.Pointer[snapshot]
	kick    chan struct{} // Watch looks where to watch again

	mu     sync.Mutex // one look at a time; guards what follows
	texts  *texts
	ways   *ways                // of the last look
	doubts map[string]time.Time // since when a profile looks as if somebody were at work on it
	subs   map[chan struct{}]bool
}

// StoreOptions say which profiles a Store holds, and what it takes as good.
type StoreOptions struct {
	// Names are the profiles to hold. Empty: all of the search path, also
	// those that come later.
	Names []string

	// Judge is asked about every new value before it is taken, and by its error
	// keeps the last good one; nil takes whatever loads. It may set Loaded.Value, which
	// the Store keeps and never looks at. A profile that was refused here is judged again
	// at every look, because the reason may lie outside its files.
	Judge func(*Loaded) error

	// AllowBroken lets [Open] succeed although a profile has no value. Its
	// status says why.
	AllowBroken bool

	// Poll is how often Watch looks without being told to; 0: every 10 seconds.
	Poll time.Duration
}

// Status is what a Store knows of one profile.
type Status struct {
	Name   string    // empty: the search path itself, where it cannot be listed
	Loaded *Loaded   // the last good value; nil: there is none
	Since  time.Time // when that value was taken
	Hash   string    // over every file that took part in it, in hexadecimal digits

	Err      error     // why what lies on disk now is not the value; nil when it is
	ErrSince time.Time // since when there has been a reason
}

// Withdrawn reports whether the profile's own file is gone, in every layer.
func (s *Status) Withdrawn() bool { return s.Name != "" && s.Loaded == nil && withdrawn(s.Name, s.Err) }

// Health is what a Store knows of itself.
type Health struct {
	Reloads  int       // looks that took at least one new value, the first included
	Failures int       // looks that found a profile newly broken
	Complete time.Time // when a look last took a new value and left nothing broken
	Polling  error     // why notification is not complete and Watch polls every 2 seconds; nil: it is
}

// snapshot is all that readers see. It does not change.
type snapshot struct {
	held   map[string]*Status
	health Health
}

// Open loads profiles for the first time. It refuses when one of them does
// not load, with all the refusals, unless o.AllowBroken is set.
func Open(l *Loader, o StoreOptions) (*Store, error) { return open(l, o, newNotifier) }

func open(l *Loader, o StoreOptions, notify func() (*notifier, error)) (*Store, error) {
	if o.Poll <= 0 {
		o.Poll = defaultPoll
	}
	s := &Store{loader: l, o: o, notify: notify, kick: make(chan struct{}, 1),
		texts: &texts{}, doubts: map[string]time.Time{}, subs: map[chan struct{}]bool{}}
	s.current.Store(&snapshot{})
	for wait := doubt; s.look(wait <= 0) > 0 && wait > 0; wait -= settle {
		time.Sleep(settle) // somebody is at work on a file
	}
	var problems resolve.Refusals
	for _, st := range s.Statuses() {
		if st.Err != nil && !o.AllowBroken {
			d := &load{}
			d.add(st.Err)
			problems = append(problems, d.problems...)
		}
	}
	if len(problems) > 0 {
		return nil, problems.Err()
	}
	return s, nil
}

// Current gives the last good value of a profile. Where there is none the
// refusal says why: profile-missing for one that was withdrawn or is not held,
// otherwise what was wrong with it from the beginning.
func (s *Store) Current(name string) (*Loaded, error) {
	st := s.Status(name)
	if st.Loaded == nil {
		return nil, st.Err
	}
	return st.Loaded, nil
}

// Status tells about one profile. For a name that is not held Err is profile-missing.
func (s *Store) Status(name string) Status {
	if st := s.current.Load().held[name]; st != nil {
		return *st
	}
	return Status{Name: name, Err: notHeld(name)}
}

func notHeld(name string) error {
	return &resolve.Refusal{Code: resolve.ProfileMissing, Subject: name, Cause: fs.ErrNotExist,
		Detail: "there is no " + name + ".toml any more in the directories that are searched", Hints: []string{"`confinectl list` shows what there is"}}
}

// Statuses tells about all profiles that are held, sorted by name.
func (s *Store) Statuses() []Status {
	held := s.current.Load().held
	list := make([]Status, 0, len(held))
	for _, name := range slices.Sorted(maps.Keys(held)) {
		list = append(list, *held[name])
	}
	return list
}

// Health tells about the Store itself.
func (s *Store) Health() Health { return s.current.Load().health }

// Reload looks at the disk now and takes what it finds, without waiting for
// files to settle; values that have not changed are judged again.
func (s *Store) Reload() {
	s.look(true)
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// A ChangeKind says what happened to a profile.
type ChangeKind string

// What may happen to a profile, and the two things that may happen to Watch.
const (
	ProfileLoaded    ChangeKind = "loaded"    // it has a value, and had none before
	ProfileChanged   ChangeKind = "changed"   // another value
	ProfileBroken    ChangeKind = "broken"    // what lies on disk is refused; the last good value, if there is one, stays
	ProfileRecovered ChangeKind = "recovered" // what lies on disk is the value again, the old one or another
	ProfileWithdrawn ChangeKind = "withdrawn" // its file is gone; it has no value any more
	WatchPolling     ChangeKind = "polling"   // notification is not complete: Watch polls
	WatchNotified    ChangeKind = "notified"  // it is complete again
)

// Change is one step from an older status of a profile to a newer one.
type Change struct {
	Kind     ChangeKind
	Name     string  // empty for the search path itself, and for Watch
	Old, New *Loaded // the last good values before and after; nil: none
	Hash     string  // of New
	Err      error   // broken, withdrawn: the refusal; polling: the reason
}

// Changes sends what changes, all of one reload at once and sorted by name,
// beginning with what is there already; the channel is closed when ctx ends.
// A receiver that is slow holds nobody up: it is given the way from what it saw
// last to what is there now, in one step.
func (s *Store) Changes(ctx context.Context) <-chan []Change {
	ch, wake := make(chan []Change), make(chan struct{}, 1)
	s.mu.Lock()
	s.subs[wake] = true
	s.mu.Unlock()
	go func() {
		defer close(ch)
		defer func() {
			s.mu.Lock()
			delete(s.subs, wake)
			s.mu.Unlock()
		}()
		seen := &snapshot{}
		for {
			now := s.current.Load()
			if list := changes(seen, now); len(list) > 0 {
				select {
				case ch <- list:
				case <-ctx.Done():
					return
				}
			}
			seen = now
			select {
			case <-wake:
			case <-ctx.Done():
				return
			}
		}
	}()
	return ch
}

func changes(old, now *snapshot) []Change {
	var list []Change
	for name, st := range now.held {
		was := old.held[name]
		if was == st {
			continue
		}
		if was == nil {
			was = &Status{}
		}
		c := Change{Name: name, Old: was.Loaded, New: st.Loaded, Hash: st.Hash, Err: st.Err}
		switch {
		case st.Withdrawn() && was.Loaded != nil:
			c.Kind = ProfileWithdrawn
		case st.Err != nil:
			c.Kind = ProfileBroken
		case was.Err != nil && !was.Withdrawn():
			c.Kind = ProfileRecovered
		case was.Loaded == nil:
			c.Kind = ProfileLoaded
		default:
			c.Kind = ProfileChanged
		}
		list = append(list, c)
	}
	for name, was := range old.held {
		if now.held[name] != nil {
			continue
		}
		c := Change{Kind: ProfileWithdrawn, Name: name, Old: was.Loaded, Err: notHeld(name)}
		if name == "" {
			c = Change{Kind: ProfileRecovered}
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Name, b.Name) })
	switch was, is := old.health.Polling, now.health.Polling; {
	case is != nil && (was == nil || was.Error() != is.Error()):
		list = append(list, Change{Kind: WatchPolling, Err: is})
	case is == nil && was != nil:
		list = append(list, Change{Kind: WatchNotified})
	}
	return list
}

// doubt is how long a profile must look wrong before it is believed, where it
// looks as if somebody were at work on it: a file that took part is gone, as it is for a moment
// when an editor saves by renaming twice, or is open for writing.
const doubt = 500 * time.Millisecond

// look reads everything once and publishes what changed. It gives the time
// after which to look again, 0 for no need. A forced look doubts nothing.
func (s *Store) look(force bool) (again time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	was := s.current.Load()
	texts := &texts{old: s.texts.now}
	round := &survey{walker: resolve.NewWalker(), ways: &ways{dirs: map[string]*way{}}, texts: texts, files: map[string][]byte{}}

	held, health, doubts := map[string]*Status{}, was.health, map[string]time.Time{}
	names := s.o.Names
	if len(names) == 0 {
		entries, err := s.loader.list(round)
		set := map[string]bool{}
		for _, e := range entries {
			set[e.Name] = true
		}
		for name := range was.held {
			set[name] = name != ""
		}
		if st := next(was.held[""], "", nil, "", err, now); err != nil {
			held[""] = st
		}
		delete(set, "")
		names = slices.Sorted(maps.Keys(set))
	}
	changed, took, failed := false, false, held[""] != nil && held[""] != was.held[""]
	for _, name := range names {
		old := was.held[name]
		st := s.judge(round, old, name, force, now)
		if doubtful(old, st) {
			since, known := s.doubts[name]
			if !known {
				since = now
			}
			if !force && now.Sub(since) < doubt {
				again, doubts[name], st = doubt, since, old
			} else if errors.Is(st.Err, errUnsettled) {
				again = doubt // nothing tells when a file is closed
			}
		}
		if st == nil || len(s.o.Names) == 0 && st.Withdrawn() {
			continue
		}
		held[name] = st
		if st != old {
			changed = true
			took = took || st.Err == nil
			failed = failed || st.Err != nil
		}
	}
	texts.old = nil
	s.texts, s.ways, s.doubts = texts, round.ways, doubts
	changed = changed || failed || len(held) != len(was.held)
	if !changed {
		return again
	}
	if took {
		health.Reloads++
	}
	if failed {
		health.Failures++
	}
	if took && !slices.ContainsFunc(slices.Collect(maps.Values(held)), func(st *Status) bool { return st.Err != nil }) {
		health.Complete = now
	}
	s.publish(&snapshot{held, health})
	return again
}

// publish is called with mu held.
func (s *Store) publish(to *snapshot) {
	s.current.Store(to)
	for wake := range s.subs {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// judge loads one profile and says what its status becomes: old itself where
// nothing changed.
func (s *Store) judge(round *survey, old *Status, name string, force bool, now time.Time) *Status {
	d := s.loader.load(name, round)
	if len(d.problems) > 0 {
		// What the walker remembers of a directory may be older than the file in it.
		round.walker, round.files = resolve.NewWalker(), map[string][]byte{}
		d = s.loader.load(name, round)
	}
	err := d.problems.Err()
	hash := ""
	if err == nil {
		hash = round.texts.hash(d)
		if old != nil && old.Err == nil && old.Hash == hash && !force {
			return old
		}
		if s.o.Judge != nil {
			err = s.o.Judge(d.loaded)
		}
	}
	return next(old, name, d.loaded, hash, err, now)
}

// next is the status after old. It is old itself where they are the same to a reader.
func next(old *Status, name string, p *Loaded, hash string, err error, now time.Time) *Status {
	if old == nil {
		old = &Status{}
	}
	st := &Status{Name: name, Loaded: old.Loaded, Since: old.Since, Hash: old.Hash, Err: err, ErrSince: now}
	switch {
	case err == nil && old.Loaded != nil && old.Hash == hash:
		if old.Err == nil {
			return old
		}
		st.ErrSince = time.Time{}
		return st
	case err == nil:
		return &Status{Name: name, Loaded: p, Since: now, Hash: hash}
	case withdrawn(name, err):
		st.Loaded, st.Since, st.Hash = nil, time.Time{}, ""
	}
	if old.Err != nil {
		st.ErrSince = old.ErrSince
		if old.Err.Error() == err.Error() && old.Loaded == st.Loaded {
			return old
		}
	}
	return st
}

// withdrawn tells a profile that is gone from one whose parent is: that one is broken.
func withdrawn(name string, err error) bool {
	var list resolve.Refusals
	return errors.As(err, &list) && len(list) == 1 && list[0].Code == resolve.ProfileMissing && list[0].Subject == name && list[0].Origin == (resolve.Origin{})
}

// doubtful reports whether somebody seems to be at work on a profile, so that
// what was found is not to be believed at once.
func doubtful(old, st *Status) bool {
	if errors.Is(st.Err, errUnsettled) {
		return true
	}
	if old == nil || old.Loaded == nil || old == st {
		return false
	}
	if st.Err != nil {
		return errors.Is(st.Err, resolve.ProfileMissing)
	}
	gone := func(file string) bool { return !slices.Contains(st.Loaded.Files, file) }
	return slices.ContainsFunc(old.Loaded.Files, gone)
}

// text names one document that was read.
type text struct {
	name, file string
	dropIn     bool
}

// texts are the documents of one look, parsed; those that have not changed
// since the look before are not parsed again, and a parent is parsed once for
// all its children.
type texts struct {
	old, now map[text]parsed
}

type parsed struct {
	hash    [16]byte
	profile *profiles.Profile
	err     error
}

func (t *texts) parse(id text, data []byte) (*profiles.Profile, error) {
	parse := profiles.Parse
	if id.dropIn {
		parse = profiles.ParseDropIn
	}
	if t == nil {
		return parse(id.name, id.file, data)
	}
	// Not a cryptographic hash: whoever could make two documents collide may
	// write profiles anyway, and crypto/sha256 would cost every exec its start-up.
	h := fnv.New128a()
	h.Write(data)
	p := parsed{hash: [16]byte(h.Sum(nil))}
	known, ok := t.now[id]
	if !ok {
		known, ok = t.old[id]
	}
	if ok && known.hash == p.hash {
		p = known
	} else {
		p.profile, p.err = parse(id.name, id.file, data)
	}
	if t.now == nil {
		t.now = map[text]parsed{}
	}
	t.now[id] = p
	return p.profile, p.err
}

// hash is over every file that took part: its name and its content.
func (t *texts) hash(d *load) string {
	h := fnv.New128a()
	add := func(p *profiles.Profile, dropIn bool) {
		sum := t.now[text{p.Name, p.File, dropIn}].hash
		h.Write([]byte(p.File))
		h.Write([]byte{0})
		h.Write(sum[:])
	}
	for _, f := range d.found {
		add(f.profile, false)
		for _, p := range f.dropIns {
			add(p, true)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
