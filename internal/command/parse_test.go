package command

import (
	"errors"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// values are what the flags of these tests were set to.
type values struct {
	Yes, Help bool
	Text      string
	List      Strings
	Numbers   Ints
	Grace     time.Duration
}

func newFlags(v *values) *flag.FlagSet {
	flags := &flag.FlagSet{}
	flags.BoolVar(&v.Yes, "yes", false, "")
	flags.BoolVar(&v.Help, "help", false, "")
	flags.StringVar(&v.Text, "text", "", "")
	flags.Var(&v.List, "list", "")
	flags.Var(&v.Numbers, "number", "")
	flags.DurationVar(&v.Grace, "grace", time.Second, "")
	flags.Func("picky", "", func(s string) error {
		if s != "fine" {
			return errors.New("it is not fine")
		}
		return nil
	})
	return flags
}

func TestParse(t *testing.T) {
	for _, test := range []struct {
		words string // separated by blanks; "''" is an empty one
		args  Args
		set   values
		err   string
	}{
		{words: ""},
		{words: "a b", args: Args{Before: []string{"a", "b"}}},
		{words: "'' -", args: Args{Before: []string{"", "-"}}},

		// Where "--" is.
		{words: "--", args: Args{Dash: true}},
		{words: "-- a", args: Args{After: []string{"a"}, Dash: true}},
		{words: "a --", args: Args{Before: []string{"a"}, Dash: true}},
		{words: "a -- b", args: Args{Before: []string{"a"}, After: []string{"b"}, Dash: true}},
		{words: "a -- b -- c", args: Args{Before: []string{"a"}, After: []string{"b", "--", "c"}, Dash: true}},
		{words: "-- --yes -h --nosuch '' -x", args: Args{After: []string{"--yes", "-h", "--nosuch", "", "-x"}, Dash: true}},

		// Every way to write a flag.
		{words: "--yes", set: values{Yes: true}},
		{words: "--yes=true", set: values{Yes: true}},
		{words: "--yes=1", set: values{Yes: true}},
		{words: "--yes --yes=false"},
		{words: "--yes false", args: Args{Before: []string{"false"}}, set: values{Yes: true}},
		{words: "--text x", set: values{Text: "x"}},
		{words: "--text=x", set: values{Text: "x"}},
		{words: "--text=x=y", set: values{Text: "x=y"}},
		{words: "--text =x", set: values{Text: "=x"}},
		{words: "--text=", set: values{}},
		{words: "--text ''", set: values{}},
		{words: "--grace 5s", set: values{Grace: 5 * time.Second}},
		{words: "-h", set: values{Help: true}},
		{words: "-hh", set: values{Help: true}},
		{words: "--help=false"},

		// What follows a flag that needs a value is its value.
		{words: "--text -- a", args: Args{Before: []string{"a"}}, set: values{Text: "--"}},
		{words: "--text -- -- a", args: Args{After: []string{"a"}, Dash: true}, set: values{Text: "--"}},
		{words: "--text=-- a", args: Args{Before: []string{"a"}}, set: values{Text: "--"}},
		{words: "--text --yes", set: values{Text: "--yes"}},
		{words: "--text -h", set: values{Text: "-h"}},
		{words: "--text -", set: values{Text: "-"}},
		{words: "--yes -- a", args: Args{After: []string{"a"}, Dash: true}, set: values{Yes: true}},

		// In between, and again.
		{words: "a --text x b --yes -- c", args: Args{Before: []string{"a", "b"}, After: []string{"c"}, Dash: true}, set: values{Text: "x", Yes: true}},
		{words: "--text x --text y", set: values{Text: "y"}},
		{words: "--list x --list= --list ''", set: values{List: Strings{"x", "", ""}}},
		{words: "--list a,b", set: values{List: Strings{"a,b"}}},
		{words: "--number 3,4 --number=-5", set: values{Numbers: Ints{3, 4, -5}}},

		// What is no UTF-8 passes.
		{words: "\xff --text \xfe -- \xfd", args: Args{Before: []string{"\xff"}, After: []string{"\xfd"}, Dash: true}, set: values{Text: "\xfe"}},
		{words: "--text=\xfe", set: values{Text: "\xfe"}},

		// What is wrong.
		{words: "--nosuch", err: "unknown flag: --nosuch"},
		{words: "--nosuch=x", err: "unknown flag: --nosuch"},
		{words: "--\xff", err: "unknown flag: --\xff"},
		{words: "--tex x", err: "unknown flag: --tex"},
		{words: "--Text x", err: "unknown flag: --Text"},
		{words: "--no-yes", err: "unknown flag: --no-yes"},
		{words: "--h", err: "unknown flag: --h"},
		{words: "a --nosuch -- b", err: "unknown flag: --nosuch"},
		{words: "--help --nosuch", err: "unknown flag: --nosuch"},
		{words: "--=x", err: "bad flag syntax: --=x"},
		{words: "---yes", err: "bad flag syntax: ---yes"},
		{words: "---", err: "bad flag syntax: ---"},
		{words: "-yes", err: "unknown shorthand flag: 'y' in -yes"},
		{words: "-t x", err: "unknown shorthand flag: 't' in -t"},
		{words: "-hx", err: "unknown shorthand flag: 'x' in -hx"},
		{words: "-h=false", err: "unknown shorthand flag: '=' in -h=false"},
		{words: "-é", err: "unknown shorthand flag: 'é' in -é"},
		{words: "-\xff", err: "unknown shorthand flag: '�' in -\xff"},
		{words: "--text", err: "flag needs an argument: --text"},
		{words: "a --list", err: "flag needs an argument: --list"},
		{words: "--yes=maybe", err: `invalid argument "maybe" for "--yes" flag: not true or false`},
		{words: "--yes=", err: `invalid argument "" for "--yes" flag: not true or false`},
		{words: "--grace x", err: `invalid argument "x" for "--grace" flag: parse error`},
		{words: "--number 3,x", err: `invalid argument "3,x" for "--number" flag: "x" is not a number`},
		{words: "--number=", err: `invalid argument "" for "--number" flag: "" is not a number`},
		{words: "--picky bad", err: `invalid argument "bad" for "--picky" flag: it is not fine`},
	} {
		words := strings.Fields(test.words)
		for i, word := range words {
			if word == "''" {
				words[i] = ""
			}
		}
		set := values{}
		args, err := parse(newFlags(&set), words)
		if err != nil || test.err != "" {
			if err == nil || err.Error() != test.err {
				t.Errorf("%q: error %v, want %q", words, err, test.err)
			}
			continue
		}
		if test.set.Grace == 0 {
			test.set.Grace = time.Second
		}
		if diff := cmp.Diff(test.args, args); diff != "" {
			t.Errorf("%q: arguments (-want +got):\n%s", words, diff)
		}
		if diff := cmp.Diff(test.set, set); diff != "" {
			t.Errorf("%q: flags (-want +got):\n%s", words, diff)
		}
	}
}

// FuzzParse builds a command line from its parts, and expects the parts back.
// Each item of the input is its first byte, which says what it is, and the rest.
func FuzzParse(f *testing.F) {
	f.Add("aprofile\x00tx\x00y\x00-touch\x00-f")
	f.Add("t--\x00=--\x00l-h\x00L\x00-\x00---")
	f.Add("a\x00a-\x00a--yes\x00n")
	f.Fuzz(func(t *testing.T, input string) {
		var words []string
		var want Args
		var set values
		set.Grace = time.Second
		for item := range strings.SplitSeq(input, "\x00") {
			if item == "" {
				continue
			}
			kind, text := item[0], item[1:]
			switch {
			case want.Dash:
				words, want.After = append(words, text), append(want.After, text)
			case kind == '-':
				words, want.Dash = append(words, "--"), true
			case kind == 'y':
				words, set.Yes = append(words, "--yes"), true
			case kind == 'n':
				words, set.Yes = append(words, "--yes=false"), false
			case kind == 't':
				words, set.Text = append(words, "--text", text), text
			case kind == '=':
				words, set.Text = append(words, "--text="+text), text
			case kind == 'l':
				words, set.List = append(words, "--list", text), append(set.List, text)
			case kind == 'L':
				words, set.List = append(words, "--list="+text), append(set.List, text)
			case text == "-" || !strings.HasPrefix(text, "-"):
				words, want.Before = append(words, text), append(want.Before, text)
			}
		}
		got := values{}
		args, err := parse(newFlags(&got), words)
		if err != nil {
			t.Fatalf("%q: %v", words, err)
		}
		if diff := cmp.Diff(want, args); diff != "" {
			t.Errorf("%q: arguments (-want +got):\n%s", words, diff)
		}
		if diff := cmp.Diff(set, got); diff != "" {
			t.Errorf("%q: flags (-want +got):\n%s", words, diff)
		}
	})
}
