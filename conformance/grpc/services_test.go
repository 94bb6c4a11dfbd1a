package services

import (
	"encoding/base64"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"dragoman/conformance/grpc/fill"
)

var (
	binary = flag.String("dragoman", "", "the `path` of the Dragoman to test")
	update = flag.Bool("update", false, "write RESULTS.md")
)

// Revisions of the clients.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// Every method of every service is a tool that can be called, or is none for a reason that is written.
func TestServices(t *testing.T) {
	if *binary == "" {
		t.Skip("needs a Dragoman, and the servers that setup.sh makes: make services")
	}
	all := startServers(t)
	d := startDragoman(t, *binary, all)
	out := &table{}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			r := newRig(t, d, s)
			r.generated()
			for _, c := range trials[s.name] {
				r.try(c)
			}
			r.made()
			r.endless()
			for _, of := range r.tools {
				if of.definition != nil && of.calls == 0 {
					t.Errorf("%s was not called", of.name)
				}
			}
			out.add(r)
		})
	}
	d.end(t)
	d.faultless(t)
	if len(all) == 5 && !t.Failed() {
		out.check(t)
	}
}

// reason is why a method is no tool.
const reason = "its client streams"

// tool is a method with the tool that it has become; none, if the definition is nil.
type tool struct {
	method     protoreflect.MethodDescriptor
	name       string
	definition *mcp.Tool
	output     *jsonschema.Schema
	calls, ok  int
	statuses   map[string]int
	reason     string // why it is no tool
	without    bool   // a stream without end
}

// rig is a server with the clients in front of it.
type rig struct {
	t     *testing.T
	d     *dragoman
	s     *server
	ways  []*way
	tools []*tool // all methods
	named map[string]*tool
	kept  map[string]string // what trials have kept
	users map[string]*way   // clients with a token of etcd
}

// newRig connects clients to a server, and finds the tool of each of its methods.
func newRig(t *testing.T, d *dragoman, s *server) *rig {
	t.Helper()
	r := &rig{t: t, d: d, s: s, named: map[string]*tool{}, kept: map[string]string{"token of nobody": "nobody.1"}, users: map[string]*way{}}
	own := d.base + "/servers/" + s.name + "/mcp"
	r.ways = []*way{newWay(t, "modern", own, modern, ""), newWay(t, "legacy", own, legacy, ""), newWay(t, "merged", d.base+"/mcp", modern, "")}
	r.ways[2].prefix = s.name + "."
	lists := make([]map[string]*mcp.Tool, len(r.ways))
	for i, w := range r.ways {
		lists[i] = w.tools(t)
	}
	for _, method := range s.methods {
		of := &tool{method: method, name: toolName(method), statuses: map[string]int{}, without: endless[string(method.FullName())]}
		if lists[0][of.name] == nil && lists[0][string(method.FullName())] != nil {
			of.name = string(method.FullName()) // it shares the short one
		}
		r.tools, r.named[of.name] = append(r.tools, of), of
		for i, list := range lists {
			r.listed(of, r.ways[i], list[of.name])
			delete(list, of.name)
		}
	}
	for i, list := range lists {
		for name := range list {
			t.Errorf("%s: tool %s is no method of the server", r.ways[i].name, name)
		}
	}
	return r
}

// toolName returns the name of a method's tool, unless methods of several services share it.
func toolName(method protoreflect.MethodDescriptor) string {
	return string(method.Parent().Name()) + "." + string(method.Name())
}

// listed checks how a method is listed: as a tool, or not because its client streams, for which there is a line in the log.
func (r *rig) listed(of *tool, w *way, definition *mcp.Tool) {
	r.t.Helper()
	switch {
	case definition == nil:
		line := regexp.MustCompile(`(?m)^.*a method of the gRPC server is left out.*$`)
		for _, l := range line.FindAllString(r.d.log.String(), -1) {
			if strings.Contains(l, " "+string(of.method.FullName())+" takes a stream of messages, a tool call is one request; fix: ") {
				of.reason = reason
			}
		}
		if !of.method.IsStreamingClient() || of.reason == "" {
			r.t.Errorf("%s: %s is no tool, and the log does not say that its client streams", w.name, of.method.FullName())
		}
	case of.method.IsStreamingClient():
		r.t.Errorf("%s: %s is a tool, although its client streams", w.name, of.method.FullName())
	case of.definition == nil:
		of.definition, of.output = definition, compile(r.t, definition.OutputSchema)
	case !equal(definition.InputSchema, of.definition.InputSchema) || !equal(definition.OutputSchema, of.definition.OutputSchema):
		r.t.Errorf("%s: %s has other schemas than for the first client", w.name, of.name)
	}
}

