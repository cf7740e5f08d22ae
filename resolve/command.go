package resolve

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// Command is the program that will be run, found the way execvp(3) finds it.
type Command struct {
	Argv []string // as typed; Argv[0] is what the program sees as its name

	// Path is what is handed to execve(2): the real file for a program, but the
	// path it was found by for a script, because the kernel passes that to the
	// interpreter as $0, and scripts that answer to several names look at it. On macOS
	// always the path it was found by: sandbox-exec makes it argv[0], and
	// programs that answer to several names look at that. Empty when nothing was found.
	Path string

	// Relative says that Argv[0] leads to Path only from the caller's directory:
	// it has a slash and is relative, or was found by a relative entry of PATH.
	Relative bool

	// Missing says why there is nothing to run ("not found in PATH"); the
	// launcher ends with status 127. Empty when Path is set.
	Missing string

	// Doubt says what the system will object to although Path exists ("its
	// interpreter /opt/x does not exist"); the launcher still lets the system speak
	// first, and ends with status 126.
	Doubt string
}

// Limits of execve(2): how much of a file the kernel reads to recognise it, and
// how often an interpreter may be a script itself.
const (
	execHead  = 256
	maxScript = 5
)

// command finds the program and grants it, its #! interpreters and its ELF
// interpreter. A program that cannot be found is no refusal: it reaches the
// exec and earns the system's own error.
func (s *resolver) command() {
	argv := s.request.Command
	if argv == nil {
		return
	}
	c := &Command{Argv: argv}
	s.b.command = c
	if s.facts.OnPaper { // whatever it is there, it is looked up there
		if c.Path = argv[0]; c.Path == "" {
			c.Missing = "the command is an empty string"
		}
		return
	}
	path, _ := s.facts.Getenv("PATH")
	found, relative, why := s.find(argv[0], path, s.facts.Cwd)
	if why != "" {
		c.Missing = why
		return
	}
	c.Relative = relative
	t, err := s.walker.Walk(found)
	switch {
	case err != nil && err != syscall.ENOTDIR && err != syscall.ENOENT:
		c.Path, c.Doubt = found, errText(err)
		return
	case err != nil || t.Rest != "":
		c.Missing = "no such file: " + found
		return
	}
	c.Path = t.Real
	switch {
	case t.Stat.Mode.IsDir():
		c.Doubt = "is a directory"
	case !t.Stat.Mode.IsRegular():
		c.Doubt = "is " + kindName(t.Stat.Mode) + ", not a program"
	case s.executable(t, "command "+argv[0], c, 0, s.planted(t)), s.facts.OS == "darwin":
		c.Path = found
	}
}

// find looks a name up like execvp(3): a name with a slash is a path of the
// caller's; any other is searched in PATH, where an entry that exists but may
// not be executed is passed over and kept for the case that there is no better one.
func (s *resolver) find(name, path, cwd string) (found string, relative bool, why string) {
	if name == "" {
		return "", false, "the command is an empty string"
	}
	here := func(path string) string {
		if strings.HasPrefix(path, "/") {
			return path
		}
		return strings.TrimRight(cwd, "/") + "/" + path
	}
	if strings.Contains(name, "/") {
		return here(name), name[0] != '/', ""
	}
	if path == "" {
		if _, set := s.facts.Getenv("PATH"); !set {
			path = "/bin:/usr/bin" // what execvp(3) takes
		}
	}
	second := ""
	for dir := range strings.SplitSeq(path, ":") {
		if dir == "" {
			dir = "."
		}
		candidate := strings.TrimRight(here(dir), "/") + "/" + name
		var st syscall.Stat_t
		if err := ignoringEINTR(func() error { return syscall.Stat(candidate, &st) }); err != nil {
			continue
		}
		if st.Mode&syscall.S_IFMT == syscall.S_IFREG && syscall.Access(candidate, 1) == nil {
			return candidate, dir[0] != '/', ""
		}
		if second == "" {
			second, relative = candidate, dir[0] != '/'
		}
	}
	if second != "" {
		return second, relative, ""
	}
	return "", false, "not found in PATH"
}

// executable grants a file that will be executed and whatever the kernel
// executes to run it. It reports whether the file is a script.
//
// named says that the confined program could have written what names the
// file: a script of its own, or a link in one of its roots. Such a file gets no rule, or the
// program would choose what its next start may read; it is executed where other
// rules reach it.
func (s *resolver) executable(t *Trail, why string, c *Command, depth int, named bool) (script bool) {
	return s.grantExecutable(t, why, c, depth, named) && s.interpreters(t, c, depth, named || s.planted(t))
}

