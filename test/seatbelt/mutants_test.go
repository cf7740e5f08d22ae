package seatbelt

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/internal/sbpleval"
	"github.com/confinectl/confinectl/resolve"
)

// A mutant is a mistake that a renderer could make.
type mutant struct {
	name string
	text func(string) string
	// param changes the value of the parameters that it likes.
	param func(string) string
}

// rule cuts the allow rule for an operation out of the part that is rendered.
func rule(text, op string) (before, rule, after string) {
	i := strings.LastIndex(text, "\n(allow "+op)
	end := i + strings.Index(text[i:]+"\n\n", "\n\n")
	return text[:i], text[i:end], text[end:]
}

// emptied takes the filters of the last rule for an operation away.
func emptied(op string) func(string) string {
	return func(text string) string {
		before, r, after := rule(text, op)
		return before + r[:strings.Index(r, "\n  ")] + ")" + after
	}
}

// swapped changes words of the last rule for an operation.
func swapped(op, old, with string) func(string) string {
	return func(text string) string {
		before, r, after := rule(text, op)
		return before + strings.ReplaceAll(r, old, with) + after
	}
}

func replaced(old, with string) func(string) string {
	return func(text string) string { return strings.Replace(text, old, with, 1) }
}

func ending(s, with string) func(string) string {
	return func(v string) string {
		if strings.HasSuffix(v, s) {
			return strings.TrimSuffix(v, s) + with
		}
		return v
	}
}

// inlined writes every parameter into the text, quoted by quote.
func inlined(quote func(string) string) func(string, []sbpleval.Param) string {
	return func(text string, params []sbpleval.Param) string {
		return regexp.MustCompile(`\(param "([A-Z_0-9]+)"\)`).ReplaceAllStringFunc(text, func(p string) string {
			key := strings.Split(p, `"`)[1]
			i := slices.IndexFunc(params, func(p sbpleval.Param) bool { return p.Key == key })
			return quote(params[i].Value)
		})
	}
}

var mutants = []mutant{
	{name: "deny default is dropped", text: replaced("(deny default)\n", "")},
	{name: "deny default comes last", text: func(s string) string { return replaced("(deny default)\n", "")(s) + "(deny default)\n" }},
	{name: "allow default", text: replaced("(deny default)", "(allow default)")},
	{name: "allow default is added", text: func(s string) string { return s + "(allow default)\n" }},
	{name: "version is dropped", text: replaced("(version 1)\n", "")},
	{name: "subpath becomes literal in read", text: swapped("file-read*", "(subpath ", "(literal ")},
	{name: "subpath becomes literal in write", text: swapped("file-write*", "(require-all (subpath ", "(require-all (literal ")},
	{name: "subpath becomes literal in exec", text: swapped("process-exec*", "(subpath ", "(literal ")},
	{name: "literal becomes subpath in the base", text: replaced(`(literal "/")`, `(subpath "/")`)},
	{name: "literal becomes subpath in the base, without the slash", text: replaced(`(literal "/private")`, `(subpath "/private")`)},
	{name: "require-not is dropped everywhere", text: func(s string) string {
		return regexp.MustCompile(` \(require-not \(literal \(param "[A-Z_0-9]+"\)\)\)`).ReplaceAllString(s, "")
	}},
	{name: "require-all becomes require-any", text: swapped("file-write*", "require-all", "require-any")},
	{name: "no filter for file-read*", text: emptied("file-read*")},
	{name: "no filter for file-write*", text: emptied("file-write*")},
	{name: "no filter for process-exec*", text: emptied("process-exec*")},
	{name: "no filter for file-write-data", text: emptied("file-write-data file-write-flags")},
	{name: "no filter for devices", text: emptied("file-write-data\n")},
	{name: "no filter for file-ioctl", text: emptied("file-ioctl")},
	{name: "no filter for network-bind", text: emptied("network-bind")},
	{name: "no filter for network-outbound", text: emptied("network-outbound")},
	{name: "no filter for mach-lookup", text: emptied("mach-lookup")},
	{name: "no filter for the attributes", text: emptied("file-write-acl")},
	{name: "an empty require-any", text: swapped("network-outbound", `(literal (param "SOCKET_0"))`, "(require-any)")},
	{name: "an empty require-all", text: swapped("network-outbound", `(literal (param "SOCKET_0"))`, "(require-all)")},
	{name: "remote without ip", text: replaced("(remote ip)", "(remote)")},
	{name: "the network without a filter", text: replaced("(allow network-outbound (remote ip))", "(allow network*)")},
	{name: "metadata becomes everything", text: replaced("(allow file-read-metadata)", "(allow file-read*)")},
	{name: "metadata is dropped", text: replaced("(allow file-read-metadata)", "")},
	{name: "the root is dropped", text: replaced("\n  (literal \"/\")\n", "\n")},
	{name: "arguments of other processes", text: replaced(`(deny sysctl-read (sysctl-name "kern.procargs") (sysctl-name "kern.procargs2"))`, "")},
	{name: "that deny comes first", text: func(s string) string {
		const deny = `(deny sysctl-read (sysctl-name "kern.procargs") (sysctl-name "kern.procargs2"))` + "\n"
		return replaced("(allow sysctl-read)\n", deny+"(allow sysctl-read)\n")(replaced(deny, "")(s))
	}},
	{name: "preferences of every program", text: replaced(`(allow user-preference-read (preference-domain "kCFPreferencesAnyApplication"))`, "(allow user-preference-read)")},
	{name: "signals to everybody", text: replaced("(allow signal (target self) (target same-sandbox))", "(allow signal)")},
	{name: "Launch Services", text: func(s string) string {
		return s + `(allow mach-lookup (global-name "com.apple.coreservices.launchservicesd"))` + "\n"
	}},
	{name: "a deny of a file", text: func(s string) string { return s + `(deny file-read* (literal "/Users/me/repo/f"))` + "\n" }},
	{name: "read and write are exchanged", text: func(s string) string {
		return strings.NewReplacer("\n(allow file-read*\n", "\n(allow file-write*\n", "\n(allow file-write*\n", "\n(allow file-read*\n").Replace(s)
	}},
	{name: "file-read* becomes file*", text: swapped("file-read*", "file-read*", "file*")},
	{name: "write grants file*", text: swapped("file-write*", "file-write*", "file*")},
	{name: "the single file may be renamed over", text: swapped("file-write-data file-write-flags", "file-write-data", "file-write-create file-write-data")},
	{name: "a socket is not connected but bound", text: swapped("network-outbound", "network-outbound", "network-bind")},
	{name: "a parenthesis too few", text: func(s string) string { return strings.TrimRight(s, ")\n") + "\n" }},
	{name: "a parameter is misspelled", text: replaced(`(param "DIRECTORY_0")`, `(param "DIRECTORY_x")`)},
	{name: "a quote is missing", text: replaced(`(param "DIRECTORY_0")`, `(param "DIRECTORY_0)`)},
	{name: "an unknown word", text: swapped("process-exec*", "file-map-executable", "file-map-executables")},
	{name: "import", text: replaced("(deny default)\n", "(deny default)\n(import \"system.sb\")\n")},
	{name: "trailing slash on a directory", param: ending("/repo", "/repo/")},
	{name: "trailing slash on the single file", param: ending("/.state.json", "/.state.json/")},
	{name: "the /tmp spelling", param: ending("/private/tmp/matrix-501", "/tmp/matrix-501")},
	{name: "the /etc spelling", param: ending("/private/etc", "/etc")},
	{name: "the /var spelling", param: func(v string) string { return strings.Replace(v, "/private/var/", "/var/", 1) }},
	{name: "another letter case", param: ending("/repo", "/Repo")},
	{name: "the data volume's name", param: ending("/Users/me/repo", "/System/Volumes/Data/Users/me/repo")},
	{name: "decomposed accent", param: ending("Café", "Cafe\u0301")},
	{name: "a quoted quote", param: func(v string) string { return strings.ReplaceAll(v, `"`, `\"`) }},
	{name: "the parent", param: ending("/repo", "")},
	{name: "a prefix", param: ending("/repo", "/rep")},
	{name: "an empty path", param: ending("/Users/me/repo", "")},
	{name: "..", param: ending("/repo", "/out/../repo")},
}

