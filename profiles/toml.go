package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/confinectl/confinectl/resolve"
)

// No profile comes near these limits: [linux.set_env] and a variable make three
// levels. With them a document costs time and memory by its size only: every
// level has the whole key. The library stops at 10,000 levels, for which it takes 9 MB of
// stack and 4 ms (v2.4.3, 300 KiB of "[" or "{a=").
const (
	maxDepth = 8
	maxKey   = 256
)

// reader makes the values that resolve.Document reads of the expressions that the TOML
// library parses, and finds the line of every key and list element.
//
// The parser knows the grammar: which characters a string, a comment and a key may
// have, how a number is written, that every expression ends its line. It leaves to
// its caller that nothing is defined twice, that a number fits into 64 bits,
// and that a date exists. The limits, and that no key is written with an escape, are ours.
type reader struct {
	parser  unstable.Parser
	data    []byte
	pos     int // how far data was read
	line    int // of pos
	lines   map[string]int
	problem *resolve.Refusal
}

// place is where a value stands: its dotted key, as in resolve.Origin.Key, and
// how many levels that has.
type place struct {
	key   string
	depth int
}

// table is a table that later lines can write into. An inline table is complete.
type table struct {
	place
	made   made
	values map[string]any
	open   map[string]*table // those of values; for an array of tables its last element
}

// made is what a table was made by, which decides what may write into it.
type made uint8

const (
	byParent made = iota // a of [a.b]: may still get its own header
	byHeader             // a of [a]
	byDotted             // a of a.b = 1: further dotted keys only
	byArray              // a of [[a]]
)

// decode turns TOML into the values that resolve.Document reads, and its dotted keys
// into the lines that they first stand on. A refusal comes alone, and lacks the subject
// and the file.
func decode(data []byte) (map[string]any, map[string]int, *resolve.Refusal) {
	r := &reader{data: data, lines: map[string]int{}}
	root := &table{values: map[string]any{}}
	if len(data) > resolve.MaxDocument {
		r.wrong("is larger than 1 MiB")
	} else if r.line = 1; utf8.Valid(data) {
		r.data = bytes.TrimPrefix(data, []byte("\ufeff"))
		r.document(root)
	} else {
		for i, c := range string(data) {
			if c == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte("\ufffd")) {
				r.advance(i)
				r.wrong("is not valid UTF-8")
				break
			}
		}
	}
	if r.problem != nil {
		return nil, nil, r.problem
	}
	return root.values, r.lines, nil
}

// document reads every expression, or up to the first fault.
func (r *reader) document(root *table) {
	r.parser.Reset(r.data)
	for t := root; r.problem == nil && r.parser.NextExpression(); {
		if n := r.parser.Expression(); n.Kind == unstable.KeyValue {
			r.pair(t, n)
		} else {
			t = r.header(root, n)
		}
	}
	if err := r.parser.Error(); err != nil {
		r.syntax(err)
	}
}

// wrong refuses the document for its first fault, which is on the line that
// is being read.
func (r *reader) wrong(detail string) {
	if r.problem == nil {
		r.problem = &resolve.Refusal{Code: resolve.ProfileSyntax, Detail: detail, Origin: resolve.Origin{Line: r.line}}
	}
}

