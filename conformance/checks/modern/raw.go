package modern

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// The modern faces in groups.
var (
	httpFace  = []peer.Face{peer.ModernHTTP}
	stdioFace = []peer.Face{peer.ModernStdio}
	faces     = []peer.Face{peer.ModernHTTP, peer.ModernStdio}
)

// Pages of 2026-07-28 that several checks cite.
const (
	pageHTTP     = "basic/transports/streamable-http §"
	pageMeta     = "basic/index §_meta"
	pageMRTR     = "basic/patterns/mrtr §Server Requirements (Basic Workflow)"
	pageListen   = "basic/patterns/subscriptions §"
	pageProgress = "basic/patterns/progress §"
	pageStdio    = "basic/transports/stdio §"
)

// rawClient sends malformed requests to a modern server, over either transport, one at a time.
type rawClient struct {
	*suite.Trial
	child *peer.Child // of stdio
}

func newRawClient(t *suite.Trial) *rawClient {
	k := &rawClient{Trial: t}
	if t.Face.Stdio() {
		k.child = t.Start()
	}
	return k
}

// reply is an answer of the server.
type reply struct {
	status  int         // of HTTP
	header  http.Header // of HTTP
	message *peer.Message
}

// send sends a body and waits for the answer. head is for HTTP.
func (k *rawClient) send(body string, head peer.Fields) reply {
	if k.child == nil {
		res := k.Send(peer.Request{Header: head, Body: body})
		return reply{res.Status, res.Header, checkutil.Answer(k.Trial, res)}
	}
	if err := k.child.Write(body); err != nil {
		k.Break("the program does not read: %v", err)
	}
	sent, _ := peer.ReadMessage(body)
	ctx, cancel := context.WithTimeout(k.Context(), k.child.Patience(k.Target.Patience()))
	defer cancel()
	for {
		line, err := k.child.Next(ctx)
		if err != nil {
			return reply{}
		}
		m, err := peer.ReadMessage(line)
		if err != nil || m.Kind() != peer.IsResponse {
			continue
		}
		if m.ID == nil || string(m.ID) == "null" || string(m.ID) == string(sent.ID) {
			return reply{message: &m}
		}
	}
}

// request sends a valid request, altered by change (_meta) and more (head).
func (k *rawClient) request(id, method string, params peer.Object, change func(meta peer.Object), more ...peer.Field) reply {
	return k.send(checkutil.ModernBody(id, method, params, change), checkutil.ModernHead(method, more...))
}

// refuse fails the trial unless the reply is an error with one of the codes (none: any) and, over HTTP, a status (0: any).
func (k *rawClient) refuse(r reply, status int, codes ...int) {
	expected := "an error"
	if len(codes) > 0 {
		names := make([]string, len(codes))
		for i, c := range codes {
			names[i] = checkutil.CodeName(c)
		}
		expected = "the error " + strings.Join(names, " or ")
	}
	if status != 0 && k.child == nil {
		expected = fmt.Sprintf("status %d with %s", status, expected)
		if r.status != status {
			k.Fail(expected, "status %d", r.status)
		}
	}
	switch {
	case r.message == nil && (len(codes) > 0 || r.status < 400):
		k.Fail(expected, "no JSON-RPC message")
	case r.message == nil:
	case !r.message.Failed():
		k.Fail(expected, "a result: %s", r.message.Raw)
	default:
		if code, message, _ := r.message.Error(); len(codes) > 0 && !slices.Contains(codes, code) {
			k.Fail(expected, "the error %d: %s", code, message)
		}
	}
}

// accept fails the trial unless the reply is a result.
func (k *rawClient) accept(r reply, expected string) {
	switch {
	case r.message == nil:
		k.Fail(expected, "no JSON-RPC message%s", statusText(r.status))
	case r.message.Failed():
		code, message, _ := r.message.Error()
		k.Fail(expected, "the error %d: %s%s", code, message, statusText(r.status))
	}
}

func statusText(status int) string {
	if status == 0 {
		return ""
	}
	return ", with status " + strconv.Itoa(status)
}

// target is a tool, resource or prompt that can be requested without side effects.
type target struct {
	method, member, name string
	known                bool // the server has it
}

func (x target) params() peer.Object { return peer.Object{x.member: x.name} }

// refusals returns the codes for a wrong head. A server that looks up an unknown name first may report that instead.
func (x target) refusals() []int {
	if x.known {
		return []int{checkutil.HeaderMismatch}
	}
	return []int{checkutil.HeaderMismatch, checkutil.InvalidParams}
}

// harmlessTarget finds a target. It skips the trial if there is none.
func harmlessTarget(t *suite.Trial) target {
	o := t.Offer
	if o.Tool("test_simple_text") != nil {
		return target{"tools/call", "name", "test_simple_text", true}
	}
	for _, r := range o.Resources {
		return target{"resources/read", "uri", peer.Text(r, "uri"), true}
	}
	for _, p := range o.Prompts {
		if len(checkutil.RequiredArguments(p)) == 0 {
			return target{"prompts/get", "name", peer.Text(p, "name"), true}
		}
	}
	if !o.Capability("tools") {
		t.Skip("the server has nothing that can be asked for by name")
	}
	return target{"tools/call", "name", "dragoman-conformance-no-such-tool", false}
}

// encoded returns a value in the Base64 form of header fields.
func encoded(value string) string {
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
}

// isDual reports whether the server also supports legacy revisions at the same endpoint.
func isDual(t *suite.Trial) bool {
	face := peer.LegacyHTTP
	if t.Face.Stdio() {
		face = peer.LegacyStdio
	}
	_, err := t.TryOpen(func(s *peer.Settings) {
		s.Face, s.Revision, s.Received, s.NoListening = face, peer.R2511, nil, true
	})
	return err == nil
}

// mustCallTool calls a tool and returns the answered call.
func mustCallTool(t *suite.Trial, c *peer.Conn, params peer.Object) (*peer.Call, peer.Message) {
	return mustRequest(t, c, "tools/call", params)
}

// mustRequest sends a request and waits for its response. Without one it breaks the trial.
func mustRequest(t *suite.Trial, c *peer.Conn, method string, params peer.Object) (*peer.Call, peer.Message) {
	call := mustStart(t, c, method, params)
	m, err := call.Wait()
	if err != nil {
		t.Break("%v", err)
	}
	return call, m
}

func mustStart(t *suite.Trial, c *peer.Conn, method string, params peer.Object) *peer.Call {
	text := ""
	if params != nil {
		text = peer.Encode(params)
	}
	call, err := c.Start(method, text)
	if err != nil {
		t.Break("%v", err)
	}
	return call
}

// fence waits until everything that the server sends on a shared stream for earlier messages has arrived: until later requests are
// answered.
func fence(t *suite.Trial, c *peer.Conn) {
	for range checkutil.Fences {
		if t.Face.Stdio() {
			mustRequest(t, c, "server/discover", nil)
		}
	}
}

// opened opens a connection and makes modern requests, since the first request may set the era of a process.
func opened(t *suite.Trial, change func(*peer.Settings)) (*peer.Conn, *recorder) {
	c, r := openRecorded(t, change)
	requests := plainRequests(t)
	for _, x := range requests[:min(2, len(requests))] {
		mustRequest(t, c, x.method, x.params)
	}
	return c, r
}

// everything declares all client capabilities.
const everything = `{"elicitation":{"form":{},"url":{}},"sampling":{},"roots":{}}`

func capable(capabilities string) func(*peer.Settings) {
	return func(s *peer.Settings) { s.Capabilities = capabilities }
}
