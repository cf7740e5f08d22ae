// Bench measures what confinectl costs. It has three modes:
//
//	go run ./bench [start]   starting a command: beside its peers and beside two floors
//	go run ./bench grow      with more profiles, levels, drop-ins and paths
//	go run ./bench inside    what the boundary costs the program in it
//
// It runs on Linux with Landlock and needs gcc; inside needs git. Everything is run interleaved
// and printed as a table with the goal beside it, and with -json as a document. Nothing fails
// because a machine is slow. docs/benchmarks.md has the method and results.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	rounds  int
	peerDir string
	fetch   bool
	json    string
	target  string
	uid     int
	fifo    bool
	booted  bool
}

func main() {
	mode, args := "start", os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	o := options{uid: os.Getuid()}
	flags := flag.NewFlagSet("bench "+mode, flag.ExitOnError)
	flags.IntVar(&o.rounds, "rounds", 0, "counted rounds (start and grow 200, inside 30)")
	flags.StringVar(&o.peerDir, "peers", "", "directory with peers that are not in PATH")
	fetch := flags.String("fetch", "", "install the peers that are missing into this directory first, and look there as -peers does")
	flags.StringVar(&o.json, "json", "", "write the results to this file as well")
	flags.StringVar(&o.target, "target", "/usr/bin/true", "the program to start")
	flags.IntVar(&o.uid, "uid", o.uid, "measure as this user; only root can name another one")
	flags.BoolVar(&o.fifo, "fifo", false, "time under SCHED_FIFO (chrt -f 10), for a machine that has other work")
	flags.BoolVar(&o.booted, "booted", false, "empty the page cache first, so that programs are read from the disk as after a boot; root only")
	_ = flags.Parse(args)
	if *fetch != "" {
		o.peerDir, o.fetch = *fetch, true
	}
	modes := map[string]func(*workbench) (any, error){"start": start, "grow": grow, "inside": inside}
	run, known := modes[mode]
	if !known || flags.NArg() > 0 || runtime.GOOS != "linux" {
		fmt.Fprintln(os.Stderr, "usage: bench [start|grow|inside] [flags], on Linux")
		os.Exit(2)
	}
	if err := bench(o, mode, run); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(o options, mode string, run func(*workbench) (any, error)) error {
	wb, err := newWorkbench(o)
	if err != nil {
		return err
	}
	defer os.RemoveAll(wb.dir)
	date := time.Now().Format(time.DateOnly)
	fmt.Printf("%s, %s: %s\n\n", mode, date, wb.machine())
	results, err := run(wb)
	if err != nil || o.json == "" {
		return err
	}
	data, err := json.MarshalIndent(map[string]any{"mode": mode, "date": date, "machine": wb.machine(), "results": results}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(data, '\n'), 0o644)
}

// workbench is the directory of one run, and who measures in it:
//
//	bin/   confinectl, the floors, the stopwatch
//	work/  the read-write directory; commands start here
//	out/   outside; the user may write it when nothing confines him
//	home/ tmp/ codex/  $HOME, $TMPDIR, $CODEX_HOME
type workbench struct {
	options
	dir string
	env []string
}

func newWorkbench(o options) (*workbench, error) {
	if o.uid != os.Getuid() && os.Getuid() != 0 {
		return nil, errors.New("-uid needs root")
	}
	if o.peerDir != "" {
		var err error
		if o.peerDir, err = filepath.Abs(o.peerDir); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	wb := &workbench{options: o, dir: dir}
	if err := wb.furnish(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return wb, nil
}

func (wb *workbench) furnish() error {
	err := os.Chmod(wb.dir, 0o755)
	for _, d := range []string{"bin", "work", "out", "home", "tmp", "codex"} {
		err = errors.Join(err, os.Mkdir(wb.path(d), 0o755))
		if d != "bin" {
			err = errors.Join(err, os.Chown(wb.path(d), wb.uid, wb.uid))
		}
	}
	if err != nil {
		return err
	}
	wb.env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + wb.path("home"), "TMPDIR=" + wb.path("tmp"), "CODEX_HOME=" + wb.path("codex"), "LC_ALL=C"}
	for _, step := range [][]string{
		{"gcc", "-O2", "-static", "-o", wb.bin("c-floor"), "bench/floor/landlock.c"},
		{"gcc", "-O2", "-static", "-o", wb.bin("spawn"), "bench/floor/spawn.c"},
		{"gcc", "-O2", "-static", "-o", wb.bin("ops"), "bench/floor/ops.c"},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", wb.bin("go-floor"), "./bench/floor/exec"},
		{"go", "build", "-trimpath", "-ldflags=-s -w", "-o", wb.bin("confinectl"), "./cmd/confinectl"},
	} {
		cmd := exec.Command(step[0], step[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(step, " "), err, out)
		}
		if _, err := wb.install(step[slices.Index(step, "-o")+1]); err != nil {
			return err
		}
	}
	return nil
}

// install puts a program into bin/ as an installation does, by copying it. A linker writes
// through a mapping, which leaves a program in the page cache in single pages; a copy lies there in
// large ones, and a start of a Go program from it takes up to 0.15 ms less. What is read from the disk
// page by page, after a boot, lies in single pages again: that is what -booted measures.
func (wb *workbench) install(built string) (path string, err error) {
	data, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	path = wb.bin(filepath.Base(built))
	return path, errors.Join(os.WriteFile(path+".new", data, 0o755), os.Rename(path+".new", path))
}

func (wb *workbench) path(name string) string { return filepath.Join(wb.dir, name) }
func (wb *workbench) bin(name string) string  { return wb.path("bin/" + name) }
func (wb *workbench) work() string            { return wb.path("work") }

// profile writes a profile below the workbench, NAME.toml or NAME.d/PART.toml.
func (wb *workbench) profile(name, text string) error {
	file := wb.path(name)
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
}

// handOver gives a tree to the user who measures.
func (wb *workbench) handOver(root string) error {
	return filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, wb.uid, wb.uid))
	})
}