// syntax reports an error of the parser. In its words a character goes by its first
// byte, what stands in the place of a value by its first character or by what that
// could have begun, and what was met instead of what was expected mostly not at all.
func (r *reader) syntax(err error) {
	detail := err.Error()
	pe := (*unstable.ParserError)(nil)
	if !errors.As(err, &pe) || len(pe.Highlight) == 0 {
		r.wrong(detail)
		return
	}
	at := r.parser.Range(pe.Highlight)
	r.line = 1 + bytes.Count(r.data[:at.Offset], []byte("\n"))
	rest := r.data[at.Offset+at.Length-1:] // from the character that the message may name
	c, _ := utf8.DecodeRune(rest)
	detail = strings.Replace(detail, fmt.Sprintf("%#U", rest[0]), strconv.QuoteRune(c), 1)
	before := bytes.TrimRight(r.data[:at.Offset], " \t\r\n")
	word, _, _ := bytes.Cut(r.data[at.Offset:], []byte("\n"))
	word = bytes.TrimRight(word[:min(len(word), 40)], "\r")
	if i := bytes.IndexAny(word, " \t,]#"); i >= 0 {
		word = word[:i]
	}
	if !bytes.Contains(word, []byte("{")) {
		word = bytes.TrimRight(word, "}")
	}
	value := bytes.HasSuffix(before, []byte("=")) || strings.HasSuffix(detail, "at start of value") || strings.HasPrefix(detail, "expected keyword")
	switch {
	case c == 0:
		detail = "has a NUL byte; if it is in UTF-16, save it as UTF-8"
	case value && len(word) == 0:
		detail = "has no value after " + strconv.QuoteRune(rune(before[len(before)-1]))
	case value && bytes.IndexByte([]byte("0123456789+-.\"'[{"), word[0]) < 0:
		r.wrong(fmt.Sprintf("expected a value but found %q", bytes.ToValidUTF8(word, nil)))
		r.problem.Hints = []string{`text is written in quotes, as "/srv/a"; true and false are not`}
		return
	case strings.HasPrefix(detail, "expected '") && len(rest) > utf8.RuneLen(c):
		detail += " but found " + strconv.QuoteRune(c)
	}
	r.wrong(detail)
}

// header reads "[table]" or "[[table]]", and returns the table that the lines
// after it write into.
func (r *reader) header(root *table, n *unstable.Node) *table {
	t, name, p := r.key(root, n, byParent)
	old, open := t.values[name], t.open[name]
	switch {
	case n.Kind == unstable.ArrayTable && (old == nil || open != nil && open.made == byArray):
		list, _ := old.([]any)
		e := t.add(name, r.enter(p.key+"["+strconv.Itoa(len(list))+"]", p.depth+1), byArray)
		t.values[name] = append(list, e.values)
		return e
	case n.Kind == unstable.Table && old == nil:
		return t.add(name, p, byHeader)
	case n.Kind == unstable.Table && open != nil && open.made == byParent:
		open.made = byHeader
		return open
	}
	r.twice(p)
	return t
}

// pair reads "key = value".
func (r *reader) pair(t *table, n *unstable.Node) {
	t, name, p := r.key(t, n, byDotted)
	if t.values[name] != nil {
		r.twice(p)
		return
	}
	t.values[name] = r.value(n.Value(), p)
}

// key goes down the dotted key of n from t, and makes the tables on the way that are
// not there. It returns the table that the last part belongs to, that part, and its
// place.
func (r *reader) key(t *table, n *unstable.Node, by made) (*table, string, place) {
	for it := n.Key(); it.Next(); {
		part := it.Node()
		r.advance(int(part.Raw.Offset))
		if raw := r.parser.Raw(part.Raw); raw[0] == '"' && bytes.IndexByte(raw, '\\') >= 0 {
			r.wrong("has a key that is written with an escape")
		}
		name := string(part.Data)
		key := name
		if t.depth > 0 {
			key = t.key + "." + name
		}
		p := r.enter(key, t.depth+1)
		open := t.open[name]
		switch {
		case r.problem != nil || it.IsLast():
			r.pos += int(part.Raw.Length)
			return t, name, p
		case t.values[name] == nil:
			t = t.add(name, p, by)
		case open == nil || by == byDotted && open.made != byDotted:
			r.twice(p)
			return t, name, p
		default:
			t = open
		}
	}
	panic("BUG: an expression without a key")
}

// add makes a table in t.
func (t *table) add(name string, p place, by made) *table {
	inner := &table{place: p, made: by, values: map[string]any{}}
	if t.open == nil {
		t.open = map[string]*table{}
	}
	t.open[name], t.values[name] = inner, inner.values
	return inner
}

