package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/bench/load/drive"
	suitepeer "dragoman/conformance/peer"
	"dragoman/conformance/suite"
	"dragoman/internal/config/value"
)

// found describes a server: how it is reached, and what it offers.
type found struct {
	face     suitepeer.Face
	revision string
	server   string
	tools    []suitepeer.Object
	lists    bool // it answers tools/list
}

// find returns the first of the requested faces that the server has.
func (b *bencher) find(ctx context.Context) (*found, error) {
	target := &suitepeer.Target{Timeout: b.Timeout}
	if b.URL == "" {
		target.Program = suitepeer.Command{Argv: b.Command}
	} else {
		target.HTTP = suitepeer.NewHTTP(b.URL, b.Headers, b.TLS)
		defer target.HTTP.Close()
	}
	var tried []string
	for _, face := range b.faces() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b.progress.Say("looking for " + string(face) + " at " + b.shown())
		f, err := b.meet(ctx, target, face)
		if err == nil {
			return f, nil
		}
		tried = append(tried, fmt.Sprintf("%s: %v", face, err))
	}
	fix := fixURL
	if b.URL == "" {
		fix = fixCommand
	}
	return nil, &exitError{exitNobody, fmt.Errorf("bench: nothing of MCP answers at %s:\n  %s\nfix: %s", b.shown(), strings.Join(tried, "\n  "), fix)}
}

// meetAnswers limits the time to examine a face, as a multiple of the time for one answer.
const meetAnswers = 4

var errRevision = errors.New("it has not the revision that is asked for")

