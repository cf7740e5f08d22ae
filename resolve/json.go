package resolve

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// DecodePolicy reads the JSON form of a policy: one object with the keys of a
// profile (no extends, no description) and the profile's name. It is strict: at
// most [MaxDocument] bytes, UTF-8, no key twice, no null, no other letter case,
// nothing after the object. Refusals: policy-syntax alone, or every
// policy-key, policy-value and path-relative of the document.
func DecodePolicy(data []byte) (*Policy, error) {
	syntax := func(detail string, cause error) error {
		return &Refusal{Code: PolicySyntax, Subject: "policy", Detail: detail, Cause: cause,
			Hints: []string{"`confinectl policy NAME` prints a policy that is well formed"}}
	}
	if len(data) > MaxDocument {
		return nil, syntax("is larger than 1 MiB", nil)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data))
	v, err := decodeValue(dec)
	if err == nil {
		if _, err = dec.ReadToken(); err == io.EOF {
			err = nil
		} else if err == nil {
			return nil, syntax("there is more after the first JSON value", nil)
		}
	} else if errors.Is(err, io.EOF) && len(bytes.TrimSpace(data)) == 0 {
		return nil, syntax("is empty", nil)
	}
	if err != nil {
		return nil, syntax(strings.TrimPrefix(err.Error(), "jsontext: "), err)
	}
	table, ok := v.(map[string]any)
	if !ok {
		return nil, syntax("is "+typeName(v)+", not a JSON object", nil)
	}
	doc := Document{File: "policy", Key: PolicyKey, Value: PolicyValue}
	p, problems := doc.Read(table, "name")
	if name, ok := table["name"]; ok {
		s, problem := doc.String("name", name)
		if problem == nil && !ValidName(s) {
			problem = &Refusal{Code: PolicyValue, Subject: "name", Detail: "is " + strconv.Quote(s) + ", not a profile name", Origin: Origin{File: doc.File}}
		}
		if problem != nil {
			problems = append(problems, problem)
		} else if p != nil {
			p.Name = s
		}
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return p, nil
}

// decodeValue reads one value. Whole numbers become int64, all others float64:
// 3.0 and 3e0 are not whole numbers, because the text decides and not the value.
func decodeValue(dec *jsontext.Decoder) (any, error) {
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return tok.Bool(), nil
	case '"':
		return tok.String(), nil
	case '0':
		n, err := strconv.ParseInt(tok.String(), 10, 64)
		if err != nil {
			return float64(0), nil
		}
		return n, nil
	case '[':
		list := []any{}
		for dec.PeekKind() != ']' {
			v, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := dec.ReadToken()
		return list, err
	case '{':
		table := map[string]any{}
		for dec.PeekKind() != '}' {
			name, err := dec.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			v, err := decodeValue(dec)
			if err != nil {
				return nil, err
			}
			table[key] = v
		}
		_, err := dec.ReadToken()
		return table, err
	}
	return nil, fmt.Errorf("BUG: JSON token %v", tok)
}

// EncodePolicy writes the canonical JSON of a policy: fixed order of keys, no
// white space, only the keys that were written, and a newline at the end.
// Decoding it and encoding again gives the same bytes.
func EncodePolicy(p *Policy) []byte {
	w := &writer{}
	w.open('{')
	if p.Name != "" {
		w.str("name", p.Name)
	}
	w.keys(&p.Common)
	for _, t := range []struct {
		name string
		keys *Keys
	}{{"linux", &p.Linux}, {"darwin", &p.Darwin}} {
		inner := &writer{}
		inner.keys(t.keys)
		if len(inner.buf) > 0 {
			w.name(t.name)
			w.open('{')
			w.buf = append(w.buf, inner.buf...)
			w.close('}')
		}
	}
	w.close('}')
	return append(w.buf, '\n')
}

// writer appends JSON. more says that a comma is due before the next element.
type writer struct {
	buf  []byte
	more bool
}

func (w *writer) comma() {
	if w.more {
		w.buf = append(w.buf, ',')
	}
	w.more = true
}

func (w *writer) open(c byte)  { w.buf, w.more = append(w.buf, c), false }
func (w *writer) close(c byte) { w.buf, w.more = append(w.buf, c), true }

func (w *writer) name(s string) {
	w.comma()
	w.quote(s)
	w.buf = append(w.buf, ':')
}

func (w *writer) quote(s string) {
	var err error
	if w.buf, err = jsontext.AppendQuote(w.buf, s); err != nil {
		panic("BUG: a policy holds a string that is not UTF-8: " + strconv.Quote(s))
	}
}

func (w *writer) str(name, s string) {
	w.name(name)
	w.quote(s)
}

func (w *writer) list(name string, values []Value) {
	if len(values) == 0 {
		return
	}
	w.name(name)
	w.open('[')
	for _, v := range values {
		w.comma()
		w.quote(v.Text)
	}
	w.close(']')
}

func (w *writer) bool(name string, on bool) {
	w.name(name)
	w.buf = strconv.AppendBool(w.buf, on)
}

func (w *writer) flag(name string, f Flag) {
	if f.Set {
		w.bool(name, f.On)
	}
}

func (w *writer) keys(k *Keys) {
	if k.PermitPath.Text != "" {
		w.str("permit_path", k.PermitPath.Text)
	}
	w.list("permit_extra_subpaths", k.PermitExtraSubpaths)
	w.list("read_paths", k.ReadPaths)
	w.list("permit_files", k.PermitFiles)
	w.list("unix_sockets", k.UnixSockets)
	if k.Runtime.Text != "" {
		w.str("runtime", k.Runtime.Text)
	}
	w.flag("pty", k.PTY)
	w.flag("private_tmp", k.PrivateTmp)
	if s := k.AgentScratch; s.Agent != "" {
		w.name("agent_scratch")
		w.open('{')
		w.str("agent", s.Agent)
		if s.Provision {
			w.bool("provision", true)
		}
		w.close('}')
	}
	if len(k.SetEnv) > 0 {
		w.name("set_env")
		w.open('{')
		for _, v := range k.SetEnv {
			w.str(v.Name, v.Value.Text)
		}
		w.close('}')
	}
	if k.MinABI.N > 0 {
		w.name("min_abi")
		w.buf = strconv.AppendInt(w.buf, int64(k.MinABI.N), 10)
	}
	w.flag("audit", k.Audit)
	w.list("mach_lookup", k.MachLookup)
}