// enter notes where a key stands for the first time and holds it to the limits.
func (r *reader) enter(key string, depth int) place {
	if depth > maxDepth {
		r.wrong("nests deeper than " + strconv.Itoa(maxDepth) + " levels")
	} else if len(key) > maxKey {
		r.wrong("has a key longer than " + strconv.Itoa(maxKey) + " bytes")
	} else if r.lines[key] == 0 {
		r.lines[key] = r.line
	}
	return place{key, depth}
}

func (r *reader) twice(p place) {
	detail := "defines " + p.key + " a second time"
	if first := r.lines[p.key]; first != r.line {
		detail += ", after line " + strconv.Itoa(first)
	}
	r.wrong(detail)
}

// value reads the value at p: one that is nil comes with a problem.
func (r *reader) value(n *unstable.Node, p place) any {
	if r.skip(); r.problem != nil {
		return nil
	}
	switch n.Kind {
	case unstable.Array:
		list := []any{}
		r.pos++
		for it := n.Children(); r.problem == nil && it.Next(); {
			r.skip()
			list = append(list, r.value(it.Node(), r.enter(p.key+"["+strconv.Itoa(len(list))+"]", p.depth+1)))
		}
		r.skip()
		r.pos++
		return list
	case unstable.InlineTable:
		t := &table{place: p, values: map[string]any{}}
		r.pos++
		for it := n.Children(); r.problem == nil && it.Next(); {
			r.pair(t, it.Node())
		}
		r.skip()
		r.pos++
		return t.values
	}
	v := r.scalar(n.Kind, string(n.Data))
	r.advance(r.pos + int(n.Raw.Length))
	return v
}

// date is a date, a time of day or both, as it is written. No key takes one.
type date string

// scalar reads what the parser took for a kind.
func (r *reader) scalar(kind unstable.Kind, text string) any {
	switch kind {
	case unstable.String:
		return text
	case unstable.Bool:
		return text == "true"
	case unstable.Integer:
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			r.wrong("has a number that does not fit into 64 bits")
		}
		return n
	case unstable.Float:
		if strings.HasSuffix(text, "nan") { // with a sign, which Go does not know
			return math.NaN()
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
		if err != nil {
			r.wrong("has a number that does not fit into 64 bits")
		}
		return f
	}
	if !exists(text) {
		r.wrong("has a date or time that does not exist")
	}
	return date(text)
}

// exists judges what begins as a date or a time of day and has only the characters of
// one. It keeps away from the local time zone, for which a file would be read.
func exists(s string) bool {
	is := func(layout, s string) bool {
		_, err := time.ParseInLocation(layout, s, time.UTC)
		return err == nil
	}
	clock, zone := s, "Z"
	if s[2] != ':' {
		if len(s) <= 10 || !is(time.DateOnly, s[:10]) || !strings.Contains("Tt ", s[10:11]) {
			return is(time.DateOnly, s)
		}
		clock = s[11:]
		if i := strings.IndexAny(clock, "Zz+-"); i >= 0 {
			clock, zone = clock[:i], clock[i:]
		}
	}
	offset := zone == "Z" || zone == "z" || len(zone) == 6 && strings.Contains("+-", zone[:1]) && is("15:04", zone[1:])
	return offset && len(clock) >= 5 && clock[2] == ':' && (is("15:04", clock) || is(time.TimeOnly, clock))
}

// skip goes to the next value or bracket. Only an equals sign or a comma, white
// space, newlines and comments stand before it.
func (r *reader) skip() {
	for to := r.pos; r.problem == nil; {
		switch r.data[to] {
		case ' ', '\t', '\r', '\n', ',', '=':
			to++
		case '#':
			to += bytes.IndexByte(r.data[to:], '\n')
		default:
			r.advance(to)
			return
		}
	}
}

func (r *reader) advance(to int) {
	r.line += bytes.Count(r.data[r.pos:to], []byte("\n"))
	r.pos = to
}
