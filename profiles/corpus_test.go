package profiles

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/confinectl/confinectl/resolve"
)

// document is one file of testdata.
type document struct {
	name string // without .toml
	data []byte
	want []string // of a bad one: every problem, as "CODE LINE: SUBJECT: DETAIL"
	// blind says why the schema takes a bad document all the same, or is empty.
	blind string
}

// corpus reads testdata/good or testdata/bad. What is wanted of a document
// stands in its leading comments, or in NAME.want where the document cannot have any:
//
//	# want: profile-key 3: minabi: unknown key
//	# schema: why the schema cannot see it
func corpus(t testing.TB, kind string) []document {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", kind, "*.toml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no documents in testdata/%s: %v", kind, err)
	}
	var docs []document
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := document{name: strings.TrimSuffix(filepath.Base(file), ".toml"), data: data}
		head, err := os.ReadFile(strings.TrimSuffix(file, ".toml") + ".want")
		if errors.Is(err, os.ErrNotExist) {
			head = data
		} else if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(head), "\n") {
			if want, ok := strings.CutPrefix(line, "# want: "); ok {
				d.want = append(d.want, want)
			} else if why, ok := strings.CutPrefix(line, "# schema: "); ok {
				d.blind = why
			} else {
				break
			}
		}
		docs = append(docs, d)
	}
	return docs
}

// problems gives every problem of err in the form of the corpus.
func problems(t testing.TB, err error) []string {
	t.Helper()
	var list resolve.Refusals
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("error of type %T, want resolve.Refusals: %v", err, err)
	}
	var out []string
	for _, r := range list {
		out = append(out, fmt.Sprintf("%s %d: %s: %s", r.Code, r.Origin.Line, r.Subject, r.Detail))
		if r.Origin.File != "FILE" {
			t.Errorf("%v: file %q, want FILE", r, r.Origin.File)
		}
		if len(r.Hints) > 2 {
			t.Errorf("%v: %d hints, want at most 2", r, len(r.Hints))
		}
		if msg := r.Error(); strings.ContainsAny(msg, "\n\x00\x1b") || strings.HasSuffix(msg, ".") {
			t.Errorf("message %q is not one line without a full stop", msg)
		}
	}
	return out
}

func TestGood(t *testing.T) {
	for _, d := range corpus(t, "good") {
		t.Run(d.name, func(t *testing.T) {
			p, err := Parse("name", "FILE", d.data)
			if err != nil {
				t.Fatalf("refused: %v", err)
			}
			text := Print(p)
			again, err := Parse("name", "FILE", text)
			if err != nil {
				t.Fatalf("its print is refused: %v\n%s", err, text)
			}
			if text2 := Print(again); !bytes.Equal(text, text2) || !equal(p, again) {
				t.Errorf("printed and read again it is another profile:\n%s\nthen\n%s", text, text2)
			}
		})
	}
}

func TestBad(t *testing.T) {
	for _, d := range corpus(t, "bad") {
		t.Run(d.name, func(t *testing.T) {
			p, err := Parse("name", "FILE", d.data)
			if p != nil {
				t.Error("an error came with a profile")
			}
			if got := problems(t, err); !slices.Equal(got, d.want) || len(got) == 0 {
				t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(d.want, "\n"))
			}
		})
	}
}
