package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/confinectl/confinectl/enforce"
	"github.com/confinectl/confinectl/internal/command"
	"github.com/confinectl/confinectl/resolve"
)

// Exit statuses. exec, confine-exec and supervise leave all below 125 to the command.
const (
	statusProblems = 1   // a report found problems
	statusUsage    = 2   // wrong usage of a report
	statusRefused  = 125 // exec, confine-exec and supervise: refused or wrong usage, nothing executed
)

// refusalStatus is what a command ends with when it refuses or is used wrongly.
func refusalStatus(name string) int {
	if name == "exec" || name == "confine-exec" || name == "supervise" {
		return statusRefused
	}
	return statusProblems
}

// usagef is wrong usage of the command line. Without a hint, the hint is the usage line of the command.
func usagef(hint, format string, args ...any) error {
	return &command.UsageError{Detail: fmt.Sprintf(format, args...), Hint: hint}
}

// exitStatus is what a command of the user ended with: there is nothing to say.
type exitStatus int

func (s exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// problems says that a report was printed and found problems: there is nothing
// left to say.
var errProblems = errors.New("problems found")

// message is what goes to stderr: one JSON object, or lines of text.
type message struct {
	Error    string        `json:"error"` // "refused", "usage", "exec", "system" or "internal"
	Status   int           `json:"status"`
	Code     string        `json:"code,omitempty"`    // of the first refusal
	Subject  string        `json:"subject,omitempty"` // likewise
	Detail   string        `json:"detail,omitempty"`
	Hints    []string      `json:"hints,omitempty"`
	Refusals []refusalJSON `json:"refusals,omitempty"` // all of them
}

type refusalJSON struct {
	Code    string   `json:"code"`
	Subject string   `json:"subject"`
	Detail  string   `json:"detail"`
	File    string   `json:"file,omitempty"`
	Line    int      `json:"line,omitzero"`
	Key     string   `json:"key,omitempty"`
	Hints   []string `json:"hints,omitempty"`
}

func toJSON(r *resolve.Refusal) refusalJSON {
	return refusalJSON{string(r.Code), r.Subject, r.Detail, r.Origin.File, r.Origin.Line, r.Origin.Key, r.Hints}
}

// refusals takes the refusals out of an error.
func refusals(err error) resolve.Refusals {
	var list resolve.Refusals
	if errors.As(err, &list) {
		return list
	}
	var one *resolve.Refusal
	if errors.As(err, &one) {
		return resolve.Refusals{one}
	}
	return nil
}

// report is the one place where an error becomes words and an exit status.
func (c *cli) report(err error, refused int) int {
	if err == nil {
		return 0
	}
	if errors.Is(err, errProblems) {
		return statusProblems
	}
	var ended exitStatus
	if errors.As(err, &ended) {
		return int(ended)
	}
	m := message{Status: refused}
	var lines []string
	var usage *command.UsageError
	var execErr *enforce.ExecError
	list := refusals(err)
	switch {
	case errors.As(err, &execErr):
		m.Error, m.Status, m.Subject, m.Detail = "exec", execErr.Status, execErr.Argv0, execErr.Detail
		lines = append(lines, execErr.Error())
	case len(list) > 0:
		m.Error, m.Code, m.Subject, m.Detail = "refused", string(list[0].Code), list[0].Subject, list[0].Detail
		for _, r := range list {
			lines = append(lines, "refused: "+r.Error())
			m.Refusals = append(m.Refusals, toJSON(r))
			for _, h := range r.Hints {
				if len(m.Hints) < 2 && !strings.Contains(strings.Join(m.Hints, "\n"), h) {
					m.Hints = append(m.Hints, h)
				}
			}
		}
	default:
		m.Error, m.Detail = "system", err.Error()
		var keep *enforce.KeepError
		switch {
		case errors.As(err, &usage), errors.As(err, &keep):
			m.Error = "usage"
			if refused == statusProblems {
				m.Status = statusUsage
			}
		case strings.Contains(m.Detail, "BUG"):
			m.Error = "internal"
		}
		if usage != nil && usage.Hint != "" {
			m.Hints = append(m.Hints, usage.Hint)
		}
		lines = append(lines, m.Error+": "+oneLine(err.Error()))
	}
	if c.errorFormat == "json" {
		c.printJSON(c.stderr, m)
		return m.Status
	}
	for _, l := range lines {
		fmt.Fprintf(c.stderr, "confinectl: %s\n", l)
	}
	for _, h := range m.Hints {
		fmt.Fprintf(c.stderr, "confinectl: hint: %s\n", h)
	}
	return m.Status
}

// printJSON writes one document.
func (c *cli) printJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	var format []jsontext.Options
	if w == c.stdout {
		format = append(format, jsontext.WithIndent("  "))
	}
	data, err := marshal(v, format...)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// marshal gives a line of JSON, or several. Nothing of ours can fail to be marshalled: a
// string that is not UTF-8 is made so. encoding/json escapes more than JSON needs, and jsontext
// takes that back.
func marshal(v any, format ...jsontext.Options) ([]byte, error) {
	data, err := json.Marshal(v)
	text := jsontext.Value(data)
	if err == nil {
		err = text.Format(format...)
	}
	if err != nil {
		return nil, fmt.Errorf("BUG: report cannot be written as JSON: %w", err)
	}
	return append(text, '\n'), nil
}

// notNull is a list that is [] in a report where there is nothing in it.
func notNull[T any](list []T) []T { return append([]T{}, list...) }
