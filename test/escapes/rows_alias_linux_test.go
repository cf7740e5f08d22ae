package escapes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// appeared is the effect of a row whose preparation or step changes the outside too.
func appeared(name string) func(fx *fixture) (bool, error) {
	return func(fx *fixture) (bool, error) {
		_, err := os.Lstat(fx.dir + "/" + name)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil, err
	}
}

// differs is the effect of a write to a file of the fixture.
func differs(name string) func(fx *fixture) (bool, error) {
	return func(fx *fixture) (bool, error) {
		b, err := os.ReadFile(fx.dir + "/" + name)
		return string(b) != "original\n", err
	}
}

// aliasRows show one directory under two names.
func aliasRows() []*row {
	alias := func(source string, permit bool) func(fx *fixture) error {
		return func(fx *fixture) error {
			if permit {
				fx.permit = fx.dir + "/alias"
			}
			return fx.bind(fx.dir+"/"+source, fx.dir+"/alias")
		}
	}
	cover := func(fx *fixture) error { return fx.mount("t", fx.dir+"/in", "tmpfs", 0, "mode=0777") }
	overlay := func(permit string) func(fx *fixture) error {
		return func(fx *fixture) error {
			for _, d := range []string{"ov", "ov/lower", "ov/lower/d", "ov/upper", "ov/upper/d", "ov/work", "merged"} {
				if err := os.Mkdir(fx.dir+"/"+d, 0o755); err != nil {
					return err
				}
				if err := fx.own(fx.dir + "/" + d); err != nil {
					return err
				}
			}
			for _, f := range []string{"ov/lower/d/f", "ov/lower/d/g"} {
				if err := os.WriteFile(fx.dir+"/"+f, []byte("original\n"), 0o644); err != nil {
					return err
				}
				if err := fx.own(fx.dir + "/" + f); err != nil {
					return err
				}
			}
			fx.permit = fx.dir + "/" + permit
			return fx.mount("o", fx.dir+"/merged", "overlay", 0, fmt.Sprintf("lowerdir=%[1]s/ov/lower,upperdir=%[1]s/ov/upper,workdir=%[1]s/ov/work", fx.dir))
		}
	}
	noOverlay := sameBlock("ENODEV EINVAL", "no overlayfs here")
	rs := []*row{
		{name: "alias/mount-before", id: "E12", about: "an outside directory bound into the permit path before launch", kind: limit, want: allowed, changes: content,
			prepare: func(fx *fixture) error { return fx.bind(fx.out("sub"), fx.in("mp")) },
			try:     func(a *attempt) error { return write(a.in("mp/f"), 0) }},
		{name: "alias/mount-after", id: "E12", about: "the same after launch", kind: limit, want: allowed, changes: content,
			step: func(fx *fixture) error { return fx.bind(fx.out("sub"), fx.in("mp")) },
			try: func(a *attempt) error {
				if err := a.ask(); err != nil {
					return err
				}
				return write(a.in("mp/f"), 0)
			}},
		{name: "alias/permit-path", about: "another name of the permit path: the same directory", kind: works, want: allowed, prepare: alias("in", false), effect: appeared("in/made"),
			try: func(a *attempt) error { return write(a.dir+"/alias/made", unix.O_CREAT) }},
		{name: "alias/sub-directory", about: "another name of a directory in the permit path, at a mount point outside: tighter than one would think", kind: held, want: eacces, prepare: alias("in/sub", false), effect: appeared("in/sub/made"),
			try: func(a *attempt) error { return write(a.dir+"/alias/made", unix.O_CREAT) }},
		{name: "alias/named", about: "a permit path that names the alias: the real name works too", kind: works, want: allowed, prepare: alias("in", true), effect: appeared("in/made"),
			try: func(a *attempt) error {
				if err := write(a.dir+"/alias/f", 0); err != nil {
					return err
				}
				return write(a.in("made"), unix.O_CREAT)
			}},
		{name: "alias/disconnected", id: "E14", about: "alias permitted, directory moved out of its source, working directory still in it: kernels differ", kind: limit, want: both(always("allowed|denied EACCES")), prepare: alias("in", true), effect: appeared("out/moved/made"),
			step: func(fx *fixture) error { return os.Rename(fx.in("sub"), fx.out("moved")) },
			try: func(a *attempt) error {
				if err := unix.Chdir(a.dir + "/alias/sub"); err != nil {
					return err
				}
				if err := a.ask(); err != nil {
					return err
				}
				return write("made", unix.O_CREAT)
			}},
		{name: "alias/covered", about: "a tmpfs mounted over the permit path after launch, by name", kind: held, want: eacces, step: cover, effect: appeared("in/made"),
			try: func(a *attempt) error {
				if err := a.ask(); err != nil {
					return err
				}
				return write(a.in("made"), unix.O_CREAT)
			}},
		{name: "alias/covered-cwd", about: "the same by the old working directory", kind: works, want: allowed, step: cover,
			try: func(a *attempt) error {
				if err := unix.Chdir(a.in("")); err != nil {
					return err
				}
				if err := a.ask(); err != nil {
					return err
				}
				return write("made", unix.O_CREAT)
			}},
		{name: "overlay/merged", about: "permit path in an overlay: copy up and create", kind: works, want: allowed, prepare: overlay("merged/d"), blocked: noOverlay, effect: appeared("ov/upper/d/f"),
			try: func(a *attempt) error { return write(a.dir+"/merged/d/f", 0) }},
		{name: "overlay/upper", about: "the upper layer below it", kind: held, want: eacces, prepare: overlay("merged/d"), blocked: noOverlay, effect: appeared("ov/upper/d/made"),
			try: func(a *attempt) error { return write(a.dir+"/ov/upper/d/made", unix.O_CREAT) }},
		{name: "overlay/lower", about: "the lower layer below it", kind: held, want: eacces, prepare: overlay("merged/d"), blocked: noOverlay, effect: differs("ov/lower/d/f"),
			try: func(a *attempt) error { return write(a.dir+"/ov/lower/d/f", 0) }},
		{name: "overlay/from-upper", about: "the merged view of a permitted upper layer", kind: held, want: eacces, prepare: overlay("ov/upper/d"), blocked: noOverlay, effect: appeared("ov/upper/d/g"),
			try: func(a *attempt) error { return write(a.dir+"/merged/d/g", 0) }},
	}
	for _, r := range rs {
		r.rootFixture = true
	}
	return rs
}

