package resolve

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecodePolicyRefuses(t *testing.T) {
	for _, tt := range []struct {
		doc  string
		want []Code // every refusal, in order
		text string // part of the message
	}{
		{``, []Code{PolicySyntax}, "is empty"},
		{" \n", []Code{PolicySyntax}, "is empty"},
		{`null`, []Code{PolicySyntax}, "null, not a JSON object"},
		{`[]`, []Code{PolicySyntax}, "a list"},
		{`{`, []Code{PolicySyntax}, ""},
		{`{"permit_path":"/a"}{"permit_path":"/"}`, []Code{PolicySyntax}, "more after"},
		{`{"permit_path":"/a"} x`, []Code{PolicySyntax}, ""},
		{"{\"permit_path\":\"/a\"}\x00", []Code{PolicySyntax}, ""},
		{`{"permit_path":"/a","permit_path":"/b"}`, []Code{PolicySyntax}, "duplicate"},
		{`{"permit_path":"/a","Permit_Path":"/b"}`, []Code{PolicyKey}, "did you mean permit_path?"},
		{`{"PERMIT_PATH":"/a"}`, []Code{PolicyKey}, "permit_path"},
		{`{"permit_path":null}`, []Code{PolicyValue}, "null"},
		{`{"permit_path":7}`, []Code{PolicyValue}, "a number, not a string"},
		{`{"permit_path":""}`, []Code{PolicyValue}, "is empty"},
		{`{"permit_path":"in"}`, []Code{PathRelative}, "absolute"},
		{`{"permit_path":"~root/x"}`, []Code{PathRelative}, "other users"},
		{`{"permit_path":"$HOME/x"}`, []Code{PathRelative}, "${home}"},
		{`{"permit_path":"${PWD}"}`, []Code{PolicyValue}, "unknown fact ${PWD}"},
		{`{"permit_path":"${cwd"}`, []Code{PolicyValue}, "never closed"},
		{`{"permit_path":"-/x"}`, []Code{PolicyValue}, "takes no - marker"},
		{`{"permit_path":"+/x"}`, []Code{PolicyValue}, "takes no + marker"},
		{`{"read_paths":["+/x"]}`, []Code{PolicyValue}, "read_paths[0]"},
		{`{"permit_path":"/a\u0000b"}`, []Code{PolicyValue}, "NUL"},
		{`{"permit_path":"/a\nb"}`, []Code{PolicyValue}, "control"},
		{`{"permit_path":"/a\u202eb"}`, []Code{PolicyValue}, "control"},
		{`{"permit_path":"/a\ud800"}`, []Code{PolicySyntax}, ""},
		{"{\"permit_path\":\"/a\xff\"}", []Code{PolicySyntax}, "UTF-8"},
		{`{"permit_path":"/a","min_abi":"3"}`, []Code{PolicyValue}, "a string, not a whole number"},
		{`{"permit_path":"/a","min_abi":3.0}`, []Code{PolicyValue}, "not whole"},
		{`{"permit_path":"/a","min_abi":3e0}`, []Code{PolicyValue}, "not whole"},
		{`{"permit_path":"/a","min_abi":-1}`, []Code{PolicyValue}, "the first is 1"},
		{`{"permit_path":"/a","min_abi":0}`, []Code{PolicyValue}, "the first is 1"},
		{`{"permit_path":"/a","min_abi":99999999999999999999}`, []Code{PolicyValue}, ""},
		{`{"permit_path":"/a","deny":[]}`, []Code{PolicyKey}, "taken away"},
		{`{"permit_path":"/a","extends":["b"]}`, []Code{PolicyKey}, "extends"},
		{`{"permit_path":"/a","description":"x"}`, []Code{PolicyKey}, "description"},
		{`{"permit_path":"/a","audit":true}`, []Code{PolicyKey}, "only known in [linux]"},
		{`{"permit_path":"/a","darwin":{"min_abi":3}}`, []Code{PolicyKey}, "[linux]"},
		{`{"permit_path":"/a","linux":{"mach_lookup":["a"]}}`, []Code{PolicyKey}, "[darwin]"},
		{`{"permit_path":"/a","linux":{"linux":{}}}`, []Code{PolicyKey}, "linux.linux"},
		{`{"permit_path":"/a","linux":[]}`, []Code{PolicyValue}, "not a table"},
		{`{"permit_path":"/a","agent_scratch":{}}`, []Code{PolicyValue}, "has no agent"},
		{`{"permit_path":"/a","agent_scratch":{"agent":"../x"}}`, []Code{PolicyValue}, "plain name"},
		{`{"permit_path":"/a","agent_scratch":{"agent":"x","mode":1}}`, []Code{PolicyKey}, "agent_scratch.mode"},
		{`{"permit_path":"/a","agent_scratch":"claude"}`, []Code{PolicyValue}, "table"},
		{`{"permit_path":"/a","set_env":{"A=B":"x"}}`, []Code{PolicyValue}, "environment variable"},
		{`{"permit_path":"/a","set_env":{"A":1}}`, []Code{PolicyValue}, "set_env.A"},
		{`{"permit_path":"/a","runtime":"all"}`, []Code{PolicyValue}, `"all"`},
		{`{"permit_path":"/a","pty":1}`, []Code{PolicyValue}, "true or false"},
		{`{"permit_path":"/a","name":"../x"}`, []Code{PolicyValue}, "profile name"},
		{`{"permit_path":"/a","permit_extra_subpaths":[""]}`, []Code{PolicyValue}, "permit_extra_subpaths[0]"},
		{`{"permit_path":"/a","permit_extra_subpaths":["."]}`, []Code{PathRelative}, "${cwd}"},
		{`{"permit_path":"/a","permit_extra_subpaths":"/b"}`, []Code{PolicyValue}, "list of strings"},
		{`{"permit_pathh":"/","minabi":7,"pty":null,"read_paths":["x",3]}`, []Code{PolicyKey, PolicyKey, PolicyValue, PathRelative, PolicyValue}, "min_abi"},
		{`{"permit_path":` + strings.Repeat("[", 20000), []Code{PolicySyntax}, ""},
		{`{"permit_path":"` + strings.Repeat("x", MaxDocument) + `"}`, []Code{PolicySyntax}, "1 MiB"},
	} {
		name := tt.doc
		if len(name) > 60 {
			name = name[:60]
		}
		t.Run(name, func(t *testing.T) {
			p, err := DecodePolicy([]byte(tt.doc))
			if p != nil || err == nil {
				t.Fatalf("accepted as %+v", p)
			}
			var got []Code
			var list Refusals
			var one *Refusal
			var hints []string
			if errors.As(err, &list) {
				for _, r := range list {
					got, hints = append(got, r.Code), append(hints, r.Hints...)
				}
			} else if errors.As(err, &one) {
				got, hints = []Code{one.Code}, one.Hints
			}
			sortCodes := cmp.Transformer("sorted", func(c []Code) map[Code]int {
				m := map[Code]int{}
				for _, c := range c {
					m[c]++
				}
				return m
			})
			if diff := cmp.Diff(tt.want, got, sortCodes); diff != "" {
				t.Errorf("%s\n%v", diff, err)
			}
			if text := err.Error() + strings.Join(hints, " "); !strings.Contains(text, tt.text) {
				t.Errorf("%q does not say %q", text, tt.text)
			}
			if len(err.Error()) > 4000 {
				t.Errorf("a message of %d bytes", len(err.Error()))
			}
		})
	}
}