// meet opens a face and reads what the server offers there.
func (b *bencher) meet(ctx context.Context, t *suitepeer.Target, face suitepeer.Face) (*found, error) {
	ctx, cancel := context.WithTimeout(ctx, meetAnswers*t.Patience())
	defer cancel()
	if face == suitepeer.REST {
		return meetREST(ctx, t)
	}
	revisions := face.Revisions()
	revision := revisions[len(revisions)-1]
	if b.Revision != "" {
		if revision = b.Revision; !slices.Contains(revisions, revision) {
			return nil, errRevision
		}
	}
	c, err := t.Open(ctx, suitepeer.Settings{Face: face, Revision: revision, NoListening: true, Client: suitepeer.Object{"name": "dragoman-bench", "version": "1"}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	f := &found{face: face, revision: c.Agreed}
	var info, caps suitepeer.Object
	if face.Modern() {
		result, err := c.Result("server/discover", "")
		if err != nil {
			return nil, err
		}
		if !slices.Contains(suitepeer.List(result, "supportedVersions"), any(revision)) {
			return nil, errRevision
		}
		info, _ = suitepeer.Get(result, "_meta", suitepeer.MetaServer).(suitepeer.Object)
		caps, _ = result["capabilities"].(suitepeer.Object)
	} else {
		if b.Revision != "" && c.Agreed != revision || face == suitepeer.LegacyHTTP && c.Agreed == suitepeer.R2411 {
			return nil, errRevision
		}
		info, _ = c.Server["serverInfo"].(suitepeer.Object)
		caps, _ = c.Server["capabilities"].(suitepeer.Object)
	}
	f.server = strings.TrimSpace(suitepeer.Text(info, "name") + " " + suitepeer.Text(info, "version"))
	if caps["tools"] != nil {
		if result, err := c.Result("tools/list", ""); err == nil { // the first page is enough to find a tool
			f.lists, f.tools = true, objects(suitepeer.List(result, "tools"))
		}
	}
	return f, nil
}

func objects(list []any) (out []suitepeer.Object) {
	for _, x := range list {
		if o, ok := x.(suitepeer.Object); ok {
			out = append(out, o)
		}
	}
	return out
}

func meetREST(ctx context.Context, t *suitepeer.Target) (*found, error) {
	res, err := t.HTTP.Send(ctx, suitepeer.Request{Method: "GET", URL: suite.RESTPath(t, "/tools"), Header: suitepeer.Fields{{Name: "Accept", Value: "application/json"}}}, nil)
	if err != nil {
		return nil, err
	}
	defer res.Close()
	text, err := res.Text()
	if err != nil {
		return nil, err
	}
	v, err := suitepeer.Decode(text)
	if err != nil || res.Status != 200 || suitepeer.List(v, "tools") == nil {
		return nil, fmt.Errorf("GET /tools was answered with %d and no ToolsResponse", res.Status)
	}
	return &found{face: suitepeer.REST, server: strings.TrimSpace(suitepeer.Text(v, "service") + " " + suitepeer.Text(v, "version")), lists: true, tools: objects(suitepeer.List(v, "tools"))}, nil
}

func (f *found) tool(name string) suitepeer.Object {
	for _, t := range f.tools {
		if t["name"] == name {
			return t
		}
	}
	return nil
}

// required returns the required arguments of a tool.
func required(tool suitepeer.Object) []any {
	if list := suitepeer.List(tool, "inputSchema", "required"); list != nil {
		return list
	}
	return suitepeer.List(tool, "input_schema", "required") // in the REST envelope
}

// echoes reports whether the server is one of the reference servers.
func (f *found) echoes() bool {
	name, _, _ := strings.Cut(f.server, " ")
	return name == "reference" && f.tool("echo") != nil
}

// choose returns the runs, and the reason for the choice.
func (b *bencher) choose(ctx context.Context, plan drive.Plan) ([]benchRun, string, error) {
	if len(b.Calls) > 0 {
		calls, err := b.asked()
		if err != nil {
			return nil, "", err
		}
		name := "mix"
		if len(calls) == 1 {
			name = calls[0].Name
		}
		runs := []benchRun{{name, calls}}
		return runs, "", b.tryAll(ctx, plan, runs)
	}
	if len(b.Sizes) > 0 || b.Answer > 0 || b.Streams > 0 || b.found.echoes() {
		runs, err := b.echo(plan.Face)
		if err == nil {
			err = b.tryAll(ctx, plan, runs)
		}
		return runs, "the reference server's tool, whose whole answer is known", err
	}
	call, why, err := b.something(ctx, plan)
	return []benchRun{{name: call.Name, calls: []drive.Call{call}}}, why, err
}

// asked returns the calls that the flags name.
func (b *bencher) asked() ([]drive.Call, error) {
	var out []drive.Call
	for i := range b.Calls {
		one := &b.Calls[i]
		if one.Tool == "" {
			c := drive.Call{Name: one.Method, Method: one.Method, Params: string(one.Params), Weight: one.Weight, Varies: one.Varies || b.Varies}
			c.Header = subject(one.Method, one.Params)
			if one.Name != "" {
				c.Name = one.Name
			}
			out = append(out, c)
			continue
		}
		tool := b.found.tool(one.Tool)
		if tool == nil && len(b.found.tools) > 0 && b.found.lists {
			var names []string
			for _, t := range b.found.tools {
				names = append(names, suitepeer.Text(t, "name"))
			}
			if near := value.Nearest(one.Tool, names); near != "" {
				return nil, fmt.Errorf("bench: the server has no tool %q; did you mean %s?", value.Shorten(one.Tool), near)
			}
		}
		if need := required(tool); len(need) > 0 && one.Arguments == nil {
			return nil, fmt.Errorf("bench: the tool %s cannot be called without %v; fix: give them with --arguments '{\"%v\":…}'", one.Tool, need, need[0])
		}
		c := toolCall(one.Tool, string(one.Arguments))
		c.Weight, c.Varies = one.Weight, one.Varies || b.Varies
		if one.Name != "" {
			c.Name = one.Name
		}
		out = append(out, c)
	}
	return out, nil
}

// subject returns the value of the Mcp-Name header of a modern request.
func subject(method string, params json.RawMessage) string {
	var p struct{ Name, URI, TaskID string }
	_ = json.Unmarshal(params, &p) // checked before
	switch {
	case method == "tools/call", method == "prompts/get":
		return suitepeer.HeaderValue(p.Name)
	case method == "resources/read":
		return suitepeer.HeaderValue(p.URI)
	case strings.HasPrefix(method, "tasks/"):
		return suitepeer.HeaderValue(p.TaskID)
	}
	return ""
}

func toolCall(name, arguments string) drive.Call {
	if arguments == "" {
		arguments = "{}"
	}
	return drive.Call{Name: name, Method: "tools/call", Header: suitepeer.HeaderValue(name), Params: `{"name":` + suitepeer.Encode(name) + `,"arguments":` + arguments + `}`}
}

// echo returns the runs against a reference server.
func (b *bencher) echo(face drive.Face) ([]benchRun, error) {
	if b.found.tool("echo") == nil || !slices.Contains(required(b.found.tool("echo")), any("text")) {
		return nil, errors.New("bench: --size, --answer-size and --stream-share are for a server that has the reference servers' tool echo; fix: name a call of this server with --tool and --arguments")
	}
	sizes := b.Sizes
	if len(sizes) == 0 {
		sizes = []int{300}
	}
	var runs []benchRun
	for _, size := range sizes {
		answer := b.Answer
		if answer == 0 {
			answer = size
		}
		r := benchRun{name: "echo " + byteSize(size)}
		const parts = 1000
		streamed := int(b.Streams*parts + 0.5)
		plain, stream := drive.EchoCall(face, size, answer, false), drive.EchoCall(face, size, answer, true)
		plain.Weight, stream.Weight = parts-streamed, streamed
		stream.Name = "echo as stream"
		if plain.Weight > 0 {
			r.calls = append(r.calls, plain)
		}
		if stream.Weight > 0 {
			r.calls = append(r.calls, stream)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

func byteSize(n int) string {
	switch {
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// something returns a call that is harmless on any server.
func (b *bencher) something(ctx context.Context, plan drive.Plan) (drive.Call, string, error) {
	type candidate struct {
		call drive.Call
		why  string
	}
	var all []candidate
	const mostTools = 8
	for _, t := range b.found.tools {
		if len(required(t)) == 0 && suitepeer.Get(t, "annotations", "readOnlyHint") == true && len(all) < mostTools {
			all = append(all, candidate{toolCall(suitepeer.Text(t, "name"), ""), "a tool that only reads and needs no arguments"})
		}
	}
	method := func(name, why string) {
		all = append(all, candidate{drive.Call{Name: name, Method: name}, why})
	}
	if !b.found.face.Modern() && b.found.face != suitepeer.REST {
		method("ping", "there is no tool that only reads and needs no arguments; name one with --tool")
	}
	if b.found.lists {
		method("tools/list", "there is no tool that only reads and needs no arguments; name one with --tool")
	}
	if b.found.face.Modern() {
		method("server/discover", "there are no tools; name a call with --method")
	}
	var last error
	for _, c := range all {
		plan.Calls = []drive.Call{c.call}
		wrong, varies, err := drive.Try(ctx, plan)
		switch {
		case err != nil:
			return c.call, "", fmt.Errorf("bench: %w", err)
		case wrong[0] != nil:
			last = fmt.Errorf("%s: %w", c.call.Name, wrong[0])
		case varies[0] && !b.Varies:
			last = fmt.Errorf("%s is answered differently each time", c.call.Name)
		default:
			c.call.Varies = b.Varies
			return c.call, c.why, nil
		}
	}
	return drive.Call{}, "", fmt.Errorf("bench: nothing was found that can be called (%v); fix: name a call with --tool or --method", last)
}

// tryAll makes each call once before the load: a load of nothing but errors measures nothing.
func (b *bencher) tryAll(ctx context.Context, plan drive.Plan, runs []benchRun) error {
	for _, r := range runs {
		plan.Calls = r.calls
		b.progress.Say("trying " + r.name)
		wrong, varies, err := drive.Try(ctx, plan)
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		for i, w := range wrong {
			if w != nil {
				return fmt.Errorf("bench: the first answer to %s is wrong: %w; fix: is it called as it wants to be, with --arguments or --params?", r.calls[i].Name, w)
			}
			if varies[i] {
				b.note("two calls of %s were answered differently; if they may be: --varies", r.calls[i].Name)
			}
		}
	}
	return nil
}
