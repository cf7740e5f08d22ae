package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Descriptors of a probe. What it is told and what it answers goes through
// pipes: it may have no file to write to.
const (
	fdJob     = 3
	fdAnswers = 4
	fdReopen  = 5 // an outside file, opened read-only
	fdPassed  = 6 // an outside file, opened for writing
)

// variable is the one that must arrive.
const variable = "CONFINECTL_PROBE"

// magic begins every job.
const magic = "confinectl probe"

// A role says what a probe process is there for.
type role string

const (
	roleInside    role = "inside"    // the controls, then the attempts
	roleOne       role = "one"       // one attempt, for the process that started it
	roleBystander role = "bystander" // a process outside, to be attacked
)

// job is what a probe is told, as one line of JSON.
type job struct {
	Magic string   `json:"magic"`
	Role  role     `json:"role"`
	Rows  []string `json:"rows"`

	Self  string   `json:"self"`
	Entry []string `json:"entry"`
	Wider []string `json:"wider"`

	Program []string `json:"program"` // control: what must run
	Roots   []root   `json:"roots"`   // control: what must be writable
	Reads   []string `json:"reads"`   // control: what must be readable

	In      string            `json:"in"`      // the probe's directory inside
	Root    string            `json:"root"`    // for a control: that directory as well, in the real root
	Out     string            `json:"out"`     // the outside target
	OutPath string            `json:"outpath"` // its real path
	Dots    string            `json:"dots"`    // the way to it from the working directory, through ..
	LinkTo  string            `json:"linkto"`  // where links made inside lead
	Permit  string            `json:"permit"`  // the permit path
	MountOn string            `json:"mounton"`
	Dev     uint64            `json:"dev"`
	Inodes  map[string]uint64 `json:"inodes"` // of the outside files, by key

	Bystander int    `json:"bystander"`
	Abstract  string `json:"abstract"`
	Node      string `json:"node"` // a device that is not granted
	Reopen    int    `json:"reopen"`
	Leaked    int    `json:"leaked"`
	Passed    int    `json:"passed"`
	Value     string `json:"value"` // of the variable
	Depth     int    `json:"depth"`
	Namespace bool   `json:"namespace"` // this process has a mount namespace of its own
}

// root is a read-write directory and the name of a file to make there.
type root struct {
	Path string `json:"path"`
	Name string `json:"name"`
}

// Rows of controls, beside those of the cases.
const (
	rowProgram = "control program"
	rowRoot    = "control root "
	rowRead    = "control read "
)

// Inside is main for a probe: the hidden entry point of the program. It refuses to
// do anything unless a [Prober] started it, with its two pipes and a job.
func Inside() error {
	refused := errors.New("this is the inside of `confinectl check`, which starts it; by itself it does nothing")
	for _, fd := range []int{fdJob, fdAnswers} {
		var st unix.Stat_t
		if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
			return refused
		}
	}
	for fd := fdJob; fd <= fdPassed; fd++ {
		unix.CloseOnExec(fd)
	}
	in := bufio.NewReader(os.NewFile(fdJob, "job"))
	timer := time.AfterFunc(2*time.Minute, func() { os.Exit(3) }) // whoever started it is gone, or in trouble
	line, err := in.ReadBytes('\n')
	a := &attempt{}
	if err != nil || json.Unmarshal(line, &a.job) != nil || a.Magic != magic {
		return refused
	}
	out := os.NewFile(fdAnswers, "answers")
	switch a.Role {
	case roleBystander:
		timer.Stop()
		return bystand(in, out)
	case roleInside:
		return a.inside(out)
	case roleOne:
		return a.tryAll(out)
	}
	return refused
}

// bystand is there to be attacked, for as long as the other end is open.
func bystand(in io.Reader, out io.Writer) error {
	// Yama lets a process be traced by its parents only, unless it says otherwise.
	_ = unix.Prctl(unix.PR_SET_PTRACER, ^uintptr(0), 0, 0, 0)
	if err := send(out, answer{Row: string(roleBystander), OK: true}); err != nil {
		return err
	}
	for {
		if _, err := in.Read(make([]byte, 16)); err != nil {
			return nil
		}
	}
}

// inside does the controls, stops at the first that fails, and then attempts.
func (a *attempt) inside(out io.Writer) error {
	type control struct {
		row string
		do  func() error
	}
	var list []control
	if len(a.Program) > 0 {
		list = append(list, control{rowProgram, func() error { return a.runs(a.Program) }})
	}
	for _, r := range a.Roots {
		list = append(list, control{rowRoot + r.Path, func() error { return writeBack(unix.AT_FDCWD, r.Path+"/"+r.Name) }})
	}
	for _, path := range a.Reads {
		list = append(list, control{rowRead + path, func() error { return readable(path) }})
	}
	for _, c := range list {
		got := answerOf(c.row, c.do())
		if err := send(out, got); err != nil || !got.OK {
			return err
		}
	}
	return a.tryAll(out)
}

