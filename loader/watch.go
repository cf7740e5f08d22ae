package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/confinectl/confinectl/resolve"
)

// When Watch looks.
const (
	settle      = 100 * time.Millisecond // after the last event of a burst
	longest     = time.Second            // after the first one, however long the burst
	defaultPoll = 10 * time.Second
	deafPoll    = 2 * time.Second // where notification is not complete
	pollShare   = 20              // and at most one part in so many of the time is spent polling
)

// notifier is what Watch needs of fsnotify. Tests have one of their own, which
// can reach a limit.
type notifier struct {
	events <-chan fsnotify.Event
	errors <-chan error
	add    func(dir string) error
	remove func(dir string) error
	list   func() []string
	close  func() error
}

func newNotifier() (*notifier, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	return &notifier{w.Events, w.Errors, w.Add, w.Remove, w.WatchList, w.Close}, nil
}

// Watch reloads when profiles change, until ctx ends; then it returns nil.
// One Watch at a time is enough, and more do no harm.
//
// Notification and polling are only reasons to look; what is on disk then decides. It
// looks 100 ms after the last event of a burst, at the latest 1 s after the
// first, and every [StoreOptions.Poll] without any.
//
// Watched are directories only, never files: every directory on the way to a profile, a
// drop-in and a layer, each symlink's own directory, and the deepest directory
// that exists where one is missing. A directory that is removed, replaced or renamed is watched
// again, as the one that then has its name. Left to polling: what another host does on a
// network file system; directories that may not be read; and a world-writable sticky directory
// (/tmp) on the way, where neither a link nor a gap lies in it. Where a limit of the kernel is
// reached, Health.Polling says so and Watch polls every 2 s, until it is not reached any more.
func (s *Store) Watch(ctx context.Context) error {
	w := &watch{store: s, armed: map[string]resolve.FileID{}, settle: time.NewTimer(time.Hour), poll: time.NewTimer(time.Hour)}
	defer w.stop()
	w.look()
	for {
		var events <-chan fsnotify.Event
		var problems <-chan error
		if w.notifier != nil {
			events, problems = w.notifier.events, w.notifier.errors
		}
		select {
		case <-ctx.Done():
			return nil
		case ev := <-events:
			if w.concerns(ev) {
				w.touch(settle)
			}
		case <-problems: // events were lost
			w.forget(nil)
			w.touch(settle)
		case <-s.kick:
			w.look()
		case <-w.settle.C:
			w.look()
		case <-w.poll.C:
			if w.notifier != nil {
				w.forget(w.notifier.list())
			}
			w.look()
		}
	}
}

// watch is the state of one Watch.
type watch struct {
	store    *Store
	notifier *notifier                 // nil while there is none to be had
	armed    map[string]resolve.FileID // directories that are watched, and what had that name then
	ways     *ways
	settle   *time.Timer
	poll     *time.Timer
	first    time.Time // the first event that nobody has looked for yet; zero: none
}

func (w *watch) stop() {
	w.settle.Stop()
	w.poll.Stop()
	if w.notifier != nil {
		w.notifier.close()
	}
}

// touch makes sure that somebody looks in a moment.
func (w *watch) touch(wait time.Duration) {
	now := time.Now()
	if w.first.IsZero() {
		w.first = now
	}
	w.settle.Reset(max(0, min(wait, w.first.Add(longest).Sub(now))))
}

// look looks, and watches what was looked at. A directory that is newly
// watched may have changed before it was, so then it looks again.
func (w *watch) look() {
	w.settle.Stop()
	w.first = time.Time{}
	began := time.Now()
	var again time.Duration
	stale := true
	for tries := 0; stale && tries < 3; tries++ {
		again = w.store.look(false)
		stale = w.arm()
	}
	if stale {
		again = settle
	}
	if again > 0 {
		w.touch(again)
	}
	every := w.store.o.Poll
	if w.store.Health().Polling != nil {
		every = min(every, deafPoll)
	}
	w.poll.Reset(max(every, pollShare*time.Since(began)))
}

// concerns reports whether an event can have changed anything that was looked at.
func (w *watch) concerns(ev fsnotify.Event) bool {
	if _, ok := w.armed[ev.Name]; ok {
		if ev.Has(fsnotify.Remove) || ev.Has(fsnotify.Rename) {
			// The kernel watches the directory, or nothing; not what has its
			// name from now on, even by the same inode number.
			delete(w.armed, ev.Name)
		}
		return true
	}
	dir, name := filepath.Split(ev.Name)
	d := w.ways.dirs[cleanDir(dir)]
	return d != nil && d.matters(name)
}

