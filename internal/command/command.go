// Package command is the command line of a program that has commands. It finds the
// one that is asked for, reads its flags, and writes help and completion.
//
// Only the command that is asked for is made, and nothing is linked that costs time when
// a program starts: a launcher pays for both each time. What is usual for this links net,
// regexp and text/template.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Program is a program that has commands. Two more than are listed exist in each:
// "help" and "completion".
type Program struct {
	Name     string
	Long     string // what its help says first
	Example  string
	Commands []Constructor
}

// Constructor makes one command.
type Constructor struct {
	Name string
	New  func() *Command
}

// Command is one command: what its help says, what it takes, what it does.
type Command struct {
	Use     string // the usage line after the program's name; its first word is the command's name
	Short   string // one line for the list of commands
	Long    string // what its help says first; empty: Short
	Footer  string // what follows that, after an empty line
	Example string
	Flags   flag.FlagSet // all but --help
	NoArgs  bool         // it takes nothing but flags

	// Complete gives what can stand after the arguments before it, with a tab and a
	// description where there is one. Nil, or a nil list: a file name.
	Complete func(before []string) []string
	Run      func(Args) error
}

// Name is the first word of Use.
func (c *Command) Name() string {
	name, _, _ := strings.Cut(c.Use, " ")
	return name
}

// UsageError is a wrong command line: what is wrong, and what to type instead.
type UsageError struct {
	Detail string
	Hint   string // empty: [Program.Run] puts the usage line of the command there
}

func (e *UsageError) Error() string { return e.Detail }

// Run does what the words after the program's name ask for. Help and completion
// are written to out. A wrong command line is a [UsageError].
func (p *Program) Run(words []string, out io.Writer) error {
	if len(words) > 0 && words[0] == completeWord {
		return p.complete(words[1:], out)
	}
	c, words, err := p.find(words, out)
	if err != nil {
		return err
	}
	help := p.helpFlag(c)
	args, err := parse(&c.Flags, words)
	switch {
	case err != nil && c.Name() == "":
		return &UsageError{err.Error(), "flags come after the command, and `" + p.Name + " help` lists the commands"}
	case err != nil:
		hint := "`" + p.Name + " " + c.Name() + " --help` lists the flags"
		if strings.Contains(c.Use, " -- ") {
			hint += "; those of the command itself stand after --"
		}
		return &UsageError{err.Error(), hint}
	case *help && len(args.Before) > 1 && strings.Contains(c.Use, " -- CMD"):
		err = &UsageError{Detail: c.Name() + " needs -- before the command, and --help may be a word of it"}
	case *help:
		return p.writeHelp(c, out)
	case c.NoArgs && len(args.All()) > 0:
		err = &UsageError{Detail: c.Name() + " takes no arguments"}
	default:
		err = c.Run(args)
	}
	var usage *UsageError
	if errors.As(err, &usage) && usage.Hint == "" {
		usage.Hint = "usage: " + p.Name + " " + c.Use
	}
	return err
}

// find makes the command that words begin with, and gives the other words. Words that
// begin with a flag, and none, are for the program itself.
func (p *Program) find(words []string, out io.Writer) (*Command, []string, error) {
	if len(words) == 0 || strings.HasPrefix(words[0], "-") {
		return p.itself(out), words, nil
	}
	c := p.command(words[0], out)
	if c == nil {
		return nil, nil, p.unknown(words[0])
	}
	return c, words[1:], nil
}

// command makes the command of that name; nil: there is none.
func (p *Program) command(name string, out io.Writer) *Command {
	for _, known := range p.Commands {
		if known.Name == name {
			return known.New()
		}
	}
	switch name {
	case "help":
		return p.helpCommand(out)
	case "completion":
		return p.completionCommand(out)
	}
	return nil
}

// all makes every command, sorted by name.
func (p *Program) all() []*Command {
	list := []*Command{p.helpCommand(nil), p.completionCommand(nil)}
	for _, known := range p.Commands {
		list = append(list, known.New())
	}
	slices.SortFunc(list, func(a, b *Command) int { return strings.Compare(a.Name(), b.Name()) })
	return list
}

// itself is what the program does without a command: it prints its help.
func (p *Program) itself(out io.Writer) *Command {
	c := &Command{Long: p.Long, Example: p.Example, Complete: p.completeCommands}
	c.Run = func(a Args) error {
		if words := a.All(); len(words) > 0 {
			return p.unknown(words[0])
		}
		return p.writeHelp(c, out)
	}
	return c
}

func (p *Program) unknown(name string) error {
	return &UsageError{fmt.Sprintf("unknown command %q", name), "`" + p.Name + " help` lists the commands"}
}