// moveRows have somebody outside move directories while the program runs.
func moveRows() []*row {
	subOut := func(fx *fixture) error { return os.Rename(fx.in("sub"), fx.out("moved")) }
	permitOut := func(fx *fixture) error { return os.Rename(fx.dir+"/in", fx.out("moved")) }
	replaced := func(fx *fixture) error {
		if err := os.Rename(fx.dir+"/in", fx.dir+"/in.old"); err != nil {
			return err
		}
		if err := os.Mkdir(fx.dir+"/in", 0o755); err != nil {
			return err
		}
		return fx.own(fx.dir + "/in")
	}
	// then opens a directory and a file in it, waits, and does the rest.
	then := func(dir string, rest func(a *attempt, dirfd, keep int) error) func(a *attempt) error {
		return func(a *attempt) error {
			if err := unix.Chdir(a.in(dir)); err != nil {
				return err
			}
			dirfd, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				return err
			}
			keep, err := unix.Open(a.in("sub/keep"), unix.O_RDWR, 0)
			if err != nil {
				return err
			}
			if err := a.ask(); err != nil {
				return err
			}
			return rest(a, dirfd, keep)
		}
	}
	return []*row{
		{name: "move/sub-cwd", about: "directory moved out of the permit path: create by the old working directory", kind: held, want: eacces, step: subOut, effect: appeared("out/moved/made"),
			try: then("sub", func(*attempt, int, int) error { return write("made", unix.O_CREAT) })},
		{name: "move/sub-descriptor", about: "create by a descriptor of it", kind: held, want: eacces, step: subOut, effect: appeared("out/moved/made"),
			try: then("sub", func(_ *attempt, dirfd, _ int) error { return writeAt(dirfd, "made", unix.O_CREAT) })},
		{name: "move/sub-write", about: "write to a file in it by the old working directory", kind: held, want: eacces, step: subOut, effect: differs("out/moved/keep"),
			try: then("sub", func(*attempt, int, int) error { return write("keep", 0) })},
		{name: "move/sub-unlink", about: "unlink a file in it by the old working directory", kind: held, want: eacces, step: subOut,
			effect: func(fx *fixture) (bool, error) { return gone(fx.out("moved/keep")) },
			try:    then("sub", func(*attempt, int, int) error { return unix.Unlink("keep") })},
		{name: "move/sub-open-file", about: "write to a file in it that is still open", kind: limit, want: allowed, step: subOut, effect: differs("out/moved/keep"),
			try: then("sub", func(_ *attempt, _, keep int) error {
				_, err := unix.Write(keep, []byte("X"))
				return err
			})},
		{name: "move/permit-path", id: "E13", about: "permit path moved: the grant follows the directory", kind: limit, want: allowed, step: permitOut, effect: appeared("out/moved/made"),
			try: then("", func(a *attempt, _, _ int) error { return write(a.out("moved/made"), unix.O_CREAT) })},
		{name: "move/permit-path-cwd", id: "E13", about: "the same by the old working directory", kind: limit, want: allowed, step: permitOut, effect: appeared("out/moved/made"),
			try: then("", func(*attempt, int, int) error { return write("made", unix.O_CREAT) })},
		{name: "move/replaced", about: "permit path replaced by a new directory: by name", kind: held, want: eacces, step: replaced, effect: appeared("in/made"),
			try: then("", func(a *attempt, _, _ int) error { return write(a.in("made"), unix.O_CREAT) })},
		{name: "move/replaced-old", about: "in the old directory", kind: limit, want: allowed, step: replaced, effect: appeared("in.old/made"),
			try: then("", func(*attempt, int, int) error { return write("made", unix.O_CREAT) })},
	}
}

