package profiles

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/confinectl/confinectl/resolve"
)

// Print writes the canonical TOML of a profile that [Parse] or [Merge] made:
// fixed order of keys, only those that were written, no comments. Parsing it gives the
// same profile except for origins and empty tables, and printing that gives the same bytes. A
// merged profile prints its extends and also what it has from them; clear
// Extends first for a text that stands alone.
func Print(p *Profile) []byte {
	w := &writer{}
	w.str("description", p.Description)
	w.list("extends", p.Extends)
	w.keys(&p.Policy.Common)
	w.table("linux", &p.Policy.Linux)
	w.table("darwin", &p.Policy.Darwin)
	return []byte(w.String())
}

// writer writes the lines of TOML.
type writer struct{ strings.Builder }

func (w *writer) table(name string, k *resolve.Keys) {
	inner := &writer{}
	inner.keys(k)
	if inner.Len() == 0 {
		return
	}
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	fmt.Fprintf(w, "[%s]\n%s", name, inner)
}

func (w *writer) keys(k *resolve.Keys) {
	w.str("permit_path", k.PermitPath.Text)
	w.list("permit_extra_subpaths", k.PermitExtraSubpaths)
	w.list("read_paths", k.ReadPaths)
	w.list("permit_files", k.PermitFiles)
	w.list("unix_sockets", k.UnixSockets)
	w.str("runtime", k.Runtime.Text)
	w.flag("pty", k.PTY)
	w.flag("private_tmp", k.PrivateTmp)
	if s := k.AgentScratch; s.Provision {
		fmt.Fprintf(w, "agent_scratch = { agent = %s, provision = true }\n", quote(s.Agent))
	} else if s.Agent != "" {
		fmt.Fprintf(w, "agent_scratch = { agent = %s }\n", quote(s.Agent))
	}
	if len(k.SetEnv) > 0 {
		entries := make([]string, len(k.SetEnv))
		for i, v := range k.SetEnv {
			entries[i] = v.Name + " = " + quote(v.Value.Text)
		}
		fmt.Fprintf(w, "set_env = { %s }\n", strings.Join(entries, ", "))
	}
	if k.MinABI.N > 0 {
		fmt.Fprintf(w, "min_abi = %d\n", k.MinABI.N)
	}
	w.flag("audit", k.Audit)
	w.list("mach_lookup", k.MachLookup)
}

func (w *writer) str(key, s string) {
	if s != "" {
		fmt.Fprintf(w, "%s = %s\n", key, quote(s))
	}
}

func (w *writer) flag(key string, f resolve.Flag) {
	if f.Set {
		fmt.Fprintf(w, "%s = %t\n", key, f.On)
	}
}

// list puts one element on the line of its key and several on lines of their own.
func (w *writer) list(key string, list []resolve.Value) {
	switch len(list) {
	case 0:
	case 1:
		fmt.Fprintf(w, "%s = [%s]\n", key, quote(list[0].Text))
	default:
		fmt.Fprintf(w, "%s = [\n", key)
		for _, v := range list {
			fmt.Fprintf(w, "    %s,\n", quote(v.Text))
		}
		w.WriteString("]\n")
	}
}

// quote writes a basic string. It escapes what TOML demands, and every other
// character that a terminal or an editor would not show as itself.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c <= 0xffff:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			fmt.Fprintf(&b, `\U%08x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
