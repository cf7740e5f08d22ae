package command

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Args are the words of a command line that are no flags: those before the first
// "--", and those after it.
type Args struct {
	Before []string
	After  []string // nil where there are none
	Dash   bool     // there was a "--"
}

// All are both.
func (a Args) All() []string { return slices.Concat(a.Before, a.After) }

// parse sets flags from words and gives the other words. A flag may stand at any
// place before "--", and is written --name VALUE or --name=VALUE; one that is
// true or false, --name or --name=VALUE. The word after a flag that needs a value is its value,
// whatever it is, "--" included. A single "-" is no flag. -h is --help, and no other flag has
// a short form.
func parse(flags *flag.FlagSet, words []string) (Args, error) {
	var args Args
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		if word == "--" {
			args.Dash = true
			if len(words) > 0 {
				args.After = words
			}
			break
		}
		if word == "-" || !strings.HasPrefix(word, "-") {
			args.Before = append(args.Before, word)
			continue
		}
		long, isLong := strings.CutPrefix(word, "--")
		if !isLong {
			if short := strings.TrimLeft(word[1:], "h"); short != "" {
				r, _ := utf8.DecodeRuneInString(short)
				return args, fmt.Errorf("unknown shorthand flag: %q in %s", r, word)
			}
			long = "help"
		}
		name, value, hasValue := strings.Cut(long, "=")
		if name == "" || name[0] == '-' {
			return args, fmt.Errorf("bad flag syntax: %s", word)
		}
		f := flags.Lookup(name)
		if f == nil {
			return args, fmt.Errorf("unknown flag: --%s", name)
		}
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		isBool := ok && b.IsBoolFlag()
		switch {
		case hasValue:
		case isBool:
			value = "true"
		case len(words) == 0:
			return args, fmt.Errorf("flag needs an argument: --%s", name)
		default:
			value, words = words[0], words[1:]
		}
		if err := flags.Set(name, value); err != nil {
			if isBool {
				err = errors.New("not true or false")
			}
			return args, fmt.Errorf("invalid argument %q for %q flag: %w", value, "--"+name, err)
		}
	}
	return args, nil
}

// Strings is the value of a flag that may be repeated.
type Strings []string

// String is empty: such a flag has no default.
func (s *Strings) String() string { return "" }

// Set adds one.
func (s *Strings) Set(value string) error {
	*s = append(*s, value)
	return nil
}

// Ints is the value of a flag that may be repeated, and takes several numbers with commas between.
type Ints []int

// String is empty: such a flag has no default.
func (n *Ints) String() string { return "" }

// Set adds all of value, or nothing.
func (n *Ints) Set(value string) error {
	var list []int
	for text := range strings.SplitSeq(value, ",") {
		i, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		list = append(list, i)
	}
	*n = append(*n, list...)
	return nil
}