// generated calls every tool with arguments that are made of its schema only.
func (r *rig) generated() {
	for _, of := range r.tools {
		if of.definition == nil || of.without || unready[of.name] != "" {
			continue
		}
		least, most := arguments(r.t, of.definition.InputSchema)
		r.try(trial{tool: of.name, args: least, any: true})
		if most != least && !scripted(r.s.name, of.name) {
			r.try(trial{tool: of.name, args: most, any: true})
		}
	}
}

// made calls every tool with requests that have all that their type can have.
func (r *rig) made() {
	for i, of := range r.tools {
		for j := range r.s.made {
			if of.definition == nil {
				continue
			}
			request := dynamicpb.NewMessage(of.method.Input())
			fill.Message(request, rand.New(rand.NewPCG(uint64(i), uint64(j))))
			raw, err := protojson.Marshal(request)
			if err != nil {
				r.t.Fatal(err)
			}
			r.try(trial{tool: of.name, args: string(raw)})
		}
	}
}

// scripted reports whether there are trials of a tool.
func scripted(server, tool string) bool {
	for _, c := range trials[server] {
		if c.tool == tool {
			return true
		}
	}
	return false
}

// endless calls the streams that have no end: Dragoman ends them when the server has been silent for too long.
func (r *rig) endless() {
	r.t.Run("endless", func(t *testing.T) {
		for _, of := range r.tools {
			if of.definition == nil || !of.without {
				continue
			}
			least, _ := arguments(t, of.definition.InputSchema)
			for _, w := range r.ways {
				t.Run(of.name+" "+w.name, func(t *testing.T) {
					t.Parallel()
					want := r.s.direct(t, of.method, least, "", true)
					got := w.call(t, of.name, least)
					// Directly, the server may notice the end of its time before the client does, and say so as it likes.
					if want.status == "OK" || got.row != "upstream_timeout" {
						t.Errorf("%v, directly %v", got, want)
					}
					progressed(t, got, want.parts())
				})
			}
			of.count("DEADLINE_EXCEEDED")
		}
	})
}

// progressed waits for a notification of progress for each message of a stream, which the SDK hands over on its own.
func progressed(t *testing.T, got outcome, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d notifications of progress", want), func() bool { return got.parts() >= want })
	if n := got.parts(); n > want {
		t.Errorf("%d notifications of progress, the stream has %d messages", n, want)
	}
}

func (of *tool) count(status string) {
	of.calls++
	if status == "OK" {
		of.ok++
		return
	}
	of.statuses[status]++
}

// trial is a call with what must come of it.
type trial struct {
	tool, args string // ${NAME} stands for what was kept
	any        bool   // any status, if a direct call has it, too
	live       bool   // the result changes by itself: only its status and what is wanted of it are compared
	once       bool   // the call has another outcome if it is repeated: it is made once, through Dragoman
	status     string // OK if empty
	message    string // all of it
	want       string // JSON that the result contains
	keep       string // NAME=a/path/in/the/result
	as         string // the user of etcd who calls, whose token was kept
}

// try makes a call in every way, and directly before and after.
func (r *rig) try(c trial) {
	r.t.Helper()
	of := r.named[c.tool]
	if of == nil || of.definition == nil {
		r.t.Errorf("there is no tool %s", c.tool)
		return
	}
	for name, value := range r.kept {
		c.args = strings.ReplaceAll(c.args, "${"+name+"}", value)
		c.want = strings.ReplaceAll(c.want, "${"+name+"}", value)
	}
	ways := r.ways
	if c.as != "" {
		ways = []*way{r.user(c.as)}
	}
	directly := func() outcome {
		return r.answered(func() outcome { return r.s.direct(r.t, of.method, c.args, r.kept["token of "+c.as], false) })
	}
	if c.once {
		got := r.answered(func() outcome { return ways[0].call(r.t, c.tool, c.args) })
		r.judge(ways[0], of, c, got)
		of.count(got.status)
		return
	}
	one := directly()
	outcomes := make([]outcome, len(ways))
	for i, w := range ways {
		outcomes[i] = r.answered(func() outcome { return w.call(r.t, c.tool, c.args) })
	}
	other := directly()
	for i, w := range ways {
		r.judge(w, of, c, outcomes[i])
		r.compare(w, c, outcomes[i], one, other)
	}
	of.count(one.status)
}