// tryAll makes the attempts, each in a thread of its own.
func (a *attempt) tryAll(out io.Writer) error {
	known := attempts()
	for _, key := range a.Rows {
		try, ok := known[key]
		if !ok {
			return fmt.Errorf("BUG: no attempt for row %q", key)
		}
		if err := send(out, answerOf(key, onThread(a, try))); err != nil {
			return err
		}
	}
	return nil
}

// onThread makes one attempt in a thread that ends with it, if the attempt
// locks it: a tracer lets go of its target then.
func onThread(a *attempt, try func(*attempt) error) error {
	done := make(chan error)
	go func() { done <- try(a) }()
	return <-done
}

func send(out io.Writer, a answer) error {
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = out.Write(append(line, '\n'))
	return err
}

// child starts a further probe and gives the answer to its one row. A child
// that does not come to its attempt is no answer, except by an errno of the start itself.
func (a *attempt) child(argv []string, sys *syscall.SysProcAttr, j job) error {
	told, err := j.line()
	if err != nil {
		return setupf("the process inside", err)
	}
	jobR, jobW, err := os.Pipe()
	if err != nil {
		return setupf("pipe", err)
	}
	defer jobW.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		jobR.Close()
		return setupf("pipe", err)
	}
	defer outR.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: os.Environ(), Files: append(a.stdio(), jobR, outW), Sys: sys})
	jobR.Close()
	outW.Close()
	if err != nil {
		var errno syscall.Errno
		if sys != nil && errors.As(err, &errno) {
			return errno // a namespace of its own was denied
		}
		return setupf("starting "+argv[0], err)
	}
	timer := time.AfterFunc(45*time.Second, func() { _ = p.Kill() })
	defer timer.Stop()
	_, sent := jobW.Write(told)
	line, _ := bufio.NewReader(outR).ReadBytes('\n')
	jobW.Close()
	state, _ := p.Wait()
	var got answer
	switch {
	case json.Unmarshal(line, &got) != nil && state != nil:
		return setupf("the process inside ended without an answer ("+state.String()+")", nil)
	case got.OK:
		return nil
	case got.Errno != 0:
		return syscall.Errno(got.Errno)
	case sent != nil:
		return setupf("the process inside", sent)
	}
	return setupf(got.Text, nil)
}

func sendJob(w io.Writer, j job) error {
	line, err := j.line()
	if err == nil {
		_, err = w.Write(line)
	}
	return err
}

// line is a job as it is sent. JSON has no words for a path that is not UTF-8: such a
// job would arrive as another one, and is not sent.
func (j job) line() ([]byte, error) {
	j.Magic = magic
	line, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	var arrives job
	if err := json.Unmarshal(line, &arrives); err != nil || !reflect.DeepEqual(j, arrives) {
		return nil, errors.New("a path that the probe needs is not UTF-8")
	}
	return append(line, '\n'), nil
}

// runs runs a program to its end.
func (a *attempt) runs(argv []string) error {
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: os.Environ(), Files: a.stdio()})
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err == nil && !state.Success() {
		err = fmt.Errorf("%s: %s", strings.Join(argv, " "), state)
	}
	return err
}

// writeBack makes a file that was not there, reads back what it wrote, and removes it.
func writeBack(dir int, name string) (err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		unix.Close(fd)
		if e := unix.Unlinkat(dir, name, 0); err == nil {
			err = e
		}
	}()
	if _, err := unix.Pwrite(fd, []byte(magic), 0); err != nil {
		return err
	}
	got := make([]byte, len(magic)+1)
	n, err := unix.Pread(fd, got, 0)
	if err == nil && string(got[:n]) != magic {
		err = fmt.Errorf("read back %q", got[:n])
	}
	return err
}

// readable lists a directory, and reads a byte of a regular file. In a directory
// it also reads the first file that occupies blocks, which those of /proc and /sys do
// not: reading there may do something.
func readable(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFREG {
		_, err := unix.Pread(fd, make([]byte, 1), 0)
		return err
	}
	names, err := f.Readdirnames(64)
	if err != nil && err != io.EOF {
		return errors.Unwrap(err)
	}
	for _, name := range names {
		if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Blocks == 0 {
			continue
		}
		file, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
		if err == nil {
			_, err = unix.Pread(file, make([]byte, 1), 0)
			unix.Close(file)
			if err == nil {
				return nil
			}
		}
		if st.Mode&0o044 == 0o044 { // one that everybody may read
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
