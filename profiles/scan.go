package profiles

import (
	"bytes"
	"strconv"
)

// No profile comes near these limits: [linux.set_env] and a variable make three
// levels. They are for the library, which copies the whole key at every level: 300 KiB
// of "{a=" take more than 6 GB (measured, v1.6.0), and nothing recovers from that.
const (
	maxDepth = 8
	maxKey   = 256
)

// scanner reads a document before the TOML library does, for what the library
// does not give: the line of every key and list element, limits, and the certainty that
// nothing is defined twice. The library takes "a.b = 1" before "a = [2]", and of
// "a = { b.c = 1, b = 2 }" it drops b = 2 without a word (measured, v1.6.0).
//
// It does not judge whether the document is TOML: where it cannot read on it
// stops, and the library finds the same fault and names it.
type scanner struct {
	data  []byte
	pos   int
	line  int            // of pos
	lines map[string]int // where a dotted key, as in resolve.Origin.Key, first stands
	kinds map[string]kind
	fault string // what is wrong on line, or ""
}

// kind is how a key came to be, which decides whether it may be written again.
type kind uint8

const (
	parent kind = iota + 1 // a in [a.b]: may still get its own header
	header                 // [a]
	dotted                 // a in a.b = 1: may be extended in the same way only
	value                  // a = 1, and inline tables: complete
)

// place is a key on its way down: its dotted name, and how many levels it has.
// Below the header of an array of tables, keys come again and are loose: no
// profile has such arrays, so the document is refused for that.
type place struct {
	key   string
	depth int
	loose bool
}

// scan reads as far as it can; what it made of the document holds if it
// reached the end.
func scan(data []byte) *scanner {
	s := &scanner{data: bytes.TrimPrefix(data, []byte("\ufeff")), line: 1, lines: map[string]int{}, kinds: map[string]kind{}}
	table := place{}
	for ok := true; ok && s.space(true) != 0; {
		if s.peek() == '[' {
			table, ok = s.header()
		} else {
			ok = s.pair(table)
		}
	}
	return s
}

// complete reports whether the scanner understood the whole document.
func (s *scanner) complete() bool { return s.fault == "" && s.pos == len(s.data) }

// header reads "[table]" or "[[table]]".
func (s *scanner) header() (place, bool) {
	s.eat('[')
	array := s.eat('[')
	p, ok := s.key(place{loose: array}, parent)
	if !ok || s.space(false) != ']' {
		return p, false
	}
	s.eat(']')
	if array {
		return p, s.eat(']')
	}
	if k := s.kinds[p.key]; k != 0 && k != parent {
		return p, s.twice(p)
	}
	s.kinds[p.key] = header
	return p, true
}

// pair reads "key = value".
func (s *scanner) pair(table place) bool {
	p, ok := s.key(table, dotted)
	if !ok || s.space(false) != '=' {
		return false
	}
	if s.kinds[p.key] != 0 && !p.loose {
		return s.twice(p)
	}
	s.kinds[p.key] = value
	s.eat('=')
	return s.value(p)
}

func (s *scanner) value(p place) bool {
	switch s.space(false) {
	case '"', '\'':
		s.str()
		return true
	case '[':
		s.eat('[')
		for i := 0; s.space(true) != ']'; i++ {
			e := place{p.key + "[" + strconv.Itoa(i) + "]", p.depth + 1, p.loose}
			if !s.enter(e) || !s.value(e) {
				return false
			}
			if s.space(true) != ']' && !s.eat(',') {
				return false
			}
		}
		return s.eat(']')
	case '{':
		s.eat('{')
		for s.space(true) != '}' {
			if !s.pair(p) {
				return false
			}
			if s.space(true) != '}' && !s.eat(',') {
				return false
			}
		}
		return s.eat('}')
	}
	n := bytes.IndexAny(s.data[s.pos:], ",]}#\n") // a number, boolean, or date with a space in it
	if n < 0 {
		n = len(s.data) - s.pos
	}
	s.pos += n
	return n > 0
}

