package loader

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var repeat = flag.Int("repeat", 1, "how often TestFaults makes each change; its log has the latencies")

// fault is a way in which a profile comes to say something else.
type fault struct {
	name string
	// prepare makes ready what lies below tr.dir; layer is the directory that is
	// searched, and says tr.dir itself where it is empty.
	prepare func(tr *tree)
	layer   string
	// change leads from the value of one round to that of the next. It
	// returns when the change is complete.
	change func(tr *tree, value string, round int)
	want   string // the code of the refusal that follows; empty: the new value follows
}

func faults() []fault {
	in := func(dir string, change func(tr *tree, value string, round int)) func(*tree, string, int) {
		return func(tr *tree, value string, round int) {
			sub := &tree{tr.T, filepath.Join(tr.dir, dir), tr.l}
			change(sub, value, round)
		}
	}
	write := func(tr *tree, value string, _ int) { tr.write("p.toml", value) }
	return []fault{
		{name: "written in place", change: write},
		{name: "temporary file, renamed", change: func(tr *tree, value string, _ int) {
			tr.write(".p.tmp", value)
			tr.rename(".p.tmp", "p.toml")
		}},
		{name: "vim: renamed away, written anew, backup removed", change: func(tr *tree, value string, _ int) {
			tr.write("4913", "")
			tr.remove("4913")
			tr.rename("p.toml", "p.toml~")
			tr.write("p.toml", value)
			tr.remove("p.toml~")
		}},
		{name: "sed -i: beside it, mode copied, renamed", change: func(tr *tree, value string, round int) {
			tmp := fmt.Sprintf("sed%06d", round)
			tr.write(tmp, value)
			tr.chmod(tmp, 0o644)
			tr.rename(tmp, "p.toml")
		}},
		{name: "truncated, written 300 ms later", change: func(tr *tree, value string, _ int) {
			f, err := os.OpenFile(tr.dir+"/p.toml", os.O_WRONLY|os.O_TRUNC, 0)
			if err != nil {
				tr.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			f.WriteString(value)
			f.Close()
		}},
		{name: "ConfigMap: ..data renamed over", prepare: func(tr *tree) {
			tr.rename("p.toml", "gone")
			tr.write("..v0/p.toml", permit("/start"))
			tr.link("..v0", "..data")
			tr.link("..data/p.toml", "p.toml")
		}, change: func(tr *tree, value string, round int) {
			tr.write(fmt.Sprintf("..v%d/p.toml", round), value)
			tr.link(fmt.Sprintf("..v%d", round), "..data_tmp")
			tr.rename("..data_tmp", "..data")
			tr.remove(fmt.Sprintf("..v%d", round-1))
		}},
		{name: "directory replaced by rename", layer: "cfg", change: func(tr *tree, value string, _ int) {
			tr.write("new/p.toml", value)
			tr.rename("cfg", "old")
			tr.rename("new", "cfg")
			tr.remove("old")
		}},
		{name: "directory above replaced by rename", layer: "app/cfg", change: func(tr *tree, value string, _ int) {
			tr.write("new/cfg/p.toml", value)
			tr.rename("app", "old")
			tr.rename("new", "app")
			tr.remove("old")
		}},
		{name: "directory a symlink, retargeted", layer: "cfg", prepare: func(tr *tree) {
			tr.rename("cfg", "cfg0")
			tr.link("cfg0", "cfg")
		}, change: func(tr *tree, value string, round int) {
			tr.write(fmt.Sprintf("cfg%d/p.toml", round), value)
			tr.link(fmt.Sprintf("cfg%d", round), "tmp")
			tr.rename("tmp", "cfg")
		}},
		{name: "the same in a sticky directory that all may write", layer: "cfg", prepare: func(tr *tree) {
			tr.rename("cfg", "cfg0")
			tr.link("cfg0", "cfg")
			tr.chmod(".", 0o777|os.ModeSticky)
		}, change: func(tr *tree, value string, round int) {
			tr.write(fmt.Sprintf("cfg%d/p.toml", round), value)
			tr.link(fmt.Sprintf("cfg%d", round), "tmp")
			tr.rename("tmp", "cfg")
		}},
		{name: "directory removed and made again", layer: "cfg", change: func(tr *tree, value string, _ int) {
			tr.remove("cfg")
			tr.write("cfg/p.toml", value)
		}},
		{name: "directory above removed, and made again at length", layer: "app/cfg", change: func(tr *tree, value string, _ int) {
			tr.remove("app")
			time.Sleep(250 * time.Millisecond)
			if err := os.Mkdir(tr.dir+"/app", 0o755); err != nil {
				tr.Fatal(err)
			}
			time.Sleep(250 * time.Millisecond)
			tr.write("app/cfg/p.toml", value)
		}},
		{name: "file is a symlink into another directory", layer: "cfg", prepare: func(tr *tree) {
			tr.rename("cfg/p.toml", "elsewhere.toml")
			tr.link("../elsewhere.toml", "cfg/p.toml")
		}, change: func(tr *tree, value string, _ int) {
			tr.write(".tmp", value)
			tr.rename(".tmp", "elsewhere.toml")
		}},
		{name: "drop-in added to a new directory", change: func(tr *tree, value string, _ int) {
			tr.remove("p.d")
			tr.write("p.d/1.toml", value)
		}},
		{name: "drop-in written in place", prepare: func(tr *tree) { tr.write("p.d/1.toml", permit("/start")) }, change: in("p.d", func(tr *tree, value string, _ int) {
			tr.write("1.toml", value)
		})},
		{name: "parent written in place", prepare: func(tr *tree) {
			tr.write("p.toml", "extends = ['base']")
			tr.write("base.toml", permit("/start"))
		}, change: func(tr *tree, value string, _ int) { tr.write("base.toml", value) }},
		{name: "removed", change: func(tr *tree, _ string, _ int) { tr.remove("p.toml") }, want: "profile-missing"},
		{name: "malformed", change: func(tr *tree, _ string, _ int) { tr.write("p.toml", "x") }, want: "profile-syntax"},
		{name: "file made writable by others", change: func(tr *tree, _ string, _ int) { tr.chmod("p.toml", 0o666) }, want: "profile-untrusted"},
		{name: "directory made writable by others", change: func(tr *tree, _ string, _ int) { tr.chmod(".", 0o777) }, want: "profile-untrusted"},
	}
}

// TestFaults makes every change with the real notifier, and with polling so
// slow that only notification can have seen it. No value that nobody wrote is ever
// current, and none that was withdrawn for a moment.
func TestFaults(t *testing.T) {
	for _, f := range faults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t, map[string]string{filepath.Join(f.layer, "p.toml"): permit("/start")})
			if f.prepare != nil {
				f.prepare(tr)
			}
			tr.l.Layers[0].Dir = filepath.Join(tr.dir, f.layer)
			s := tr.open(StoreOptions{Names: []string{"p"}, Poll: time.Hour})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- s.Watch(ctx) }()
			changes := s.Changes(ctx)
			<-changes
			time.Sleep(settle) // until it watches
			var latencies []time.Duration
			expect := func(path, code string) time.Duration {
				t.Helper()
				began := time.Now()
				for {
					select {
					case batch := <-changes:
						for _, c := range batch {
							if c.New != nil && c.Old != c.New && c.New.Policy.Common.PermitPath.Text != path || c.Kind == ProfileWithdrawn && code == "" {
								t.Fatalf("%s: %+v, %v", c.Kind, c.New, c.Err)
							}
						}
						if st := s.Status("p"); codes(st.Err) == code && (code != "" || has(s, "p") == path) {
							return time.Since(began)
						}
					case <-time.After(10 * time.Second):
						t.Fatalf("not seen: the value is %s, %v, want %s, %s", has(s, "p"), s.Status("p").Err, path, code)
					}
				}
			}
			for round := 1; round <= *repeat; round++ {
				path := fmt.Sprintf("/round%d", round)
				f.change(tr, permit(path), round)
				latencies = append(latencies, expect(path, f.want))
				if f.want != "" { // and back
					tr.chmod(".", 0o755)
					tr.write("p.toml", permit(path))
					expect(path, "")
				}
			}
			// And it has not gone deaf: a file written in place in the directory that is there now.
			tr.remove("p.d")
			tr.write(filepath.Join(f.layer, "p.toml"), permit("/last"))
			expect("/last", "")
			slices.Sort(latencies)
			t.Logf("| %s | %d ms | %d ms |", f.name, latencies[len(latencies)/2].Milliseconds(), latencies[len(latencies)-1].Milliseconds())
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// A profile directory that does not exist, nor the two above it, is watched from
// where something exists.
func TestDirectoryThatDoesNotExistYet(t *testing.T) {
	tr := newTree(t, nil)
	tr.l.Layers[0].Dir += "/a/b/c"
	s := tr.open(StoreOptions{Poll: time.Hour})
	ctx := t.Context()
	go s.Watch(ctx)
	changes := s.Changes(ctx)
	time.Sleep(settle)
	tr.write("a/b/c/p.toml", permit("/a"))
	select {
	case batch := <-changes:
		if len(batch) != 1 || batch[0].Kind != ProfileLoaded {
			t.Errorf("%+v", batch)
		}
	case <-time.After(10 * time.Second):
		t.Error("not seen")
	}
}

