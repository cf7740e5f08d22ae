package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/resolve"
)

// A Prober measures boundaries, any number of them and several at a time. It
// holds what they share: processes to be attacked, an abstract socket, and the controls
// that do not depend on a profile. [Prober.Close] ends it.
type Prober struct {
	o        Options
	value    string // of the environment variable
	program  []string
	null     *os.File
	abstract int
	name     string // of the abstract socket
	once     map[string]string
	seats    chan *bystander
}

// bystander is a process outside, one for each boundary that is measured at a time:
// a process can have one tracer only.
type bystander struct {
	process *os.Process
	in      *os.File
}

// programs are tried in this order for the control "run a program".
var programs = [...][]string{{"/bin/sh", "-c", ":"}, {"/bin/true"}, {"/usr/bin/true"}, {"/usr/bin/env", "true"}}

// New starts what measuring needs, and does the controls that do not depend on
// a profile.
func New(o Options) (p *Prober, err error) {
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
	o.Parallel = max(o.Parallel, 1)
	p = &Prober{o: o, abstract: -1, once: map[string]string{}, seats: make(chan *bystander, o.Parallel)}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	name, err := randomName()
	if err != nil {
		return nil, err
	}
	p.value, p.name = name[len(Prefix):], name[1:]
	if p.null, err = os.OpenFile(os.DevNull, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	if p.abstract, err = listen("@" + p.name); err != nil {
		p.abstract = -1 // its control says so
	}
	a := &attempt{null: p.null, control: true}
	p.program = []string{o.Self}
	for _, argv := range programs {
		if a.runs(argv) == nil {
			p.program = argv
			break
		}
	}
	for range o.Parallel {
		b, err := p.bystander()
		if err != nil {
			return nil, fmt.Errorf("starting a process to be attacked: %w", err)
		}
		p.seats <- b
	}
	p.controlsOnce()
	return p, nil
}

// Close ends the processes of the Prober.
func (p *Prober) Close() {
	close(p.seats)
	for b := range p.seats {
		b.in.Close()
		_, _ = b.process.Wait()
	}
	if p.abstract >= 0 {
		unix.Close(p.abstract)
	}
	if p.null != nil {
		p.null.Close()
	}
}

// Command is the command that a boundary has to be resolved with to be measured.
func (p *Prober) Command() []string { return append([]string{p.o.Self}, p.o.Entry...) }

// Variable is what has to be in the environment that a boundary is resolved with.
func (p *Prober) Variable() string { return variable + "=" + p.value }

// bystander starts one, and waits until it is ready.
func (p *Prober) bystander() (*bystander, error) {
	jobR, jobW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer jobR.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		jobW.Close()
		return nil, err
	}
	defer outR.Close()
	process, err := os.StartProcess(p.o.Self, p.Command(), &os.ProcAttr{Files: []*os.File{p.null, p.null, p.null, jobR, outW}})
	outW.Close()
	if err == nil {
		if err = sendJob(jobW, job{Role: roleBystander}); err == nil {
			_, err = bufio.NewReader(outR).ReadBytes('\n')
		}
		if err != nil {
			_ = process.Kill()
			_, _ = process.Wait()
		}
	}
	if err != nil {
		jobW.Close()
		return nil, err
	}
	return &bystander{process, jobW}, nil
}

// controlsOnce does the controls of the rows that do not depend on a profile.
func (p *Prober) controlsOnce() {
	var made *place
	why := "no directory for it can be written"
	for _, path := range p.o.Places {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			real, e := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
			if err = e; err != nil {
				unix.Close(fd)
			} else {
				made, err = makePlace(fd, real, p.program[0])
			}
		}
		if err == nil {
			why = ""
			break
		}
		made, why = nil, path+": "+err.Error()
	}
	defer made.remove()
	seat := <-p.seats
	defer func() { p.seats <- seat }()
	for _, c := range cases {
		if !c.once {
			continue
		}
		if made == nil {
			p.once[c.Key] = why
			continue
		}
		a := p.control(made, seat)
		a.Out, a.MountOn = made.control.path, made.in.path // descriptors mean nothing to a child
		p.once[c.Key] = doControl(a, &c)
	}
}

// control is an attempt that does controls in a place.
func (p *Prober) control(at *place, seat *bystander) *attempt {
	return &attempt{control: true, null: p.null, base: at.base.fd, job: job{
		Self: p.o.Self, Entry: p.o.Entry, Wider: p.o.Wider,
		In: at.in.through(), Out: at.control.through(), OutPath: at.control.path, Dots: at.in.through() + "/../control", LinkTo: "../control",
		Dev: at.dev, Inodes: at.forControl, Bystander: seat.process.Pid, Abstract: p.name, Depth: 3, Value: p.value,
	}}
}