func cleanDir(dir string) string {
	if dir == "/" {
		return dir
	}
	return strings.TrimSuffix(dir, "/")
}

// forget takes all directories but those of sure for unwatched.
func (w *watch) forget(sure []string) {
	armed := map[string]resolve.FileID{}
	for _, dir := range sure {
		if id, ok := w.armed[dir]; ok {
			armed[dir] = id
		}
	}
	w.armed = armed
}

// arm watches what the last look went through and nothing else. It reports
// whether the look may have missed something.
func (w *watch) arm() (stale bool) {
	w.store.mu.Lock()
	w.ways = w.store.ways
	w.store.mu.Unlock()
	var deaf error
	if w.notifier == nil {
		w.notifier, deaf = w.store.notify()
		if deaf != nil {
			w.notifier = nil
			w.store.setPolling(deaf)
			return false
		}
	}
	for dir, id := range w.armed {
		if d := w.ways.dirs[dir]; d == nil || d.id != id || !d.wanted() {
			w.notifier.remove(dir) // it may be gone: then there is nothing to remove
			delete(w.armed, dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(w.ways.dirs)) {
		d := w.ways.dirs[dir]
		if _, known := w.armed[dir]; known || !d.wanted() {
			continue
		}
		switch err := w.notifier.add(dir); {
		case err == nil:
			w.armed[dir] = d.id
			stale = true
		case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
			stale = true
		case d.needed || !errors.Is(err, syscall.EACCES):
			deaf = fmt.Errorf("%s cannot be watched: %w", dir, err)
			if errors.Is(err, syscall.ENOSPC) {
				deaf = fmt.Errorf("%s cannot be watched: fs.inotify.max_user_watches is reached: %w", dir, err)
			}
		}
	}
	w.store.setPolling(deaf)
	return stale
}

// setPolling publishes why notification is not complete, once.
func (s *Store) setPolling(reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.current.Load()
	if was := now.health.Polling; (was == nil) == (reason == nil) {
		return
	}
	health := now.health
	health.Polling = reason
	s.publish(&snapshot{now.held, health})
}

// ways are the directories that a look went through, by their real paths. A
// nil ways takes note of nothing.
type ways struct {
	dirs map[string]*way
}

// way is what matters in one directory.
type way struct {
	id     resolve.FileID
	busy   bool            // a world-writable sticky directory
	needed bool            // profiles, a link or a gap lie in it
	all    bool            // profiles and drop-in directories lie in it
	names  map[string]bool // what else was looked at in it
}

func (w *way) wanted() bool { return w.needed || !w.busy }

func (w *way) matters(name string) bool {
	return w.names[name] || w.all && (strings.HasSuffix(name, ".toml") || strings.HasSuffix(name, ".d"))
}

func (w *way) note(name string) {
	if w.matters(name) {
		return
	}
	if w.names == nil {
		w.names = map[string]bool{}
	}
	w.names[name] = true
}

// add takes note of every step of a walk.
func (w *ways) add(t *resolve.Trail) {
	if w == nil {
		return
	}
	for _, h := range t.Hops {
		if h.Stat.Mode.IsDir() {
			d := w.dirs[h.Path]
			if d == nil {
				d = &way{}
				w.dirs[h.Path] = d
			}
			d.id, d.busy = h.Stat.ID, h.Stat.Mode&fs.ModeSticky != 0 && h.Stat.Mode&0o002 != 0
		}
		if h.Path == "/" {
			continue
		}
		dir, name := filepath.Split(h.Path)
		if d := w.dirs[cleanDir(dir)]; d != nil {
			d.note(name)
			d.needed = d.needed || !h.Stat.Mode.IsDir()
		}
	}
	if d := w.dirs[t.Real]; d != nil && t.Rest != "" {
		first, _, _ := strings.Cut(t.Rest, "/")
		d.note(first)
		d.needed = true
	}
}

// all takes note of a directory in which every profile and drop-in counts.
func (w *ways) all(t *resolve.Trail) {
	if w == nil {
		return
	}
	if d := w.dirs[t.Real]; d != nil {
		d.all, d.needed = true, true
	}
}