// A thousand files are one reload, also when their parent changes with them.
func TestBurstIsOneReload(t *testing.T) {
	const n = 1000
	files := map[string]string{"base.toml": ""}
	for i := range n {
		files[fmt.Sprintf("p%d.toml", i)] = "extends = ['base']"
	}
	tr := newTree(t, files)
	s := tr.open(StoreOptions{Poll: time.Hour})
	ctx := t.Context()
	go s.Watch(ctx)
	changes := s.Changes(ctx)
	<-changes
	time.Sleep(longest) // until it watches: it looks twice at first
	count := func(what string, change func()) {
		before := s.Health().Reloads
		change()
		select {
		case batch := <-changes:
			if len(batch) < n || s.Health().Reloads != before+1 {
				t.Errorf("%s: %d changes, %d reloads", what, len(batch), s.Health().Reloads-before)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not seen", what)
		}
		time.Sleep(4 * settle)
		if s.Health().Reloads != before+1 {
			t.Errorf("%s: %d reloads", what, s.Health().Reloads-before)
		}
	}
	count("every file", func() {
		for i := range n {
			tr.write(fmt.Sprintf("p%d.toml", i), "extends = ['base']\n"+permit("/a"))
		}
	})
	count("their parent", func() { tr.write("base.toml", "pty = true") })
}