// grantExecutable grants a file that will be executed, and reports whether it did.
func (s *resolver) grantExecutable(t *Trail, why string, c *Command, depth int, named bool) bool {
	if syscall.Access(t.Real, 1) != nil {
		// Not granted: the program inside may have written the line that names
		// it, and would get a file to read that nobody can execute.
		if depth > 0 {
			c.doubt("its interpreter " + t.Real + " is not executable")
		} else {
			c.doubt(t.Real + " is not executable")
		}
		return false
	}
	if !named {
		s.grant(Rule{Path: t.Real, Kind: RegularFile, Access: Read | Execute, ID: t.Stat.ID}, Value{why, Origin{File: "command"}})
	} else if !s.reaches(t.Real, Read|Execute) {
		c.doubt(t.Real + " is not granted: what names it lies where the command may write; read_paths can grant it")
		return false
	}
	return true
}

// interpreters grants what the kernel executes to run a file, and reports whether
// that is a script.
func (s *resolver) interpreters(t *Trail, c *Command, depth int, named bool) bool {
	f, err := open(t.Real)
	if err != nil {
		return false // execute-only: what it needs cannot be learned
	}
	defer syscall.Close(int(f))
	var room [1024]byte // the program headers and the name of the ELF interpreter mostly lie in it
	head := room[:f.readAt(room[:], 0)]
	if len(head) >= 2 && head[0] == '#' && head[1] == '!' {
		interpreter, argument := shebang(head[:min(len(head), execHead)])
		s.script(interpreter, t.Real, c, depth+1, named)
		if argument != "" && interpreter[strings.LastIndexByte(interpreter, '/')+1:] == "env" {
			path, _ := s.facts.Getenv("PATH")
			for _, v := range s.b.env {
				if v.Name == "PATH" {
					path = v.Value
				}
			}
			if name := envCommand(argument); name != "" {
				found, _, missing := s.find(name, path, s.b.dir)
				if missing != "" {
					c.doubt("its interpreter " + name + ": " + missing)
				} else {
					s.script(found, t.Real, c, depth+1, named)
				}
			}
		}
		return true
	}
	if s.facts.OS == "darwin" {
		switch {
		case machO(head):
			s.runtimeRule("/usr/lib/dyld", Read|Execute, RegularFile, "/usr/lib/dyld: loads every program")
		default:
			c.doubt(t.Real + " is in no format that macOS runs: a script needs a #! line, a binary a Mach-O header")
		}
		return false
	}
	if interpreter := elfInterpreter(f, head); interpreter != "" {
		// The kernel runs it as it stands: an interpreter that its own headers name is not looked at.
		if i := s.interpreter(interpreter, c); i != nil {
			s.grantExecutable(i, "interpreter of "+t.Real, c, depth+1, named)
		}
	}
	return false
}

func (c *Command) doubt(why string) {
	if c.Doubt == "" {
		c.Doubt = why
	}
}

// script grants the interpreter of a script, which may be a script itself.
func (s *resolver) script(interpreter, of string, c *Command, depth int, named bool) {
	t := s.interpreter(interpreter, c)
	switch {
	case t == nil:
	case depth > maxScript:
		c.doubt("its interpreters are scripts more than " + strconv.Itoa(maxScript) + " deep")
	default:
		s.executable(t, "interpreter of "+of, c, depth, named)
	}
}

// interpreter walks to an interpreter; nil: it cannot be one.
func (s *resolver) interpreter(path string, c *Command) *Trail {
	if !strings.HasPrefix(path, "/") {
		path = below(s.b.dir, path) // the kernel starts at the working directory
	}
	t, err := s.walker.Walk(path)
	switch {
	case err != nil:
		c.doubt("its interpreter " + path + ": " + errText(err))
	case t.Rest != "":
		c.doubt("its interpreter " + path + " does not exist")
	case !t.Stat.Mode.IsRegular():
		c.doubt("its interpreter " + path + " is " + kindName(t.Stat.Mode))
	default:
		return t
	}
	return nil
}

// planted reports whether the confined program could have made the end of a
// way, or a link on it.
func (s *resolver) planted(t *Trail) bool {
	for root := range s.trails {
		if slices.ContainsFunc(t.Hops, func(h Hop) bool {
			return within(h.Path, root) && (h.Path != root || s.rules[root].Kind != Directory)
		}) {
			return true
		}
	}
	return false
}

// reaches reports whether the rules at and above a path grant the access.
func (s *resolver) reaches(path string, a Access) bool {
	var have Access
	for dir := path; ; dir = parent(dir) {
		if r := s.rules[dir]; r != nil && (dir == path || r.Kind == Directory) {
			have |= r.Access
		}
		if dir == "/" {
			return have.Has(a)
		}
	}
}

