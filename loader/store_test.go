package loader

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/resolve"
)

// permit is a profile whose value is told by its permit path.
func permit(path string) string { return "permit_path = '" + path + "'\n" }

func (t *tree) open(o StoreOptions) *Store {
	t.Helper()
	s, err := Open(t.l, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (t *tree) remove(name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(t.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func (t *tree) rename(from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(t.dir, from), filepath.Join(t.dir, to)); err != nil {
		t.Fatal(err)
	}
}

// has is the permit path of a store's current value, or the code of the refusal.
func has(s *Store, name string) string {
	p, err := s.Current(name)
	if err != nil {
		return codes(err)
	}
	return p.Policy.Common.PermitPath.Text
}

func codes(err error) string {
	var list resolve.Refusals
	var one *resolve.Refusal
	switch {
	case errors.As(err, &list):
		var words []string
		for _, r := range list {
			words = append(words, string(r.Code))
		}
		return strings.Join(words, " ")
	case errors.As(err, &one):
		return string(one.Code)
	case err == nil:
		return ""
	}
	return "not a refusal: " + err.Error()
}

// The whole life of a profile, by forced reloads: what the value is, and what is
// wrong with what lies on disk.
func TestStoreKeepsTheLastGood(t *testing.T) {
	tr := newTree(t, map[string]string{"base.toml": "", "p.toml": "extends = ['base']\n" + permit("/a"), "q.toml": permit("/q")})
	s := tr.open(StoreOptions{Names: []string{"p", "q"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := s.Changes(ctx)
	next := func() string {
		select {
		case batch := <-changes:
			var words []string
			for _, c := range batch {
				words = append(words, string(c.Kind)+" "+c.Name)
			}
			return strings.Join(words, ", ")
		case <-time.After(5 * time.Second):
			return "nothing"
		}
	}
	if got := next(); got != "loaded p, loaded q" {
		t.Fatal(got)
	}
	first := s.Status("p")
	for _, step := range []struct {
		name  string
		do    func()
		value string // of p
		err   string // of p
		event string
	}{
		{"another value", func() { tr.write("p.toml", permit("/b")) }, "/b", "", "changed p"},
		{"malformed", func() { tr.write("p.toml", "permit_path = ") }, "/b", "profile-syntax", "broken p"},
		{"still malformed, for another reason", func() { tr.write("p.toml", "nonsense = 1") }, "/b", "profile-key", "broken p"},
		{"the same value again", func() { tr.write("p.toml", permit("/b")) }, "/b", "", "recovered p"},
		{"others may write it", func() { tr.chmod("p.toml", 0o666) }, "/b", "profile-untrusted", "broken p"},
		{"and no longer", func() { tr.chmod("p.toml", 0o644) }, "/b", "", "recovered p"},
		{"others may write the directory", func() { tr.chmod(".", 0o777) }, "/b", "profile-untrusted", "broken p, broken q"},
		{"and no longer", func() { tr.chmod(".", 0o755) }, "/b", "", "recovered p, recovered q"},
		{"a parent that is missing", func() { tr.write("p.toml", "extends = ['gone']\n"+permit("/c")) }, "/b", "profile-missing", "broken p"},
		{"and is there", func() { tr.write("gone.toml", "pty = true") }, "/c", "", "recovered p"},
		{"the parent changes", func() { tr.write("gone.toml", "pty = false") }, "/c", "", "changed p"},
		{"the parent goes", func() { tr.remove("gone.toml") }, "/c", "profile-missing", "broken p"},
		{"withdrawn", func() { tr.remove("p.toml") }, "profile-missing", "profile-missing", "withdrawn p"},
		{"back, and malformed: nothing is left to keep", func() { tr.write("p.toml", "x") }, "profile-syntax", "profile-syntax", "broken p"},
		{"back", func() { tr.write("p.toml", permit("/d")) }, "/d", "", "recovered p"},
		{"a drop-in", func() { tr.write("p.d/1.toml", permit("/e")) }, "/e", "", "changed p"},
		{"a drop-in that is malformed", func() { tr.write("p.d/1.toml", "extends = []") }, "/e", "profile-key", "broken p"},
		{"no drop-in", func() { tr.remove("p.d") }, "/d", "", "recovered p"},
		{"the directory goes", func() { tr.rename(".", "../gone") }, "profile-missing", "profile-missing", "withdrawn p, withdrawn q"},
		{"and comes back", func() { tr.rename("../gone", ".") }, "/d", "", "loaded p, loaded q"},
	} {
		step.do()
		s.Reload()
		if got := has(s, "p"); got != step.value {
			t.Errorf("%s: the value is %q, want %q", step.name, got, step.value)
		}
		if got := codes(s.Status("p").Err); got != step.err {
			t.Errorf("%s: refused with %q, want %q", step.name, got, step.err)
		}
		if got := next(); got != step.event {
			t.Errorf("%s: %q, want %q", step.name, got, step.event)
		}
	}
	last := s.Status("p")
	if first.Hash == "" || first.Hash == last.Hash || !last.Since.After(first.Since) || last.ErrSince != (time.Time{}) {
		t.Errorf("first %+v, last %+v", first, last)
	}
	if got := has(s, "nobody"); got != "profile-missing" {
		t.Errorf("a name that is not held: %s", got)
	}
	cancel()
	for range changes {
	}
}

// A broken profile says since when, however often the reason changes.
func TestStatusSaysSinceWhen(t *testing.T) {
	tr := newTree(t, map[string]string{"p.toml": permit("/a")})
	s := tr.open(StoreOptions{Names: []string{"p"}})
	tr.write("p.toml", "x")
	s.Reload()
	one := s.Status("p")
	tr.write("p.toml", "y = 1")
	s.Reload()
	two := s.Status("p")
	if one.ErrSince.IsZero() || one.ErrSince != two.ErrSince || codes(two.Err) != "profile-key" || one.Since != two.Since || two.Loaded == nil {
		t.Errorf("%+v\n%+v", one, two)
	}
}

// A reload that changes nothing publishes nothing, parses nothing and keeps
// every pointer.
func TestUnchangedReload(t *testing.T) {
	tr := newTree(t, map[string]string{"base.toml": "", "p.toml": "extends = ['base']\n" + permit("/a"), "q.toml": "extends = ['base']", "broken.toml": "x"})
	s := tr.open(StoreOptions{AllowBroken: true})
	before, texts := s.current.Load(), s.texts.now
	tr.write("p.toml", "extends = ['base']\n"+permit("/a")) // the same, with a newer time
	s.Reload()
	if s.current.Load() != before {
		t.Errorf("published again: %+v, was %+v", s.current.Load(), before)
	}
	for id, p := range texts {
		if s.texts.now[id].profile != p.profile {
			t.Errorf("%s was parsed again", id.file)
		}
	}
	if h := s.Health(); h.Reloads != 1 || h.Failures != 1 || !h.Complete.IsZero() {
		t.Errorf("%+v", h)
	}
	tr.write("broken.toml", "")
	s.Reload()
	if h := s.Health(); h.Reloads != 2 || h.Failures != 1 || h.Complete.IsZero() {
		t.Errorf("%+v", h)
	}
}

func TestOpenMustSucceed(t *testing.T) {
	tr := newTree(t, map[string]string{"p.toml": permit("/a"), "broken.toml": "x"})
	for _, tt := range []struct {
		o    StoreOptions
		want string
	}{
		{StoreOptions{Names: []string{"p"}}, ""},
		{StoreOptions{Names: []string{"p", "broken"}}, "profile-syntax"},
		{StoreOptions{Names: []string{"gone", "broken"}}, "profile-missing profile-syntax"},
		{StoreOptions{Names: []string{"../p"}}, "profile-name"},
		{StoreOptions{}, "profile-syntax"},
		{StoreOptions{AllowBroken: true}, ""},
		{StoreOptions{Names: []string{"p"}, Judge: func(*Loaded) error {
			return resolve.Refusals{{Code: resolve.PathMissing}, {Code: resolve.PermitRoot}}
		}}, "path-missing permit-root"},
	} {
		s, err := Open(tr.l, tt.o)
		if got := codes(err); got != tt.want || (s == nil) != (tt.want != "") {
			t.Errorf("%v: %s, want %s", tt.o.Names, got, tt.want)
		}
	}
}

// All of the search path: profiles come and go, and a layer that cannot be
// listed is a problem of its own that withdraws nothing.
func TestStoreOfAll(t *testing.T) {
	tr := newTree(t, map[string]string{"p.toml": permit("/a"), "broken.toml": "x"})
	s := tr.open(StoreOptions{AllowBroken: true})
	names := func() string {
		var list []string
		for _, st := range s.Statuses() {
			list = append(list, st.Name+":"+codes(st.Err))
		}
		return strings.Join(list, " ")
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "broken:profile-syntax p:"},
		{func() { tr.write("new.toml", permit("/n")) }, "broken:profile-syntax new: p:"},
		{func() { tr.remove("broken.toml"); tr.remove("new.toml") }, "p:"},
		{func() { tr.chmod(".", 0o777) }, ":profile-untrusted p:profile-untrusted"},
		{func() { tr.chmod(".", 0o755) }, "p:"},
		{func() { tr.remove("p.toml") }, ""},
	} {
		step.do()
		s.Reload()
		if got := names(); got != step.want {
			t.Errorf("got %q, want %q", got, step.want)
		}
	}
}

// What Judge refuses does not become the value, and is judged again although
// its files do not change.
func TestJudge(t *testing.T) {
	tr := newTree(t, map[string]string{"p.toml": permit("/a")})
	var refuse atomic.Bool
	judged := 0
	s := tr.open(StoreOptions{Names: []string{"p"}, Judge: func(p *Loaded) error {
		judged++
		if refuse.Load() {
			return &resolve.Refusal{Code: resolve.PathMissing}
		}
		p.Value = judged
		return nil
	}})
	look := func(value any, path, err string) {
		t.Helper()
		s.look(false)
		if st := s.Status("p"); st.Loaded.Value != value || has(s, "p") != path || codes(st.Err) != err {
			t.Errorf("%v, %s, %q", st.Loaded.Value, has(s, "p"), codes(st.Err))
		}
	}
	look(1, "/a", "")
	refuse.Store(true)
	look(1, "/a", "") // nothing changed: nobody is asked
	tr.write("p.toml", permit("/b"))
	look(1, "/a", "path-missing")
	refuse.Store(false)
	look(3, "/b", "")
	refuse.Store(true)
	s.Reload() // forced: asked again
	look(3, "/b", "path-missing")
}

// Half of a file is never taken: while somebody has it open for writing, the
// last good value stays. It would be a valid profile with a lower floor.
func TestTruncateThenWrite(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("nothing says who has a file open")
	}
	tr := newTree(t, map[string]string{"p.toml": permit("/a") + "[linux]\nmin_abi = 6\n"})
	s := tr.open(StoreOptions{Names: []string{"p"}})
	f, err := os.OpenFile(tr.dir+"/p.toml", os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := func(step, path string, floor int, code string) {
		t.Helper()
		st := s.Status("p")
		if st.Loaded.Policy.Common.PermitPath.Text != path || st.Loaded.Policy.Linux.MinABI.N != floor || codes(st.Err) != code {
			t.Errorf("%s: %s, floor %d, %q", step, has(s, "p"), st.Loaded.Policy.Linux.MinABI.N, codes(st.Err))
		}
	}
	if again := s.look(false); again == 0 {
		t.Error("nobody looks again")
	}
	want("empty", "/a", 6, "")
	if _, err := f.WriteString(permit("/b")); err != nil {
		t.Fatal(err)
	}
	s.look(false)
	want("half", "/a", 6, "")
	s.look(true)
	want("half, and no doubt is left", "/a", 6, "profile-untrusted")
	if _, err := f.WriteString("[linux]\nmin_abi = 7\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s.look(false)
	want("whole", "/b", 7, "")
}

// A file that is gone for a moment is no withdrawal, and does not lay bare the
// profile of the same name in a lower layer.
func TestGoneForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		low := newTree(t, map[string]string{"p.toml": permit("/wide")})
		tr := newTree(t, map[string]string{"p.toml": permit("/a"), "p.d/1.toml": "[linux]\nmin_abi = 6"})
		tr.l.Layers = append(tr.l.Layers, low.l.Layers...)
		s := tr.open(StoreOptions{Names: []string{"p"}})
		for _, file := range []string{"p.toml", "p.d"} {
			tr.rename(file, "away")
			if again := s.look(false); again != doubt || has(s, "p") != "/a" {
				t.Fatalf("%s: looked again after %s, %s", file, again, has(s, "p"))
			}
			time.Sleep(doubt - 1)
			s.look(false)
			tr.rename("away", file)
			s.look(false)
			if st := s.Status("p"); st.Err != nil || has(s, "p") != "/a" || st.Loaded.Policy.Linux.MinABI.N != 6 {
				t.Fatalf("%s: %+v", file, st)
			}
			time.Sleep(time.Hour)
			tr.rename(file, "away") // the doubt begins again
			if again := s.look(false); again != doubt {
				t.Fatalf("%s: believed at once", file)
			}
			tr.rename("away", file)
			s.look(false)
		}
		tr.remove("p.toml")
		s.look(false)
		time.Sleep(doubt)
		if again := s.look(false); again != 0 || has(s, "p") != "/wide" {
			t.Errorf("gone for good: %s", has(s, "p"))
		}
	})
}

// bell is a notifier that says what a test lets it say.
type bell struct {
	events   chan fsnotify.Event
	mu       sync.Mutex
	limit    error // of add
	watching map[string]bool
	added    func(dir string) // called after each add; nil: nothing
}

func (b *bell) new() (*notifier, error) {
	return &notifier{events: b.events, errors: make(chan error), close: func() error { return nil },
		add: func(dir string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.limit != nil {
				return b.limit
			}
			b.watching[dir] = true
			if b.added != nil {
				b.added(dir)
			}
			return nil
		},
		remove: func(dir string) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.watching, dir)
			return nil
		},
		list: func() []string {
			b.mu.Lock()
			defer b.mu.Unlock()
			var dirs []string
			for dir := range b.watching {
				dirs = append(dirs, dir)
			}
			return dirs
		}}, nil
}

// withBell runs a Watch of the profile p in a bubble, where time is the test's.
func withBell(t *testing.T, limit error, f func(tr *tree, s *Store, b *bell)) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t, map[string]string{"p.toml": permit("/a")})
		b := &bell{events: make(chan fsnotify.Event), limit: limit, watching: map[string]bool{}}
		s, err := open(tr.l, StoreOptions{Names: []string{"p"}}, b.new)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Watch(ctx) }()
		synctest.Wait()
		f(tr, s, b)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// It looks 100 ms after the last event, and 1 s after the first one.
