package sbpleval

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// node is one expression: a list, a string or a symbol.
type node struct {
	list   []node
	text   string
	kind   byte // '(', '"' or 'a'
	offset int
}

// maxToken is how long a string may be in the text: TinyScheme's reader, of
// which Apple's is a relative, has a buffer of 256 bytes.
const maxToken = 255

// read takes a text apart. Only what every reader of the family takes the same
// way is read at all: lists, symbols of plain characters, strings with \\ and \"
// as the only escapes, comments.
func read(text string) ([]node, error) {
	r := &reader{text: text}
	var top []node
	for {
		r.space()
		if r.at == len(r.text) {
			return top, nil
		}
		n, err := r.node(0)
		if err != nil {
			return nil, err
		}
		top = append(top, n)
	}
}

type reader struct {
	text string
	at   int
}

func (r *reader) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+strings.Count(r.text[:r.at], "\n"), fmt.Sprintf(format, args...))
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case ' ', '\n':
			r.at++
		case ';':
			if end := strings.IndexByte(r.text[r.at:], '\n'); end >= 0 {
				r.at += end
			} else {
				r.at = len(r.text)
			}
		default:
			return
		}
	}
}

func (r *reader) node(depth int) (node, error) {
	if depth > 8 {
		return node{}, r.fail("lists in lists, more than 8 deep")
	}
	n := node{kind: r.text[r.at], offset: r.at}
	switch n.kind {
	case '(':
		r.at++
		for {
			r.space()
			if r.at == len(r.text) {
				return node{}, r.fail("a list is never closed")
			}
			if r.text[r.at] == ')' {
				r.at++
				return n, nil
			}
			e, err := r.node(depth + 1)
			if err != nil {
				return node{}, err
			}
			n.list = append(n.list, e)
		}
	case '"':
		return r.str(n)
	}
	n.kind = 'a'
	for r.at < len(r.text) && symbolByte(r.text[r.at]) {
		r.at++
	}
	n.text = r.text[n.offset:r.at]
	if n.text == "" {
		return node{}, r.fail("the character %q is not read", r.text[r.at])
	}
	if r.at < len(r.text) && !strings.ContainsRune(" \n();", rune(r.text[r.at])) {
		return node{}, r.fail("the character %q in a symbol", r.text[r.at])
	}
	return n, nil
}

func symbolByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '*' || c == '_'
}

func (r *reader) str(n node) (node, error) {
	var b strings.Builder
	for r.at++; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			if n.text = b.String(); !utf8.ValidString(n.text) {
				return n, r.fail("a string that is not UTF-8")
			}
			if len(n.text) > maxToken {
				return n, r.fail("a string of %d bytes", len(n.text))
			}
			if r.at < len(r.text) && !strings.ContainsRune(" \n);", rune(r.text[r.at])) {
				return n, r.fail("the character %q after a string", r.text[r.at])
			}
			return n, nil
		case c == '\\':
			r.at++
			if r.at == len(r.text) || r.text[r.at] != '\\' && r.text[r.at] != '"' {
				return n, r.fail("an escape that readers differ on")
			}
			b.WriteByte(r.text[r.at])
		case c < ' ' || c == 0x7f:
			return n, r.fail("the control character %q in a string", c)
		default:
			b.WriteByte(c)
		}
	}
	return n, r.fail("a string is never closed")
}