// answered makes a call, and once more if the log of the server says that it ignored the call: etcd ignores a change of members while it
// applies the one before, and never answers. An ignored call has changed nothing.
func (r *rig) answered(call func() outcome) outcome {
	if r.s.ignored == nil {
		return call()
	}
	before := r.s.ignored()
	got := call()
	if r.s.ignored() > before {
		got = call()
	}
	return got
}

// user returns a client with the token of a user.
func (r *rig) user(name string) *way {
	if r.users[name] == nil {
		r.users[name] = newWay(r.t, name, r.d.base+"/servers/"+r.s.name+"/mcp", modern, r.kept["token of "+name])
	}
	return r.users[name]
}

// judge checks an outcome by itself.
func (r *rig) judge(w *way, of *tool, c trial, got outcome) {
	r.t.Helper()
	where := fmt.Sprintf("%s %s %.200s", w.name, c.tool, c.args)
	want := c.status
	if want == "" {
		want = "OK"
	}
	if !c.any && (got.status != want || c.message != "" && got.message != c.message) {
		r.t.Errorf("%s: %v, want %s %q", where, got, want, c.message)
		return
	}
	if got.status != "OK" {
		if !slices.Contains(rows[got.status], got.row) {
			r.t.Errorf("%s: %v has the row %q, docs/grpc.md says %q", where, got, got.row, rows[got.status])
		}
		return
	}
	result := decoded(r.t, got.result)
	if err := of.output.Validate(result); err != nil {
		r.t.Errorf("%s: outputSchema refuses the result: %v", where, err)
	}
	if c.want != "" {
		if at := lacks(decoded(r.t, c.want), result, ""); at != "" {
			r.t.Errorf("%s: %s differs in %.400s, want %s", where, at, got.result, c.want)
		}
	}
	if name, path, ok := strings.Cut(c.keep, "="); ok {
		r.kept[name] = found(r.t, result, path)
	}
}

// found returns the text at a path.
func found(t *testing.T, at any, path string) string {
	t.Helper()
	for part := range strings.SplitSeq(path, "/") {
		if list, ok := at.([]any); ok && len(list) > 0 {
			at = list[0]
		}
		if object, ok := at.(map[string]any); ok {
			at = object[part]
		}
	}
	text, ok := at.(string)
	if !ok {
		t.Fatalf("no text at %s", path)
	}
	return text
}

// compare checks an outcome against direct calls before and after it.
func (r *rig) compare(w *way, c trial, got, one, other outcome) {
	r.t.Helper()
	where := fmt.Sprintf("%s %s %.200s", w.name, c.tool, c.args)
	switch {
	case got.status != one.status && got.status != other.status:
		r.t.Errorf("%s: %v, directly %v", where, got, one)
	case got.status != "OK":
		if got.message != one.message && got.message != other.message {
			r.t.Errorf("%s: %v, directly %v", where, got, one)
		}
	case one.status == "OK" && other.status == "OK" && !c.live:
		if at := differs(decoded(r.t, one.result), decoded(r.t, other.result), decoded(r.t, got.result), ""); at != "" {
			r.t.Errorf("%s: %s differs: %.400s, directly %.400s", where, at, got.result, one.result)
		}
		if one.parts != nil && one.parts() == other.parts() {
			progressed(r.t, got, one.parts())
		}
	}
}

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// rows are the rows of the error table by the status of a service, as docs/grpc.md has them; "" is a result with isError.
var rows = documented()

// documented reads docs/grpc.md.
func documented() map[string][]string {
	raw, err := os.ReadFile("../../docs/grpc.md")
	if err != nil {
		return nil
	}
	of := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([A-Z_, ]+) \| (.*) \|$`).FindAllStringSubmatch(string(raw), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			if strings.HasPrefix(m[2], "a result with `isError`") {
				of[name] = []string{""}
			}
			if of[name] != nil && of[name][0] == "" {
				continue
			}
			for _, row := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(m[2], -1) {
				of[name] = append(of[name], row[1])
			}
		}
	}
	return of
}