// doControl says why an operation does not work unconfined; "" when it does.
func doControl(a *attempt, c *Case) string {
	if c.kind == works {
		return ""
	}
	got := answerOf(c.Key, onThread(a, attempts()[c.Key]))
	if got.OK {
		return ""
	}
	return got.Text
}

// measurement is one boundary being measured.
type measurement struct {
	*Prober
	plan   *enforce.Plan
	b      *resolve.Boundary
	seat   *bystander
	report Report
	roots  []openRoot
	inside *dir // the probe's own, in the first root that takes it
	at     *place
	job    job
	ended  string // how the probe inside did
}

// openRoot is a read-write root that can be written unconfined.
type openRoot struct {
	rule resolve.Rule
	fd   int
}

// Measure measures one boundary. The plan must come from a boundary that was
// resolved with [Prober.Command] and, in its environment, [Prober.Variable].
//
// Directories that the launcher would make and that are not there are left out of
// the boundary, and the report names them: measuring makes none of them. When ctx
// ends, so does the measurement, and what it made is removed.
func (p *Prober) Measure(ctx context.Context, plan *enforce.Plan) Report {
	var seat *bystander
	select {
	case seat = <-p.seats:
	case <-ctx.Done():
		return Report{Unmeasured: "interrupted"}
	}
	defer func() { p.seats <- seat }()
	ctx, cancel := context.WithTimeout(ctx, p.o.Timeout)
	defer cancel()
	m := &measurement{Prober: p, plan: plan, b: plan.Boundary(), seat: seat}
	m.measure(ctx)
	for _, err := range []error{m.inside.remove(), m.at.remove()} {
		if err != nil {
			m.report.Skipped = append(m.report.Skipped, err.Error())
		}
	}
	for _, r := range m.roots {
		unix.Close(r.fd)
	}
	return m.report
}

func (m *measurement) measure(ctx context.Context) {
	m.openRoots()
	m.job = job{Role: roleInside, Self: m.o.Self, Entry: m.o.Entry, Wider: m.o.Wider, Program: m.program, Depth: 3,
		Bystander: m.seat.process.Pid, Abstract: m.name, Value: m.value, Permit: m.b.PermitPath(), Reopen: fdReopen, Passed: fdPassed, Node: m.node()}
	if m.program[0] == m.o.Self {
		m.job.Program = nil
		m.report.Skipped = append(m.report.Skipped, "running a program: this host has neither /bin/sh nor true")
	}
	m.reads()
	dev := m.makeInside()
	var why string
	if m.at, why = m.outside(m.b, dev); m.at == nil {
		m.unproven(why)
		return
	}
	controls := m.controls()
	if _, err := m.job.line(); err != nil {
		m.unproven(err.Error())
		return
	}
	if ctx.Err() != nil {
		m.report.Unmeasured = "interrupted"
		return
	}
	answers, err := m.attempt(ctx)
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		m.report.Unmeasured = "the probe inside took longer than " + m.o.Timeout.String()
		return
	case ctx.Err() != nil:
		m.report.Unmeasured = "interrupted"
		return
	case err != nil:
		m.report.Unmeasured = "the profile kills the program: it cannot be started: " + err.Error()
		return
	}
	if !m.survived(answers) {
		return
	}
	for _, c := range cases {
		a, ok := answers[c.Key]
		got := &a
		if !ok {
			got = nil
		}
		m.report.Rows = append(m.report.Rows, c.judge(controls[c.Key], got, c.Writes() && m.at.out.changed(&c, m.at.inodes), m.plan.Host().Used))
	}
}

// unproven gives every row the same reason.
func (m *measurement) unproven(why string) {
	for _, c := range cases {
		m.report.Rows = append(m.report.Rows, c.judge(why, nil, false, m.plan.Host().Used))
	}
}

// survived looks for the first control inside that failed.
func (m *measurement) survived(answers map[string]answer) bool {
	kills := func(what, text string, rule *resolve.Rule) bool {
		m.report.Unmeasured, m.report.Killed = "the profile kills the program: "+what+": "+text, rule
		return false
	}
	check := func(row, what string, rule *resolve.Rule) bool {
		a, ok := answers[row]
		switch {
		case !ok:
			return kills(what, "the probe ended before that ("+m.ended+")", nil)
		case !a.OK:
			return kills(what, a.Text, rule)
		}
		return true
	}
	if len(m.job.Program) > 0 && !check(rowProgram, "running "+strings.Join(m.job.Program, " "), nil) {
		return false
	}
	rules := m.b.Rules()
	of := func(path string) *resolve.Rule {
		if i := slices.IndexFunc(rules, func(r resolve.Rule) bool { return r.Path == path }); i >= 0 {
			return &rules[i]
		}
		return nil
	}
	for _, r := range m.job.Roots {
		if !check(rowRoot+r.Path, "writing and reading back in "+r.Path, of(r.Path)) {
			return false
		}
	}
	for _, path := range m.job.Reads {
		if !check(rowRead+path, "reading "+path, of(path)) {
			return false
		}
	}
	return true
}