func TestSettle(t *testing.T) {
	withBell(t, nil, func(tr *tree, s *Store, b *bell) {
		ring := func() { b.events <- fsnotify.Event{Name: tr.dir + "/p.toml", Op: fsnotify.Write} }
		tr.write("p.toml", permit("/b"))
		ring()
		time.Sleep(settle - 1)
		ring()
		time.Sleep(settle - 1)
		synctest.Wait()
		if has(s, "p") != "/a" {
			t.Error("looked before the files settled")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if has(s, "p") != "/b" {
			t.Error("not looked after they settled")
		}
		tr.write("p.toml", permit("/c"))
		began := time.Now()
		for has(s, "p") == "/b" && time.Since(began) < 2*longest {
			ring()
			time.Sleep(settle / 2)
			synctest.Wait()
		}
		if after := time.Since(began); after != longest {
			t.Errorf("under constant change it looked after %s, want %s", after, longest)
		}
	})
}

// Names that are not looked at wake nobody: swap files and other programs' files.
func TestOtherFilesConcernNobody(t *testing.T) {
	withBell(t, nil, func(tr *tree, s *Store, b *bell) {
		tr.write("p.toml", permit("/b"))
		for _, name := range []string{tr.dir + "/.p.toml.swp", tr.dir + "/4913", filepath.Dir(tr.dir) + "/else", "/etc/passwd"} {
			b.events <- fsnotify.Event{Name: name, Op: fsnotify.Create}
		}
		time.Sleep(2 * longest)
		synctest.Wait()
		if has(s, "p") != "/a" {
			t.Error("looked")
		}
		b.events <- fsnotify.Event{Name: tr.dir + "/new.toml", Op: fsnotify.Create} // the control
		time.Sleep(settle)
		synctest.Wait()
		if has(s, "p") != "/b" {
			t.Error("not looked")
		}
	})
}

// A directory that was removed and made again is watched again, although it may
// have the inode number of the old one: the kernel's watch ended with that.
func TestRemovedDirectoryIsWatchedAgain(t *testing.T) {
	for _, op := range []fsnotify.Op{fsnotify.Remove, fsnotify.Rename} {
		withBell(t, nil, func(tr *tree, s *Store, b *bell) {
			b.mu.Lock()
			delete(b.watching, tr.dir)
			b.mu.Unlock()
			b.events <- fsnotify.Event{Name: tr.dir, Op: op}
			time.Sleep(settle)
			synctest.Wait()
			if !b.watching[tr.dir] {
				t.Errorf("%s: not watched again", op)
			}
		})
	}
}

// A directory of the same name is another one, also when nobody said so; and
// what changes after a look and before the watch is seen by a second look.
func TestReplacedInSilence(t *testing.T) {
	withBell(t, nil, func(tr *tree, s *Store, b *bell) {
		tr.write("../new/p.toml", permit("/b"))
		tr.rename(".", "../old")
		tr.rename("../new", ".")
		b.mu.Lock()
		b.added = func(dir string) {
			if dir == tr.dir {
				tr.write("p.toml", permit("/c"))
			}
		}
		b.mu.Unlock()
		time.Sleep(defaultPoll)
		synctest.Wait()
		if has(s, "p") != "/c" {
			t.Errorf("the value is %s: /a: not looked; /b: not watched, or not looked at again", has(s, "p"))
		}
	})
}

// Without a word from the notifier the poll finds everything.
func TestPoll(t *testing.T) {
	withBell(t, nil, func(tr *tree, s *Store, b *bell) {
		tr.write("p.toml", permit("/b"))
		time.Sleep(defaultPoll - 1)
		synctest.Wait()
		if has(s, "p") != "/a" {
			t.Error("looked before it was time")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if has(s, "p") != "/b" {
			t.Error("not looked")
		}
		// A watch that the kernel has dropped in silence is set again.
		b.mu.Lock()
		delete(b.watching, tr.dir)
		b.mu.Unlock()
		time.Sleep(defaultPoll)
		synctest.Wait()
		if !b.watching[tr.dir] {
			t.Error("not watched again")
		}
	})
}

// Where a limit is reached Watch says so once, polls, and goes back to
// notification when it can.
func TestWatchLimit(t *testing.T) {
	withBell(t, syscall.ENOSPC, func(tr *tree, s *Store, b *bell) {
		ctx, cancel := context.WithCancel(tr.Context())
		defer cancel()
		changes := s.Changes(ctx)
		said := <-changes
		if len(said) != 2 || said[1].Kind != WatchPolling || !errors.Is(said[1].Err, syscall.ENOSPC) || !strings.Contains(said[1].Err.Error(), "max_user_watches") {
			t.Fatalf("%+v", said)
		}
		for _, value := range []string{"/b", "/c"} {
			tr.write("p.toml", permit(value))
			time.Sleep(deafPoll)
			synctest.Wait()
			if has(s, "p") != value {
				t.Errorf("not seen after %s: %s", deafPoll, has(s, "p"))
			}
			if batch := <-changes; len(batch) != 1 || batch[0].Kind != ProfileChanged {
				t.Errorf("said more than the change: %+v", batch)
			}
		}
		b.mu.Lock()
		b.limit = nil
		b.mu.Unlock()
		time.Sleep(deafPoll)
		synctest.Wait()
		if batch := <-changes; len(batch) != 1 || batch[0].Kind != WatchNotified || s.Health().Polling != nil {
			t.Errorf("%+v, %v", batch, s.Health().Polling)
		}
	})
}

// Where there is no notifier to be had (fs.inotify.max_user_instances) it polls too.
func TestNoNotifierAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTree(t, map[string]string{"p.toml": permit("/a")})
		s, err := open(tr.l, StoreOptions{Names: []string{"p"}}, func() (*notifier, error) { return nil, syscall.EMFILE })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.Watch(ctx)
		tr.write("p.toml", permit("/b"))
		time.Sleep(deafPoll + 1)
		synctest.Wait()
		if has(s, "p") != "/b" || !errors.Is(s.Health().Polling, syscall.EMFILE) {
			t.Errorf("%s, %v", has(s, "p"), s.Health().Polling)
		}
	})
}