const everyKey = `{"name":"p","permit_path":"/a","permit_extra_subpaths":["+~/.x","-/y"],"read_paths":["-${env:X}/z"],"permit_files":["/f"],"unix_sockets":["${runtime_dir}/s"],` +
	`"runtime":"none","pty":true,"private_tmp":false,"agent_scratch":{"agent":"claude","provision":true},"set_env":{"A":"${private_tmp}","B":""},"min_abi":3,` +
	`"linux":{"min_abi":6,"audit":true},"darwin":{"read_paths":["/Library"],"mach_lookup":["com.apple.SecurityServer"]}}` + "\n"

func TestPolicyRoundTrip(t *testing.T) {
	p, err := DecodePolicy([]byte(everyKey))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(EncodePolicy(p)); got != everyKey {
		t.Errorf("got  %s\nwant %s", got, everyKey)
	}
}

// Whatever decodes is written in one way, and that way decodes to the same.
func FuzzDecodePolicy(f *testing.F) {
	f.Add([]byte(everyKey))
	f.Add([]byte(`{"permit_path":"/a","set_env":{"Z":"1","A":"<&\u2028"}}`))
	f.Add([]byte(`{"permit_path":"/a","min_abi":1e3,"linux":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := DecodePolicy(data)
		if err != nil {
			if p != nil {
				t.Fatal("a policy beside an error")
			}
			return
		}
		once := EncodePolicy(p)
		q, err := DecodePolicy(once)
		if err != nil {
			t.Fatalf("%s does not decode: %v", once, err)
		}
		if diff := cmp.Diff(p, q); diff != "" {
			t.Fatal(diff)
		}
		if twice := EncodePolicy(q); !bytes.Equal(once, twice) {
			t.Fatalf("%s\n%s", once, twice)
		}
	})
}

func TestMerge(t *testing.T) {
	decode := func(s string) *Policy {
		p, err := DecodePolicy([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	parent := decode(`{"name":"a","permit_path":"/a","read_paths":["/r1","/r2"],"pty":true,"set_env":{"A":"1","C":"3"},"min_abi":6,"linux":{"min_abi":5}}`)
	before := string(EncodePolicy(parent))
	child := decode(`{"name":"b","read_paths":["/r2","/r3"],"pty":false,"set_env":{"A":"x","B":"2"},"min_abi":2,"linux":{"min_abi":7,"audit":true}}`)
	p := *parent
	p.Merge(child)
	want := `{"name":"b","permit_path":"/a","read_paths":["/r1","/r2","/r3"],"pty":false,"set_env":{"A":"x","B":"2","C":"3"},"min_abi":6,"linux":{"min_abi":7,"audit":true}}` + "\n"
	if got := string(EncodePolicy(&p)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if after := string(EncodePolicy(parent)); after != before {
		t.Errorf("merging changed the parent: %s", after)
	}
}