// key reads a dotted key below p. Every part but the last is a table, and
// becomes of kind by being named here.
func (s *scanner) key(p place, by kind) (place, bool) {
	for {
		var part string
		if c := s.space(false); c == '"' || c == '\'' {
			part = s.str()
			if c == '"' && bytes.IndexByte([]byte(part), '\\') >= 0 {
				s.fault = "has a key that is written with an escape"
				return p, false
			}
		} else {
			start := s.pos
			for c := s.peek(); c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'; c = s.peek() {
				s.pos++
			}
			if part = string(s.data[start:s.pos]); part == "" {
				return p, false
			}
		}
		if p.depth > 0 {
			part = "." + part
		}
		p = place{p.key + part, p.depth + 1, p.loose}
		if !s.enter(p) {
			return p, false
		}
		if s.space(false) != '.' {
			return p, true
		}
		s.eat('.')
		switch k := s.kinds[p.key]; {
		case k == 0:
			s.kinds[p.key] = by
		case k == value || by == dotted && k != dotted && !p.loose:
			return p, s.twice(p)
		}
	}
}

// enter notes where p stands for the first time and holds it to the limits.
func (s *scanner) enter(p place) bool {
	switch {
	case p.depth > maxDepth:
		s.fault = "nests deeper than " + strconv.Itoa(maxDepth) + " levels"
	case len(p.key) > maxKey:
		s.fault = "has a key longer than " + strconv.Itoa(maxKey) + " bytes"
	case s.lines[p.key] == 0:
		s.lines[p.key] = s.line
	}
	return s.fault == ""
}

func (s *scanner) twice(p place) bool {
	s.fault = "defines " + p.key + " a second time"
	if first := s.lines[p.key]; first != s.line {
		s.fault += ", after line " + strconv.Itoa(first)
	}
	return false
}

// str reads a string of any of the four kinds and returns what stands between
// its quotes, escapes as they are written.
func (s *scanner) str() string {
	quote := s.data[s.pos : s.pos+1]
	if long := bytes.Repeat(quote, 3); bytes.HasPrefix(s.data[s.pos:], long) {
		quote = long
	}
	s.pos += len(quote)
	start := s.pos
	for s.pos < len(s.data) && !bytes.HasPrefix(s.data[s.pos:], quote) {
		switch s.data[s.pos] {
		case '\n':
			if len(quote) == 1 {
				return string(s.data[start:s.pos])
			}
			s.line++
		case '\\':
			if quote[0] == '"' && s.pos+1 < len(s.data) && s.data[s.pos+1] != '\n' {
				s.pos++
			}
		}
		s.pos++
	}
	text := string(s.data[start:s.pos])
	s.pos = min(s.pos+len(quote), len(s.data))
	for range len(quote) - 1 { // """x""""" ends in two quotes of its own
		s.eat(quote[0])
	}
	return text
}

// space skips white space, with lines also newlines and comments, and returns
// the next byte as peek does.
func (s *scanner) space(lines bool) byte {
	for ; s.pos < len(s.data); s.pos++ {
		switch c := s.data[s.pos]; {
		case c == ' ' || c == '\t':
		case lines && c == '\r':
		case lines && c == '\n':
			s.line++
		case lines && c == '#':
			n := bytes.IndexByte(s.data[s.pos:], '\n')
			if n < 0 {
				n = len(s.data) - s.pos
			}
			s.pos += n - 1
		default:
			return c
		}
	}
	return 0
}

// peek returns the next byte, 0 at the end. A NUL in the document is not
// the end, but nobody reads on behind it: the library refuses it.
func (s *scanner) peek() byte {
	if s.pos == len(s.data) {
		return 0
	}
	return s.data[s.pos]
}

func (s *scanner) eat(c byte) bool {
	if s.pos == len(s.data) || s.data[s.pos] != c {
		return false
	}
	s.pos++
	return true
}
