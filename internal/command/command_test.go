package command

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/confinectl/confinectl/test/testenv"
)

// The completion scripts are tested with a program named tool, which is this test binary.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "tool" {
		if err := newTool(nil, os.Stdout).Run(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// newTool is a program with the commands run and rest. made lists which of them were made.
func newTool(made *[]string, out interface{ Write([]byte) (int, error) }) *Program {
	if made == nil {
		made = new([]string)
	}
	return &Program{
		Name: "tool", Long: "Do things.", Example: "  tool run p -- x",
		Commands: []Constructor{
			{"run", func() *Command {
				*made = append(*made, "run")
				c := &Command{Use: "run [flags] PROFILE -- CMD", Short: "Run it", Long: "Run it well."}
				var dirs Strings
				var text string
				var yes bool
				c.Flags.Var(&dirs, "dir", "look in this `directory`")
				c.Flags.StringVar(&text, "text", "some", "what to say")
				c.Flags.BoolVar(&yes, "yes", false, "be sure")
				c.Complete = func(before []string) []string {
					if len(before) > 0 {
						return nil
					}
					return append([]string{"alpha", "beta\tthe second", "a:b"}, dirs...)
				}
				c.Run = func(a Args) error {
					if len(a.Before) != 1 {
						return &UsageError{Detail: "run takes one profile"}
					}
					_, err := fmt.Fprintf(out, "%q %q %t %q %q %t\n", a.Before, a.After, a.Dash, dirs, text, yes)
					return err
				}
				return c
			}},
			{"rest", func() *Command {
				*made = append(*made, "rest")
				return &Command{Use: "rest", Short: "Do nothing", NoArgs: true, Run: func(Args) error { return errors.New("tired") }}
			}},
		},
	}
}

func TestRun(t *testing.T) {
	const (
		run = `Run it well.

Usage:
  tool run [flags] PROFILE -- CMD

Flags:
      --dir directory   look in this directory
  -h, --help            help for run
      --text string     what to say (default some)
      --yes             be sure
`
		rest = `Do nothing.

Usage:
  tool rest

Flags:
  -h, --help   help for rest
`
		itself = `Do things.

Usage:
  tool COMMAND [ARG…]

Examples:
  tool run p -- x

Commands:
  completion   Print the completion script for a shell
  help         Help about any command
  rest         Do nothing
  run          Run it

Flags:
  -h, --help   help for tool

` + "`tool help COMMAND` tells more about a command.\n"

		flags   = "`tool run --help` lists the flags; those of the command itself stand after --"
		list    = "`tool help` lists the commands"
		runLine = "usage: tool run [flags] PROFILE -- CMD"
		all     = "completion\tPrint the completion script for a shell\nhelp\tHelp about any command\nrest\tDo nothing\nrun\tRun it\n:4\n"
	)
	for _, test := range []struct {
		words []string
		out   string
		err   error
		made  string // nothing beyond what the command line asks for
	}{
		{words: []string{"run", "p", "--yes", "--dir", "a", "--dir=b", "--", "x", "--yes"}, out: `["p"] ["x" "--yes"] true ["a" "b"] "some" true` + "\n", made: "run"},
		{words: []string{"run", "p"}, out: `["p"] [] false [] "some" false` + "\n", made: "run"},
		{words: []string{"run"}, err: &UsageError{"run takes one profile", runLine}, made: "run"},
		{words: []string{"run", "p", "ls", "--help"}, err: &UsageError{"run needs -- before the command, and --help may be a word of it", runLine}, made: "run"},
		{words: []string{"run", "--nosuch"}, err: &UsageError{"unknown flag: --nosuch", flags}, made: "run"},
		{words: []string{"rest"}, err: errors.New("tired"), made: "rest"},
		{words: []string{"rest", "--"}, err: errors.New("tired"), made: "rest"},
		{words: []string{"rest", "--", "x"}, err: &UsageError{"rest takes no arguments", "usage: tool rest"}, made: "rest"},

		{words: []string{"nosuch", "--help"}, err: &UsageError{`unknown command "nosuch"`, list}},
		{words: []string{""}, err: &UsageError{`unknown command ""`, list}},
		{words: []string{"ru"}, err: &UsageError{`unknown command "ru"`, list}},
		{words: []string{"Run"}, err: &UsageError{`unknown command "Run"`, list}},
		{words: []string{"--", "run"}, err: &UsageError{`unknown command "run"`, list}},
		{words: []string{"-", "run"}, err: &UsageError{`unknown command "-"`, list}},
		{words: []string{"--yes", "run"}, err: &UsageError{"unknown flag: --yes", "flags come after the command, and `tool help` lists the commands"}},

		{words: nil, out: itself, made: "run rest"},
		{words: []string{"--"}, out: itself, made: "run rest"},
		{words: []string{"-h", "run"}, out: itself, made: "run rest"},
		{words: []string{"--help"}, out: itself, made: "run rest"},
		{words: []string{"help"}, out: itself, made: "run rest"},
		{words: []string{"help", "run"}, out: run, made: "run"},
		{words: []string{"run", "--help", "x"}, out: run, made: "run"},
		{words: []string{"run", "x", "-h"}, out: run, made: "run"},
		{words: []string{"rest", "-h"}, out: rest, made: "rest"},
		{words: []string{"help", "nosuch"}, err: &UsageError{`unknown command "nosuch"`, list}},
		{words: []string{"help", "run", "x"}, err: &UsageError{`unknown command "run x"`, list}, made: "run"},
		{words: []string{"help", "completion", "csh"}, err: &UsageError{`unknown command "completion csh"`, list}},
		{words: []string{"completion"}, err: &UsageError{"completion takes one shell", "usage: tool completion bash|fish|zsh"}},
		{words: []string{"completion", "../x"}, err: &UsageError{`there is no completion for "../x"`, "usage: tool completion bash|fish|zsh"}},

		{words: []string{"__complete"}, out: all, made: "run rest"},
		{words: []string{"__complete", ""}, out: all, made: "run rest"},
		{words: []string{"__complete", "r"}, out: "rest\tDo nothing\nrun\tRun it\n:4\n", made: "run rest"},
		{words: []string{"__complete", "x"}, out: ":4\n", made: "run rest"},
		{words: []string{"__complete", "-"}, out: "--help\thelp for tool\n:4\n"},
		{words: []string{"__complete", "nosuch", ""}, out: ":0\n"},
		{words: []string{"__complete", "help", ""}, out: all, made: "run rest"},
		{words: []string{"__complete", "help", "run", ""}, out: ":4\n"},
		{words: []string{"__complete", "completion", ""}, out: "bash\nfish\nzsh\n:4\n"},
		{words: []string{"__complete", "rest", ""}, out: ":4\n", made: "rest"},
		{words: []string{"__complete", "run", ""}, out: "alpha\nbeta\tthe second\na:b\n:4\n", made: "run"},
		{words: []string{"__complete", "run", "a"}, out: "alpha\na:b\n:4\n", made: "run"},
		{words: []string{"__complete", "run", "--dir", "x", "--dir=y", ""}, out: "alpha\nbeta\tthe second\na:b\nx\ny\n:4\n", made: "run"},
		{words: []string{"__complete", "run", "z"}, out: ":4\n", made: "run"},
		{words: []string{"__complete", "run", "a", ""}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "a", "--", "-"}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "--dir", ""}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "--dir", "--"}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "--dir="}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "--nosuch", ""}, out: ":0\n", made: "run"},
		{words: []string{"__complete", "run", "--"}, out: "--dir\tlook in this directory\n--help\thelp for run\n--text\twhat to say\n--yes\tbe sure\n:4\n", made: "run"},
		{words: []string{"__complete", "run", "--yes", "--dir", "x", "-"}, out: "--dir\tlook in this directory\n--help\thelp for run\n--text\twhat to say\n:4\n", made: "run"},
	} {
		var made []string
		var out strings.Builder
		err := newTool(&made, &out).Run(test.words, &out)
		if diff := cmp.Diff(test.out, out.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", test.words, diff)
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", test.err), fmt.Sprintf("%+v", err)); diff != "" || !sameType(test.err, err) {
			t.Errorf("%q: error (-want +got):\n%s", test.words, diff)
		}
		var want, got *UsageError
		if errors.As(test.err, &want) && errors.As(err, &got) && *want != *got {
			t.Errorf("%q: error %+v, want %+v", test.words, *got, *want)
		}
		if got := strings.Join(made, " "); got != test.made {
			t.Errorf("%q: made %q, want %q", test.words, got, test.made)
		}
	}
}