// Readers and reloads in any number of goroutines: every reader sees one whole
// value. The race detector watches.
func TestConcurrentUse(t *testing.T) {
	tr := newTree(t, map[string]string{"base.toml": "", "p.toml": "extends = ['base']\n" + permit("/a")})
	s := tr.open(StoreOptions{Names: []string{"p"}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { s.Watch(ctx) })
		all.Go(func() {
			for range s.Changes(ctx) {
			}
		})
	}
	var reads atomic.Int64
	for range 8 {
		all.Go(func() {
			for ctx.Err() == nil {
				p, err := s.Current("p")
				if err != nil {
					t.Error(err)
					return
				}
				env, path := p.Policy.Common.SetEnv, p.Policy.Common.PermitPath.Text
				if len(env) != 0 && env[0].Value.Text != path {
					t.Errorf("a mix: %s and %s", path, env[0].Value.Text)
				}
				s.Statuses()
				s.Health()
				reads.Add(1)
			}
		})
	}
	for i := 0; ctx.Err() == nil; i++ {
		v := fmt.Sprintf("/v%d", i)
		tr.write(".new", "extends = ['base']\n"+permit(v)+"set_env = { V = '"+v+"' }\n")
		tr.rename(".new", "p.toml")
		s.Reload()
	}
	all.Wait()
	t.Logf("%d reads", reads.Load())
}