// command is one that the user who measures runs in work/.
func (wb *workbench) command(argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = wb.work(), wb.env
	if wb.uid != os.Getuid() {
		id := uint32(wb.uid)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id, Groups: []uint32{}}}
	}
	return cmd
}

// spawn hands the commands to the stopwatch and gives its samples by command. A
// command with every N runs in every Nth round only.
func (wb *workbench) spawn(rounds, warmUp int, every []int, commands ...[]string) ([][]sample, error) {
	var text strings.Builder
	for i, argv := range commands {
		n := 1
		if every != nil {
			n = every[i]
		}
		fmt.Fprintf(&text, "%d\t%s\n", n, strings.Join(argv, "\t"))
	}
	list := wb.path("commands")
	if err := os.WriteFile(list, []byte(text.String()), 0o644); err != nil {
		return nil, err
	}
	argv := []string{wb.bin("spawn"), list, strconv.Itoa(rounds), strconv.Itoa(warmUp)}
	if wb.uid != os.Getuid() {
		argv = append(argv, strconv.Itoa(wb.uid))
	}
	if wb.fifo {
		argv = append([]string{"chrt", "-f", "10"}, argv...)
	}
	if wb.booted {
		syscall.Sync()
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3\n"), 0); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stderr = wb.work(), wb.env, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("stopwatch: %w", err)
	}
	return readSamples(string(out), commands)
}

// must runs commands that have to work before they are timed.
func (wb *workbench) must(commands ...[]string) error {
	for _, argv := range commands {
		if out, err := wb.command(argv...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, firstLine(out))
		}
	}
	return nil
}

func (wb *workbench) confinectl(args ...string) []string {
	return append([]string{wb.bin("confinectl")}, args...)
}

func (wb *workbench) machine() string {
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if v, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(v, "\t :"))
				break
			}
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	scheduler := ""
	if wb.fifo {
		scheduler = ", SCHED_FIFO"
	}
	state := ""
	if wb.booted {
		state = ", programs read from the disk"
	}
	return fmt.Sprintf("%s, %d CPUs, Linux %s, %s, uid %d%s%s", model, runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version(), wb.uid, scheduler, state)
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
