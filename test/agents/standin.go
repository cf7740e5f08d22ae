//go:build agents

package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// marker in a prompt asks the stand-in for one call of a shell tool.
const marker = "STANDIN-RUN-THE-COMMAND"

// answer is what the stand-in says to everything else.
const answer = "all done"

// toolNames are what agents call the tool that runs a shell command, with the
// argument that each of them takes.
var toolNames = []struct {
	name string
	args func(command string) map[string]any
}{
	{"Bash", func(c string) map[string]any { return map[string]any{"command": c, "description": "run it"} }},
	{"bash", func(c string) map[string]any { return map[string]any{"command": c, "description": "run it"} }},
	{"exec_command", func(c string) map[string]any { return map[string]any{"cmd": c} }},
	{"shell_command", func(c string) map[string]any { return map[string]any{"command": c} }},
	{"run_shell_command", func(c string) map[string]any {
		return map[string]any{"command": c, "description": "run it", "is_background": false}
	}},
}

// A toolResult is what an agent sent back after its shell tool ran.
type toolResult struct {
	text    string // the whole result as JSON
	isError bool   // set by agents that say so (Anthropic's format)
}

// standin answers on loopback in the place of a model: the Anthropic messages,
// OpenAI responses, OpenAI chat completions and Gemini generateContent
// formats, each as small as its agent accepts. Its one skill: a prompt with the
// marker is answered with a call of the agent's shell tool, and everything
// else, the result of that call included, with two words.
type standin struct {
	*httptest.Server
	command string

	mu       sync.Mutex
	requests []string // method, path and the tools offered, in order
	results  []toolResult
}

// newStandin starts a stand-in that will ask for command.
func newStandin(command string) *standin {
	s := &standin{command: command}
	s.Server = httptest.NewServer(s)
	return s
}

// toolResults gives the results that came back, without repetitions: agents
// send the whole conversation each time.
func (s *standin) toolResults() []toolResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.results)
}

func (s *standin) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.requests, "\n")
}

// conversation is the part of a request that matters here, in any format.
type conversation struct {
	model   string
	stream  bool
	tools   []string
	results []toolResult
	marked  bool
}

func read(body map[string]any) conversation {
	var c conversation
	c.model, _ = body["model"].(string)
	c.stream, _ = body["stream"].(bool)
	walk(body["tools"], func(o map[string]any) {
		if name, ok := o["name"].(string); ok {
			c.tools = append(c.tools, name)
		}
	})
	for _, key := range []string{"messages", "input", "contents"} {
		text, _ := json.Marshal(body[key])
		c.marked = c.marked || strings.Contains(string(text), marker)
		walk(body[key], func(o map[string]any) {
			response, gemini := o["functionResponse"]
			if o["type"] == "tool_result" || o["type"] == "function_call_output" || o["role"] == "tool" || gemini {
				if gemini {
					o, _ = response.(map[string]any)
				}
				text, _ := json.Marshal(o)
				isError, _ := o["is_error"].(bool)
				c.results = append(c.results, toolResult{string(text), isError})
			}
		})
	}
	return c
}

// walk calls f for every object within v.
func walk(v any, f func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, f)
		}
	case map[string]any:
		f(v)
		for _, e := range v {
			walk(e, f)
		}
	}
}

// call gives the tool call that answers c, or "" when words do.
func (s *standin) call(c conversation) (name string, args map[string]any) {
	if !c.marked || len(c.results) > 0 {
		return "", nil
	}
	for _, t := range toolNames {
		if slices.Contains(c.tools, t.name) {
			return t.name, t.args(s.command)
		}
	}
	return "", nil
}

// ServeHTTP implements [http.Handler].
func (s *standin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := map[string]any{}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			body = map[string]any{}
		}
	}
	c := read(body)
	s.mu.Lock()
	s.requests = append(s.requests, fmt.Sprintf("%s %s stream=%v marked=%v tools=%v", r.Method, r.URL.Path, c.stream, c.marked, c.tools))
	for _, result := range c.results {
		if !slices.Contains(s.results, result) {
			s.results = append(s.results, result)
		}
	}
	s.mu.Unlock()

	path := r.URL.Path
	switch {
	case r.Method == http.MethodHead:
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/models"):
		reply(w, map[string]any{"object": "list", "data": []any{map[string]any{"id": "standin", "object": "model"}}, "models": []any{}})
	case strings.HasSuffix(path, "/count_tokens"):
		reply(w, map[string]any{"input_tokens": 10})
	case strings.HasSuffix(path, ":countTokens"):
		reply(w, map[string]any{"totalTokens": 10})
	case strings.HasSuffix(path, "/messages"):
		s.anthropic(w, c)
	case strings.HasSuffix(path, "/responses"):
		s.responses(w, c)
	case strings.HasSuffix(path, "/chat/completions"):
		s.chat(w, c)
	case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
		c.stream = strings.HasSuffix(path, ":streamGenerateContent")
		s.gemini(w, c)
	default:
		w.WriteHeader(http.StatusNotFound)
		reply(w, map[string]any{"error": map[string]any{"type": "not_found_error", "message": "the stand-in has no " + path}})
	}
}