// profileRows are profiles that would widen themselves or say too much: a
// refusal, and nothing runs.
func profileRows() []*row {
	refused := func(code string) [2]expect { return both(always("refused " + code)) }
	permit := func(path func(fx *fixture) string) func(fx *fixture) string {
		return func(fx *fixture) string {
			return fmt.Sprintf("permit_path = %q\nread_paths = [%q]\n", path(fx), fx.h.bin)
		}
	}
	extra := func(path func(fx *fixture) string) func(fx *fixture) string {
		return func(fx *fixture) string {
			return fx.profile() + fmt.Sprintf("permit_extra_subpaths = [%q]\n", path(fx))
		}
	}
	literally := func(path string) func(fx *fixture) string { return func(*fixture) string { return path } }
	below := func(name string) func(fx *fixture) string {
		return func(fx *fixture) string { return strings.TrimSuffix(fx.dir+"/"+name, "/") }
	}
	outside := func(a *attempt) error { return write(a.out("f"), 0) }
	rewrite := func(a *attempt) error {
		return os.WriteFile(a.dir+"/in-prof/p.toml", []byte("permit_path = \"/\"\n"), 0o644)
	}
	scratch := func(fx *fixture, name string) (string, error) {
		root := fx.dir + "/tmp"
		mine := fmt.Sprintf("%s/confinectl-%d", root, fx.uid())
		for dir, mode := range map[string]os.FileMode{root: 0o777 | os.ModeSticky, mine: 0o700} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return "", err
			}
			if err := os.Chmod(dir, mode); err != nil {
				return "", err
			}
			if err := fx.own(dir); err != nil {
				return "", err
			}
		}
		fx.setenv("TMPDIR", root)
		return mine + "/" + name, nil
	}
	privateTmp := func(fx *fixture) string { return fx.profile() + "private_tmp = true\n" }
	tmp := func(name string) string {
		return fmt.Sprintf("%s/confinectl-%d/%s", os.Getenv("TMPDIR"), os.Getuid(), name)
	}
	return []*row{
		{name: "profile/root", id: "E19", about: "/ as permit path", kind: closed, want: refused("permit-root"), changes: content, profile: permit(literally("/")), try: outside},
		{name: "profile/root-slashes", id: "E19", about: "// as permit path", kind: closed, want: refused("permit-root"), changes: content, profile: permit(literally("//")), try: outside},
		{name: "profile/root-proc", id: "E19", about: "/proc/self/root as permit path", kind: closed, want: refused("permit-root"), changes: content, profile: permit(literally("/proc/self/root")), try: outside},
		{name: "profile/root-link", id: "E19", about: "a symlink to / as permit path", kind: closed, want: refused("permit-root"), changes: content,
			prepare: func(fx *fixture) error { return os.Symlink("/", fx.dir+"/link") }, profile: permit(below("link")), try: outside},
		{name: "profile/root-bind", id: "E19", about: "/ bound elsewhere as permit path", kind: closed, want: refused("permit-root"), changes: content, rootFixture: true,
			prepare: func(fx *fixture) error {
				if err := fx.bind("/", fx.dir+"/alias"); err != nil {
					return err
				}
				// Read-only, so that no slip of this harness can reach the host through it.
				return unix.Mount("", fx.dir+"/alias", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
			},
			profile: permit(below("alias")), try: outside},
		{name: "profile/root-extra", id: "E19", about: "/ as extra subpath", kind: closed, want: refused("permit-root"), changes: content, profile: extra(literally("/")), try: outside},
		{name: "profile/contains", id: "E20", about: "permit path contains the profile directory: rewrite the profile", kind: closed, want: refused("self-widening"), changes: content, profile: permit(below("")), try: rewrite},
		{name: "profile/is", id: "E20", about: "permit path is the profile directory", kind: closed, want: refused("self-widening"), changes: content, profile: permit(below("in-prof")), try: rewrite},
		{name: "profile/extra", id: "E20", about: "an extra subpath is the profile directory", kind: closed, want: refused("self-widening"), changes: content, profile: extra(below("in-prof")), try: rewrite},
		{name: "profile/bind", id: "E20", about: "permit path is the profile directory by another name (bind mount)", kind: closed, want: refused("self-widening"), changes: content, rootFixture: true,
			prepare: func(fx *fixture) error { return fx.bind(fx.dir+"/in-prof", fx.dir+"/alias") }, profile: permit(below("alias")), try: rewrite},
		{name: "profile/on-the-way", id: "E20", about: "the profile directory is reached through a symlink in the permit path: replace the link", kind: closed, want: refused("self-widening"),
			prepare: func(fx *fixture) error {
				fx.profiles = fx.in("link")
				return errors.Join(os.Symlink(fx.dir+"/in-prof", fx.in("link")), fx.own(fx.in("link")))
			},
			try: func(a *attempt) error { return unix.Unlink(a.in("link")) }},
		{name: "profile/file-link", id: "E20", about: "the profile is a symlink to a file in the permit path: rewrite it", kind: closed, want: refused("self-widening"),
			prepare: func(fx *fixture) error {
				return errors.Join(os.WriteFile(fx.in("p.toml"), nil, 0o644), fx.own(fx.in("p.toml")), os.Symlink(fx.in("p.toml"), fx.dir+"/in-prof/p.toml"))
			},
			try: func(a *attempt) error { return write(a.in("p.toml"), 0) }},
		{name: "profile/drop-in-link", id: "E20", about: "a drop-in is a symlink to a file in the permit path: rewrite it", kind: closed, want: refused("self-widening"),
			prepare: func(fx *fixture) error {
				dir := fx.dir + "/in-prof/p.d"
				return errors.Join(os.WriteFile(fx.in("x.toml"), []byte("read_paths = [\"/etc\"]\n"), 0o644), fx.own(fx.in("x.toml")),
					os.Mkdir(dir, 0o755), os.Symlink(fx.in("x.toml"), dir+"/x.toml"), fx.own(dir, dir+"/x.toml"))
			},
			try: func(a *attempt) error { return write(a.in("x.toml"), 0) }},
		{name: "profile/hard-link", id: "E11", about: "the profile has a hard link in the permit path: rewrite it", kind: limit, want: allowed, changes: content,
			prepare: func(fx *fixture) error {
				return errors.Join(os.WriteFile(fx.in("p.toml"), nil, 0o644), os.Link(fx.in("p.toml"), fx.dir+"/in-prof/p.toml"))
			},
			try: func(a *attempt) error { return write(a.in("p.toml"), 0) }},
		{name: "profile/binary", id: "E20", about: "confinectl itself lies in the permit path: replace it", kind: closed, want: refused("self-widening"),
			prepare: func(fx *fixture) error {
				fx.binary = fx.in("confinectl")
				program, err := os.ReadFile(fx.h.bin + "/confinectl")
				if err != nil {
					return err
				}
				return errors.Join(os.WriteFile(fx.binary, program, 0o755), fx.own(fx.binary))
			},
			try: func(a *attempt) error { return unix.Unlink(a.in("confinectl")) }},
		{name: "profile/relative", about: "\"../in-evil\" as extra subpath", kind: closed, want: refused("path-relative"), changes: content, profile: extra(literally("../in-evil")),
			try: func(a *attempt) error { return write(a.dir+"/in-evil/f", 0) }},
		{name: "profile/floor", about: "a floor above this kernel's ABI", kind: closed, want: both(always("refused abi-below-floor|refused profile-value")), changes: content,
			prepare: func(fx *fixture) error { fx.floor = fx.h.abi + 1; return nil }, try: outside},
		{name: "profile/cd-outside", about: "--cd to the outside", kind: closed, want: refused("cd-outside"), changes: content,
			prepare: func(fx *fixture) error { fx.flags = []string{"--cd", fx.dir + "/out"}; return nil },
			try:     func(*attempt) error { return write("f", 0) }},
		{name: "scratch/planted-link", about: "a symlink to the outside where the private temporary directory goes", kind: closed, want: refused("scratch-unfit"), changes: content, profile: privateTmp,
			prepare: func(fx *fixture) error {
				link, err := scratch(fx, "p")
				return errors.Join(err, os.Symlink(fx.dir+"/out", link), fx.own(link))
			},
			try: func(*attempt) error { return write(tmp("p/f"), 0) }},
		{name: "scratch/other-profile", about: "the private temporary directory of another profile", kind: held, want: eacces, profile: privateTmp,
			prepare: func(fx *fixture) error {
				dir, err := scratch(fx, "q")
				return errors.Join(err, os.Mkdir(dir, 0o700), fx.own(dir))
			},
			effect: func(fx *fixture) (bool, error) {
				return appeared(fmt.Sprintf("tmp/confinectl-%d/q/made", fx.uid()))(fx)
			},
			try: func(a *attempt) error {
				return write(fmt.Sprintf("%s/tmp/confinectl-%d/q/made", a.dir, os.Getuid()), unix.O_CREAT)
			}},
	}
}