// shebang takes a first line apart the way the kernel does (binfmt_script):
// the interpreter, and all that follows as one argument.
func shebang(head []byte) (interpreter, argument string) {
	line := string(head[2:])
	if i := strings.IndexAny(line, "\n\x00"); i >= 0 {
		line = line[:i]
	}
	line = strings.Trim(line, " \t")
	interpreter, argument, _ = strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	return interpreter, strings.Trim(argument, " ")
}

// envCommand finds the program in the argument of "#!/usr/bin/env ARGUMENT":
// past "-S", assignments, and the options of env(1) that are known. After an
// unknown option nothing is found, and so nothing granted: its value could be taken for the
// program, and a script could have a file granted that env never executes.
func envCommand(argument string) string {
	value := false
	for word := range strings.FieldsSeq(argument) {
		word = strings.TrimPrefix(strings.TrimPrefix(word, "--split-string="), "-S")
		if strings.ContainsAny(word, "'\"\\$#") {
			return "" // env has rules of its own for these
		}
		switch {
		case value:
			value = false
		case word == "-u" || word == "--unset" || word == "-C" || word == "--chdir":
			value = true
		case word == "" || word == "-" || word == "-i" || word == "--ignore-environment" || word == "-v" || word == "--debug":
		case strings.HasPrefix(word, "--unset=") || strings.HasPrefix(word, "--chdir="):
		case strings.HasPrefix(word, "-"):
			return ""
		case strings.Contains(word, "="):
		default:
			return word
		}
	}
	return ""
}

// elfInterpreter reads PT_INTERP of an ELF file, elf(5); "" for a static
// program and for anything that is not ELF. It is written out here because
// debug/elf reads the section table as well, and brings compression and DWARF into
// a program that should start fast.
func elfInterpreter(f descriptor, head []byte) string {
	if len(head) < 64 || string(head[:4]) != "\x7fELF" {
		return ""
	}
	wide, big := head[4] == 2, head[5] == 2
	// number is the one of so many bytes. package binary would move what it reads to the heap.
	number := func(from []byte, bytes int) (n int64) {
		for i := range bytes {
			at := i
			if !big {
				at = bytes - 1 - i
			}
			n = n<<8 | int64(from[at])
		}
		return n
	}
	var phoff, size, count int64
	if wide {
		phoff, size, count = number(head[32:], 8), number(head[54:], 2), number(head[56:], 2)
	} else {
		phoff, size, count = number(head[28:], 4), number(head[42:], 2), number(head[44:], 2)
	}
	if wide && size < 56 || !wide && size < 32 || phoff < 0 || size*count > 1<<16 { // load_elf_phdrs of the kernel takes no larger table
		return ""
	}
	part := func(off, n int64) []byte {
		if off <= int64(len(head))-n {
			return head[off:][:n]
		}
		buf := make([]byte, n)
		return buf[:f.readAt(buf, off)]
	}
	table := part(phoff, size*count)
	table = table[:len(table)-len(table)%int(size)]
	for ; len(table) > 0; table = table[size:] {
		if number(table, 4) != 3 { // PT_INTERP
			continue
		}
		var off, length int64
		if wide {
			off, length = number(table[8:], 8), number(table[32:], 8)
		} else {
			off, length = number(table[4:], 4), number(table[16:], 4)
		}
		if off < 0 || length < 2 || length > maxPath {
			return ""
		}
		text, _, _ := strings.Cut(string(part(off, length)), "\x00")
		return text
	}
	return ""
}

// machO reports whether a file begins like a program of macOS, thin or for
// several processors; mach-o/loader.h, mach-o/fat.h. Nothing else in it has to be
// read: the kernel takes no other loader than /usr/lib/dyld, and what dyld
// opens is in the runtime read set. Whether this machine's processor is among
// those in the file is left to the kernel.
func machO(head []byte) bool {
	if len(head) < 4 {
		return false
	}
	switch binary.BigEndian.Uint32(head) {
	case 0xfeedface, 0xfeedfacf, 0xcefaedfe, 0xcffaedfe, 0xcafebabe, 0xcafebabf:
		return true
	}
	return false
}

// descriptor is an open file without the poller of package os, whose first
// use costs a launch four system calls and often a thread.
type descriptor int

func open(path string) (d descriptor, err error) {
	err = ignoringEINTR(func() error {
		fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
		d = descriptor(fd)
		return err
	})
	return d, err
}

// readAt fills buf as far as the file goes and says how far that was.
func (d descriptor) readAt(buf []byte, off int64) int {
	done := 0
	for done < len(buf) {
		n, err := syscall.Pread(int(d), buf[done:], off+int64(done))
		if err == syscall.EINTR {
			continue
		}
		if n <= 0 {
			break
		}
		done += n
	}
	return done
}