// openRoots opens the read-write roots, the permit path first, and does their
// control: writing and reading back, unconfined.
func (m *measurement) openRoots() {
	rules := m.b.Rules()
	slices.SortStableFunc(rules, func(a, b resolve.Rule) int {
		return btoi(b.Path == m.b.PermitPath()) - btoi(a.Path == m.b.PermitPath())
	})
	for _, r := range rules {
		if r.Kind != resolve.Directory || !r.Access.Has(resolve.Write|resolve.Names) {
			continue
		}
		if r.ID == (resolve.FileID{}) {
			m.report.Skipped = append(m.report.Skipped, r.Path+NotThereYet)
			continue
		}
		name, err := randomName()
		fd := -1
		if err == nil {
			if fd, err = openReal(r.Path, r.ID); err == nil {
				err = writeBack(fd, name)
			}
		}
		if err != nil {
			if fd >= 0 {
				unix.Close(fd)
			}
			m.report.Skipped = append(m.report.Skipped, r.Path+": cannot be written unconfined either: "+answerOf("", err).Text)
			continue
		}
		m.roots = append(m.roots, openRoot{r, fd})
		m.job.Roots = append(m.job.Roots, root{r.Path, name})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// reads does the controls of the read paths.
func (m *measurement) reads() {
	for _, r := range m.b.Rules() {
		if !r.Access.Has(resolve.Read) || r.Access.Has(resolve.Write) || r.Kind != resolve.Directory && r.Kind != resolve.RegularFile {
			continue
		}
		if err := readable(r.Path); err == nil {
			m.job.Reads = append(m.job.Reads, r.Path)
		} else if !r.FromHost() {
			m.report.Skipped = append(m.report.Skipped, r.Path+": cannot be read unconfined either: "+answerOf("", err).Text)
		}
	}
}

// makeInside makes the probe's directory in the first root that takes it, and
// gives the device that it lies on.
func (m *measurement) makeInside() (dev uint64) {
	for _, r := range m.roots {
		dev = r.rule.ID.Dev
		name, err := randomName()
		if err != nil {
			continue
		}
		if m.inside, err = makeDir(r.fd, r.rule.Path, name); err == nil {
			m.job.In, m.job.MountOn = m.inside.path, m.inside.path
			return dev
		}
		m.inside = nil
	}
	if m.job.MountOn = m.b.PermitPath(); dev == 0 {
		_, id := m.b.Dir()
		dev = id.Dev
	}
	return dev
}

// controls does all operations unconfined. It gives the reason for each row
// that has no control, and lists the others for the probe.
func (m *measurement) controls() map[string]string {
	j := &m.job
	j.Out, j.OutPath, j.LinkTo = m.at.out.path, m.at.out.path, m.at.out.path
	j.Dots = dots(m.b, m.at.out.path)
	j.Dev, j.Inodes = m.at.dev, m.at.inodes
	a := m.control(m.at, m.seat)
	a.Node, a.parent = j.Node, m.parent
	why := map[string]string{}
	if m.inside != nil {
		a.Root = m.inside.through()
		if err := unix.Symlinkat(m.at.out.path+"/symlink-before", m.inside.fd, "symlink-before"); err != nil {
			why["symlink-before"] = "making a symlink inside: " + err.Error()
		}
	}
	for key, open := range map[string]struct {
		flags int
		fd    *int
	}{"reopen": {unix.O_RDONLY, &a.Reopen}, "passed": {unix.O_WRONLY | unix.O_APPEND, &a.Passed}, "leaked": {unix.O_WRONLY | unix.O_APPEND, &a.Leaked}} {
		f, err := m.at.control.open(key, open.flags)
		if err != nil {
			why[key] = err.Error()
			continue
		}
		defer f.Close()
		*open.fd = int(f.Fd())
	}
	for i := range cases {
		c := &cases[i]
		switch {
		case c.inside && m.inside == nil:
			why[c.Key] = "in no read-write root can anything be made, unconfined either"
		case why[c.Key] != "":
		case c.once:
			why[c.Key] = m.once[c.Key]
		default:
			why[c.Key] = doControl(a, c)
		}
		if why[c.Key] == "" {
			j.Rows = append(j.Rows, c.Key)
		}
	}
	return why
}

// dots is the way from the working directory to a path outside that begins with "..".
func dots(b *resolve.Boundary, path string) string {
	dir, _ := b.Dir()
	return strings.TrimSuffix(strings.Repeat("../", strings.Count(strings.TrimRight(dir, "/"), "/")), "/") + path
}

// parent asks whether the permit path could be renamed unconfined.
func (m *measurement) parent() error {
	path := m.b.PermitPath()
	fd, err := openDir(above(path) + "/")
	if err != nil {
		return setupf(above(path), err)
	}
	defer unix.Close(fd)
	if err := unix.Faccessat2(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return err
	}
	var up, root, out unix.Statx_t
	if err := errors.Join(unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &up),
		unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &root),
		unix.Statx(m.at.out.fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &out)); err != nil {
		return setupf("statx", err)
	}
	euid := uint32(os.Geteuid())
	switch {
	case root.Mnt_id != up.Mnt_id:
		return setupf("the root is a mount point, which nobody can rename", nil)
	case out.Mnt_id != up.Mnt_id:
		return setupf("the outside target lies on another mount", nil)
	case up.Mode&unix.S_ISVTX != 0 && euid != 0 && up.Uid != euid && root.Uid != euid:
		return setupf("the directory above is sticky", nil)
	}
	return nil
}