func sameType(a, b error) bool { return fmt.Sprintf("%T", a) == fmt.Sprintf("%T", b) }

// shell gives the path of a shell. Bash is everywhere.
func shell(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && name == "bash" {
		t.Fatal(err)
	}
	testenv.Need(t, err == nil, name)
	return path
}

// TestCompletionScripts has each shell load its script and complete command lines of
// tool. A line ends at the cursor; bash and zsh get its words as they split it.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "tool"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"afile", "bfile"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// How the shell completes $line, with its words in the arguments, and prints candidates or FILES.
	shells := map[string]string{
		"bash": `COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
compopt() { nothing=1; }
COMPREPLY=(old)
_tool
if [ ${#COMPREPLY[@]} = 0 ]; then [ -n "$nothing" ] || echo FILES; else printf '%s\n' "${COMPREPLY[@]}"; fi`,
		"zsh": `words=("$@") CURRENT=$# PREFIX=${@[-1]}
_describe() { print -rl -- "${(@P)2}" }
compset() { PREFIX=${PREFIX#*=} }
_files() { print FILES }
_tool`,
		"fish": `complete -C "$line"`,
	}
	for _, test := range []struct {
		words []string // as bash splits them: also at = and :
		line  string
		want  map[string]string // by shell; "": the others
	}{
		{words: []string{"tool", ""}, line: "tool ", want: map[string]string{
			"bash": "completion help rest run",
			"zsh":  "completion:Print the completion script for a shell|help:Help about any command|rest:Do nothing|run:Run it",
			"fish": "completion\tPrint the completion script for a shell|help\tHelp about any command|rest\tDo nothing|run\tRun it"}},
		{words: []string{"tool", "ru"}, line: "tool ru", want: map[string]string{"bash": "run", "zsh": "run:Run it", "fish": "run\tRun it"}},
		{words: []string{"tool", "run", ""}, line: "tool run ", want: map[string]string{"bash": "alpha beta a:b", "zsh": `alpha|beta:the second|a\:b`, "fish": "a:b|alpha|beta\tthe second"}},
		{words: []string{"tool", "run", "al"}, line: "tool run  al", want: map[string]string{"": "alpha"}},
		{words: []string{"tool", "run", "zzz"}, line: "tool run zzz", want: map[string]string{"": ""}},
		{words: []string{"tool", "run", "--y"}, line: "tool run --y", want: map[string]string{"bash": "--yes", "zsh": "--yes:be sure", "fish": "--yes\tbe sure"}},
		{words: []string{"tool", "run", "--dir", "=", "x", "--dir", `"a b"`, "x"}, line: `tool run --dir=x --dir "a b" x`, want: map[string]string{"": "x"}},
		{words: []string{"tool", "run", "--dir", "~/x", "/"}, line: "tool run --dir ~/x /", want: map[string]string{"": "/home/me/x"}},
		{words: []string{"tool", "run", "--dir", "a"}, line: "tool run --dir a", want: map[string]string{"": "FILES", "fish": "afile"}},
		{words: []string{"tool", "run", "--dir", "=", "a"}, line: "tool run --dir=a", want: map[string]string{"": "FILES", "fish": "--dir=afile"}},
		{words: []string{"tool", "run", "--dir", "="}, line: "tool run --dir=", want: map[string]string{"": "FILES", "fish": "--dir=afile|--dir=bfile|--dir=tool"}},
		{words: []string{"tool", "run", "alpha", "--", "b"}, line: "tool run alpha -- b", want: map[string]string{"": "FILES", "fish": "bfile"}},
		{words: []string{"tool", "run", "--text", "'$(touch ran)'", "al"}, line: `tool run --text '$(touch ran)' al`, want: map[string]string{"": "alpha"}},
		{words: []string{"tool", "run", "--text", "$(touch ran)", "al"}, line: `tool run --text $(touch ran) al`, want: map[string]string{"": "alpha"}},
	} {
		for name, ask := range shells {
			t.Run(name+" "+test.line, func(t *testing.T) {
				path := shell(t, name)
				var script strings.Builder
				if err := newTool(nil, nil).Run([]string{"completion", name}, &script); err != nil {
					t.Fatal(err)
				}
				args := []string{"-c", "compdef() { :; }\n" + script.String() + ask, name}
				switch name {
				case "bash":
					args = append([]string{"--norc", "--noprofile"}, append(args, test.words...)...)
				case "zsh":
					args = append([]string{"-f"}, append(args, zshWords(test.words)...)...)
				case "fish":
					args = []string{"--no-config", "-c", script.String() + ask}
				}
				cmd := exec.Command(path, args...)
				cmd.Dir = dir
				cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=/home/me", "line=" + test.line, "LC_ALL=C"}
				var stderr strings.Builder
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if _, ran := os.Lstat(filepath.Join(dir, "ran")); ran == nil {
					t.Error("what was typed was executed")
				}
				got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
				want, ok := test.want[name]
				if !ok {
					want = test.want[""]
				}
				sep := "|"
				if name == "bash" {
					sep = " "
				}
				if stderr.Len() > 0 || name == "zsh" && err != nil || !slices.Equal(got, strings.Split(want, sep)) {
					t.Errorf("got %q, want %q; %v, stderr: %s", got, want, err, stderr.String())
				}
			})
		}
	}
}

// zshWords splits at blanks only.
func zshWords(words []string) []string {
	var list []string
	for i, word := range words {
		if i > 0 && (word == "=" || words[i-1] == "=") {
			list[len(list)-1] += word
			continue
		}
		list = append(list, word)
	}
	return list
}