func (s *standin) anthropic(w http.ResponseWriter, c conversation) {
	block := map[string]any{"type": "text", "text": ""}
	delta := map[string]any{"type": "text_delta", "text": answer}
	stop := "end_turn"
	if name, args := s.call(c); name != "" {
		text, _ := json.Marshal(args)
		block = map[string]any{"type": "tool_use", "id": "toolu_standin1", "name": name, "input": map[string]any{}}
		delta = map[string]any{"type": "input_json_delta", "partial_json": string(text)}
		stop = "tool_use"
	}
	message := map[string]any{
		"id": "msg_standin", "type": "message", "role": "assistant", "model": c.model, "content": []any{},
		"stop_reason": nil, "stop_sequence": nil, "usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}
	if !c.stream {
		message["content"] = []any{map[string]any{"type": "text", "text": answer}}
		message["stop_reason"] = "end_turn"
		reply(w, message)
		return
	}
	events(w, true,
		map[string]any{"type": "message_start", "message": message},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": block},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": 5}},
		map[string]any{"type": "message_stop"})
}

func (s *standin) responses(w http.ResponseWriter, c conversation) {
	item := map[string]any{
		"type": "message", "id": "msg_standin", "role": "assistant",
		"content": []any{map[string]any{"type": "output_text", "text": answer, "annotations": []any{}}},
	}
	if name, args := s.call(c); name != "" {
		text, _ := json.Marshal(args)
		item = map[string]any{"type": "function_call", "id": "fc_standin1", "call_id": "call_standin1", "name": name, "arguments": string(text)}
	}
	done := map[string]any{
		"id": "resp_standin", "object": "response", "status": "completed", "model": c.model, "output": []any{item},
		"usage": map[string]any{
			"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
			"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
		},
	}
	if !c.stream {
		reply(w, done)
		return
	}
	events(w, true,
		map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_standin", "status": "in_progress", "output": []any{}}},
		map[string]any{"type": "response.output_item.added", "output_index": 0, "item": item},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": done})
}

func (s *standin) chat(w http.ResponseWriter, c conversation) {
	message := map[string]any{"role": "assistant", "content": answer}
	finish := "stop"
	if name, args := s.call(c); name != "" {
		text, _ := json.Marshal(args)
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"index": 0, "id": "call_standin1", "type": "function",
			"function": map[string]any{"name": name, "arguments": string(text)},
		}}}
		finish = "tool_calls"
	}
	usage := map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
	if !c.stream {
		reply(w, map[string]any{"id": "chat_standin", "object": "chat.completion", "created": 1, "model": c.model, "usage": usage,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": finish}}})
		return
	}
	chunk := func(delta map[string]any, finish any) map[string]any {
		return map[string]any{"id": "chat_standin", "object": "chat.completion.chunk", "created": 1, "model": c.model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
	}
	last := chunk(map[string]any{}, finish)
	last["usage"] = usage
	events(w, false, chunk(message, nil), last, "[DONE]")
}

func (s *standin) gemini(w http.ResponseWriter, c conversation) {
	// Without a stream it is the agent's own question which model to use,
	// and the answer has to be JSON.
	part := map[string]any{"text": `{"model_choice":"flash","reasoning":"any"}`}
	if c.stream {
		part = map[string]any{"text": answer}
	}
	if name, args := s.call(c); name != "" {
		part = map[string]any{"functionCall": map[string]any{"name": name, "args": args}}
	}
	answer := map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		"modelVersion":  "standin",
	}
	if c.stream {
		events(w, false, answer)
		return
	}
	reply(w, answer)
}

func reply(w http.ResponseWriter, v any) {
	text, _ := json.Marshal(v)
	w.Header().Set("Content-Type", "application/json")
	w.Write(text)
}

// events writes a stream of server-sent events, with event names where the
// format has them. A string goes out as it stands.
func events(w http.ResponseWriter, named bool, list ...any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		if text, ok := e.(string); ok {
			fmt.Fprintf(w, "data: %s\n\n", text)
			continue
		}
		text, _ := json.Marshal(e)
		if named {
			fmt.Fprintf(w, "event: %s\n", e.(map[string]any)["type"])
		}
		fmt.Fprintf(w, "data: %s\n\n", text)
	}
}