// node is a device that an ordinary user may open, that does nothing when it is
// opened, and that the boundary does not grant.
func (m *measurement) node() (found string) {
	for _, path := range []string{"/dev/fuse", "/dev/ptmx", "/dev/net/tun"} {
		var st unix.Stat_t
		if unix.Stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
			continue
		}
		if e, err := m.b.Explain(path); err == nil && e.By(resolve.Read) == nil && e.By(resolve.Write) == nil {
			if unix.Faccessat2(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS) == nil {
				return path
			}
			found = path // its control says why it proves nothing
		}
	}
	return found
}

// attempt starts the probe inside the boundary and collects its answers.
func (m *measurement) attempt(ctx context.Context) (map[string]answer, error) {
	reopen, err := m.at.out.open("reopen", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer reopen.Close()
	passed, err := m.at.out.open("passed", unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return nil, err
	}
	defer passed.Close()
	leaked, err := m.leak()
	if err != nil {
		return nil, err
	}
	defer unix.Close(leaked)
	m.job.Leaked = leaked
	jobR, jobW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer jobW.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		jobR.Close()
		return nil, err
	}
	defer outR.Close()
	process, err := m.plan.Start(enforce.StartOptions{ExtraFiles: []*os.File{jobR, outW, reopen, passed}, Setpgid: true, MakeNothing: true})
	jobR.Close()
	outW.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = unix.Kill(-process.Pid, unix.SIGKILL) })
	defer stop()
	go func() {
		_ = sendJob(jobW, m.job)
	}()
	answers := map[string]answer{}
	lines := bufio.NewScanner(outR)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			break
		}
		answers[a.Row] = a
	}
	state, err := process.Wait()
	m.ended = state.String()
	return answers, err
}

// leak is an outside file, open for writing, on a descriptor that would be inherited.
func (m *measurement) leak() (int, error) {
	f, err := m.at.out.open("leaked", unix.O_WRONLY|unix.O_APPEND)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	return unix.FcntlInt(f.Fd(), unix.F_DUPFD, 200)
}

// Outer says how this process was found to be inside a boundary already:
// something is denied to it that file permissions allow, as access(2), which Landlock
// does not judge, bears out. "" means that no sign was found in dirs, not that there is
// none. It leaves nothing behind.
func Outer(dirs []string) string {
	for _, dir := range dirs {
		if dir == "" {
			continue
		}
		for _, try := range []struct {
			mode  uint32
			flags int
			what  string
		}{{unix.R_OK, unix.O_RDONLY | unix.O_DIRECTORY, "listing"}, {unix.W_OK | unix.X_OK, unix.O_TMPFILE | unix.O_WRONLY, "making a file in"}} {
			if unix.Faccessat2(unix.AT_FDCWD, dir, try.mode, unix.AT_EACCESS) != nil {
				continue
			}
			fd, err := unix.Open(dir, try.flags|unix.O_CLOEXEC, 0o600)
			if err == nil {
				unix.Close(fd)
			} else if err == unix.EACCES {
				return try.what + " " + dir + " is denied, although file permissions allow it"
			}
		}
	}
	return ""
}
