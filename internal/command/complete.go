package command

import (
	"embed"
	"flag"
	"fmt"
	"io"
	"strings"
)

// completeWord is the word by which a completion script asks what can stand as the
// last of the words after it. It is no command. The answer is one line for each, with a tab
// and a description where there is one, and a last line that says what else can: ":0" a
// file name where nothing is listed, ":4" nothing.
const completeWord = "__complete"

func (p *Program) complete(words []string, out io.Writer) error {
	last := ""
	if n := len(words); n > 0 {
		words, last = words[:n-1], words[n-1]
	}
	var b strings.Builder
	lines := p.candidates(words, last)
	for _, line := range lines {
		if strings.HasPrefix(line, last) {
			b.WriteString(line + "\n")
		}
	}
	if lines == nil {
		b.WriteString(":0\n")
	} else {
		b.WriteString(":4\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// candidates gives what can stand after words, where last was begun. Nil is a file name: the
// value of a flag, and what follows "--".
func (p *Program) candidates(words []string, last string) []string {
	c, words, err := p.find(words, nil)
	if err != nil {
		return nil
	}
	p.helpFlag(c)
	args, err := parse(&c.Flags, words)
	switch {
	case err != nil, args.Dash:
	case strings.HasPrefix(last, "-"):
		if !strings.Contains(last, "=") {
			return unusedFlags(&c.Flags)
		}
	case c.NoArgs:
		return []string{}
	case c.Complete != nil:
		return c.Complete(args.Before)
	}
	return nil
}

// unusedFlags are those that can still be given.
func unusedFlags(flags *flag.FlagSet) []string {
	used := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { used[f.Name] = true })
	list := []string{}
	flags.VisitAll(func(f *flag.Flag) {
		switch f.Value.(type) {
		case *Strings, *Ints: // may be repeated
		default:
			if used[f.Name] {
				return
			}
		}
		_, usage := flag.UnquoteUsage(f)
		list = append(list, "--"+f.Name+"\t"+usage)
	})
	return list
}

// completeCommands completes the name of a command.
func (p *Program) completeCommands(before []string) []string {
	if len(before) > 0 {
		return []string{}
	}
	var list []string
	for _, c := range p.all() {
		list = append(list, c.Name()+"\t"+c.Short)
	}
	return list
}

//go:embed completion.bash completion.fish completion.zsh
var scripts embed.FS

// script is the completion script for a shell, with PROGRAM for the program's name; empty:
// there is none.
func script(shell string) string {
	data, err := scripts.ReadFile("completion." + shell)
	if err != nil {
		return ""
	}
	return string(data)
}

func (p *Program) completionCommand(out io.Writer) *Command {
	c := &Command{
		Use:   "completion bash|fish|zsh",
		Short: "Print the completion script for a shell",
		Long: strings.ReplaceAll(`Print the script by which a shell completes the commands, flags and arguments
of PROGRAM. To have it in every session:

  bash   eval "$(PROGRAM completion bash)" in ~/.bashrc
  fish   PROGRAM completion fish >~/.config/fish/completions/PROGRAM.fish
  zsh    eval "$(PROGRAM completion zsh)" in ~/.zshrc, after compinit`, "PROGRAM", p.Name),
	}
	c.Complete = func(before []string) []string {
		if len(before) > 0 {
			return []string{}
		}
		return []string{"bash", "fish", "zsh"}
	}
	c.Run = func(a Args) error {
		words := a.All()
		if len(words) != 1 {
			return &UsageError{Detail: "completion takes one shell"}
		}
		text := script(words[0])
		if text == "" {
			return &UsageError{Detail: fmt.Sprintf("there is no completion for %q", words[0])}
		}
		_, err := io.WriteString(out, strings.ReplaceAll(text, "PROGRAM", p.Name))
		return err
	}
	return c
}