// TestMutants changes the rendered text in one place each. Both evaluators
// must notice, by refusing the text or by a row of the matrix.
func TestMutants(t *testing.T) {
	s := render(t, decode(t, strings.ReplaceAll(policyText, "$H", model.home)), paperFacts(), resolve.Request{})
	rows := matrix(t, model)
	asked := questions(t, rows)
	catch := func(t *testing.T, text string, p []sbpleval.Param, all ...string) {
		if text == s.Profile && slices.Equal(p, params(s)) {
			t.Fatal("this changes nothing")
		}
		for name, answer := range map[string]func([]sbpleval.Query) ([]bool, error){"go": byGo(text, p), "tinyscheme": byScheme(t, text, p)} {
			if name == "tinyscheme" && slices.Contains(all, "go only") {
				continue
			}
			wrong, err := wrongRows(rows, asked, answer)
			if name == "tinyscheme" && !needScheme(t, err) {
				continue
			}
			if err == nil && len(wrong) == 0 {
				t.Errorf("%s did not notice", name)
			}
		}
	}
	count := 0
	for _, m := range mutants {
		count++
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			text, p := s.Profile, params(s)
			if m.text != nil {
				text = m.text(text)
			}
			for i := range p {
				if m.param != nil {
					p[i].Value = m.param(p[i].Value)
				}
			}
			// A form that means the same is for the stricter of the two.
			var only []string
			if slices.Contains([]string{"deny default comes last", "that deny comes first", "a deny of a file", "an empty require-any"}, m.name) {
				only = []string{"go only"}
			}
			catch(t, text, p, only...)
		})
	}
	// Paths in the text instead of parameters, quoted wrongly in the ways that were found in public.
	for name, quote := range map[string]func(string) string{
		"no escaping":         func(v string) string { return `"` + v + `"` },
		"only quotes escaped": func(v string) string { return `"` + strings.ReplaceAll(v, `"`, `\"`) + `"` },
		"escaped in this order": func(v string) string {
			return `"` + strings.ReplaceAll(strings.ReplaceAll(v, `"`, `\"`), `\`, `\\`) + `"`
		},
		"as JSON": func(v string) string {
			return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "é", `\u00e9`).Replace(v) + `"`
		},
		"single quotes": func(v string) string { return "'" + v + "'" },
	} {
		count++
		t.Run("inline, "+name, func(t *testing.T) { catch(t, inlined(quote)(s.Profile, params(s)), nil) })
	}
	t.Logf("%d mutants", count)
}
