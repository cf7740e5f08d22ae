package command

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// helpFlag adds --help to the flags of a command.
func (p *Program) helpFlag(c *Command) *bool {
	of := c.Name()
	if of == "" {
		of = p.Name
	}
	return c.Flags.Bool("help", false, "help for "+of)
}

func (p *Program) helpCommand(out io.Writer) *Command {
	c := &Command{
		Use:      "help [COMMAND]",
		Short:    "Help about any command",
		Long:     "Print the help of a command, or that of the program.",
		Complete: p.completeCommands,
	}
	c.Run = func(a Args) error {
		words := a.All()
		about, rest, err := p.find(words, out)
		switch {
		case err != nil:
		case len(rest) == 0, len(rest) == 1 && about.Name() == "completion" && script(rest[0]) != "":
			p.helpFlag(about)
			return p.writeHelp(about, out)
		}
		return p.unknown(strings.Join(words, " "))
	}
	return c
}

// writeHelp writes the help of a command, or of the program itself. --help is among
// the flags already.
func (p *Program) writeHelp(c *Command, out io.Writer) error {
	itself := c.Name() == ""
	long, use := c.Long, c.Use
	if long == "" {
		long = c.Short + "."
	}
	if c.Footer != "" {
		long += "\n\n" + c.Footer
	}
	if itself {
		use = "COMMAND [ARG…]"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\nUsage:\n  %s %s\n", long, p.Name, use)
	if c.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", c.Example)
	}
	if itself {
		var names, texts []string
		for _, c := range p.all() {
			names, texts = append(names, c.Name()), append(texts, c.Short)
		}
		b.WriteString("\nCommands:\n")
		writeColumns(&b, names, texts)
	}
	b.WriteString("\nFlags:\n")
	writeFlags(&b, &c.Flags)
	if itself {
		fmt.Fprintf(&b, "\n`%s help COMMAND` tells more about a command.\n", p.Name)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeFlags writes a line for each flag, sorted by name: the flag, what its value is
// called, what it is for, and its default.
func writeFlags(b *strings.Builder, flags *flag.FlagSet) {
	var lefts, rights []string
	flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		left := "    --" + f.Name
		if f.Name == "help" {
			left = "-h, --help"
		}
		if value != "" {
			left += " " + value
		}
		if f.DefValue != "" && f.DefValue != "false" {
			usage += " (default " + f.DefValue + ")"
		}
		lefts, rights = append(lefts, left), append(rights, usage)
	})
	writeColumns(b, lefts, rights)
}

// writeColumns writes two columns with three blanks between.
func writeColumns(b *strings.Builder, lefts, rights []string) {
	width := 0
	for _, left := range lefts {
		width = max(width, len(left))
	}
	for i, left := range lefts {
		fmt.Fprintf(b, "  %-*s   %s\n", width, left, rights[i])
	}
}