var soak = flag.Duration("soak", 3*time.Second, "how long TestSoak goes on")

// TestSoak changes profiles in every way that it knows, for as long as -soak
// says, and asserts that nothing grows: goroutines, descriptors, inotify watches, memory.
func TestSoak(t *testing.T) {
	tr := newTree(t, map[string]string{"base.toml": "", "cfg/keep.toml": permit("/keep")})
	tr.l.Layers[0].Dir += "/link"
	tr.link("cfg", "link")
	s := tr.open(StoreOptions{AllowBroken: true})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	before := runtime.NumGoroutine()
	go func() { done <- s.Watch(ctx) }()
	var seen atomic.Int64
	go func() {
		for batch := range s.Changes(ctx) {
			seen.Add(int64(len(batch)))
		}
	}()
	round := func(i int) {
		v := permit(fmt.Sprintf("/v%d", i))
		tr.write("cfg/.t", v)
		tr.rename("cfg/.t", "cfg/p.toml")
		tr.write("cfg/q.toml", "x")
		tr.write("cfg/q.d/1.toml", v)
		s.Reload()
		tr.rename("cfg", "old")
		tr.write("cfg/keep.toml", permit("/keep"))
		tr.write("cfg/p.toml", v)
		tr.remove("old")
		tr.remove("cfg/q.d")
		s.Reload()
		tr.write(fmt.Sprintf("cfg/n%d.toml", i), v)
		s.Reload()
		ctx, cancel := context.WithCancel(ctx)
		<-s.Changes(ctx)
		cancel()
	}
	type figures struct{ goroutines, descriptors, watches, kib int }
	measure := func() figures {
		time.Sleep(2 * doubt)
		s.Reload()
		time.Sleep(2 * settle)
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		f := figures{goroutines: runtime.NumGoroutine(), kib: int(m.HeapAlloc >> 10)}
		fds, _ := os.ReadDir("/proc/self/fd")
		for _, fd := range fds {
			f.descriptors++
			info, _ := os.ReadFile("/proc/self/fdinfo/" + fd.Name())
			f.watches += strings.Count(string(info), "inotify wd:")
		}
		return f
	}
	for i := range 20 { // whatever grows once has grown
		round(i)
	}
	first := measure()
	rounds := 20
	for began := time.Now(); time.Since(began) < *soak; rounds++ {
		round(rounds)
	}
	last := measure()
	t.Logf("%d rounds, %d events in %s: %+v, then %+v", rounds, seen.Load(), *soak, first, last)
	if last.goroutines > first.goroutines || last.descriptors > first.descriptors || last.watches > first.watches+2 || last.kib > first.kib+512 {
		t.Errorf("something grows: %+v, then %+v", first, last)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for range 100 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, there were %d before", runtime.NumGoroutine(), before)
}

// The store's view and a Load agree: what is current is what exec would take.
func TestStoreAgreesWithLoad(t *testing.T) {
	tr := newTree(t, map[string]string{"base.toml": "pty = true", "p.toml": "extends = ['base']\n" + permit("/a"), "p.d/1.toml": "runtime = 'none'"})
	s := tr.open(StoreOptions{})
	for _, st := range s.Statuses() {
		p, err := tr.l.Load(st.Name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, st.Loaded, cmp.AllowUnexported(Layer{})); diff != "" {
			t.Errorf("%s: %s", st.Name, diff)
		}
	}
}

// One reload of 10,000 profiles that share a parent: the first, one that finds
// nothing changed, and one after the parent changed.
func BenchmarkReload(b *testing.B) {
	dir := b.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(content), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	write("base", "read_paths = ['-/opt']\n")
	for i := range 10_000 {
		write(fmt.Sprintf("p%d", i), fmt.Sprintf("extends = ['base']\nread_paths = ['-/srv/%d']\nset_env = { N = '%d' }\n[linux]\nmin_abi = 6\n", i, i)+permit("/a"))
	}
	l := &Loader{Layers: []Layer{{Dir: dir}}, UID: os.Getuid()}
	s, err := Open(l, StoreOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			if _, err := Open(l, StoreOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			s.look(false)
		}
	})
	n := 0
	b.Run("parent", func(b *testing.B) {
		for b.Loop() {
			n++
			write("base", fmt.Sprintf("read_paths = ['-/opt/%d']\n", n))
			s.look(false)
		}
	})
	if st := s.Status("p1"); st.Err != nil || len(s.Statuses()) != 10_001 {
		b.Errorf("%+v", st)
	}
}
