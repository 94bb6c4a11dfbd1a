package era

import (
	"fmt"
	"strconv"
	"strings"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// The model: what each translation must add to a message or remove from it, written independently of the product in terms
// of the generator. A message that was sent and the one that is received may differ only in this:
//
//   - requests: params.task, inputResponses and requestState are removed; a tools/call has arguments; the reserved keys of _meta
//     are the proxy's, and a legacy server sees none of them; a _meta without members is removed; absent params become {} for a
//     legacy server. Ids and progress tokens are as sent, or minted.
//   - results: resultType, inputRequests, requestState, ttlMs and cacheScope (of what can be cached), and serverInfo in _meta
//     are the modern era's; execution is the legacy era's, and tools that only run as its tasks are removed; structured content
//     that is no object, and an outputSchema of such, exist in the modern era only; older revisions have neither, and
//     fewer kinds of content.
//   - errors: codes that one era has and the other has not.
//   - cursors: a modern client's are sealed, and the server gets its own.
//   - notifications in a call: progress if there is a token, log messages of the level asked for, nothing else.

// result makes a result of the given method, without _meta.
func (g *gen) result(method string) obj {
	o := g.object(3)
	switch method {
	case "tools/call":
		o = append(o, mem("content", g.content()))
		if g.chance(40) {
			o = append(o, mem("structuredContent", pick(g, g.object(2).text(), g.value(2), `[1,2]`)))
		}
		if g.chance(20) {
			o = append(o, mem("isError", "true"))
		}
	case "prompts/get":
		var all []string
		for range g.IntN(3) {
			all = append(all, g.shuffled(append(g.object(1), mem("role", `"user"`), mem("content", g.block()))).text())
		}
		o = append(o, mem("messages", "["+strings.Join(all, ",")+"]"))
	case "tools/list":
		o = append(o, mem("tools", g.tools()))
	}
	if strings.HasSuffix(method, "/list") && g.chance(40) {
		o = append(o, mem("nextCursor", g.str()))
	}
	for _, spoof := range []string{"resultType", "inputRequests", "requestState", "ttlMs", "cacheScope"} {
		if g.chance(10) {
			value := g.value(1)
			if spoof == "resultType" {
				value = `"complete"`
			}
			o = append(o, pair{spoof, g.written(spoof), value})
		}
	}
	return g.shuffled(o)
}

func (g *gen) content() string {
	blocks := []string{}
	for range g.IntN(4) {
		blocks = append(blocks, g.block())
	}
	return "[" + strings.Join(blocks, ",") + "]"
}

// blocks maps kinds of content to their replacement in revisions that do not know them.
var blocks = []struct{ modern, older, until string }{
	{modern: `{"type":"text","text":"plain \" text"}`},
	{modern: `{"type":"text","text":"[1,2]"}`},
	{modern: `{"x":1,"type":"image","data":"AA==","mimeType":"image/png"}`},
	{modern: `{"type":"vendor","v":[{}]}`},
	{`{"uri":"a:\"b","name":"ü","type":"resource_link","x":2}`, `{"type":"text","text":"ü (a:\"b)"}`, "2025-06-18"},
	{`{"type":"audio","data":"AA==","mimeType":"audio/wav"}`, `{"type":"text","text":"[audio, audio/wav]"}`, "2025-03-26"},
}

func (g *gen) block() string { return blocks[g.IntN(len(blocks))].modern }

// olderBlocks writes the blocks in a text as the revision has them.
func olderBlocks(text, version string) string {
	for _, b := range blocks {
		if b.until != "" && version < b.until {
			text = strings.ReplaceAll(text, b.modern, b.older)
		}
	}
	return text
}

// offered maps tools to their form in the other era and in older revisions; "": the tool is left out.
var offered = []struct{ server, legacy, old, both string }{
	{`{"name":"a"}`, `{"name":"a"}`, `{"name":"a"}`, `{"name":"a"}`},
	{`{"execution":{"taskSupport":"optional"},"name":"b","inputSchema":{"type":"object","x-y":[1]}}`,
		`{"name":"b","inputSchema":{"type":"object","x-y":[1]}}`, `{"name":"b","inputSchema":{"type":"object","x-y":[1]}}`, `{"name":"b","inputSchema":{"type":"object","x-y":[1]}}`},
	{`{"name":"c","execution":{"taskSupport":"required"}}`, "", "", ""},
	{`{"name":"d","outputSchema":{"type":"array"}}`, `{"name":"d"}`, `{"name":"d"}`, `{"name":"d"}`},
	{`{"name":"e","outputSchema":{"x":1,"type":"object"},"_meta":{"v":1}}`, `{"name":"e","outputSchema":{"x":1,"type":"object"},"_meta":{"v":1}}`,
		`{"name":"e","_meta":{"v":1}}`, `{"name":"e","outputSchema":{"x":1,"type":"object"},"_meta":{"v":1}}`},
}

func (g *gen) tools() string {
	var all []string
	for range g.IntN(5) {
		all = append(all, offered[g.IntN(len(offered))].server)
	}
	return "[" + strings.Join(all, ",") + "]"
}

// olderTools writes the tools in a list as a legacy client of the revision gets them.
func olderTools(list, version string) string {
	var all []string
	for list != "[]" {
		for _, t := range offered {
			rest, ok := strings.CutPrefix(list[1:], t.server)
			if !ok {
				continue
			}
			left := t.legacy
			if version < "2025-06-18" {
				left = t.old
			}
			if left != "" {
				all = append(all, left)
			}
			list = "[" + strings.TrimPrefix(rest, ",")
			break
		}
	}
	return "[" + strings.Join(all, ",") + "]"
}

// survives is the part of a result that exists in both eras, for a client of the given legacy revision.
func survives(method string, o obj, version string) obj {
	out := o.without("resultType", "inputRequests", "requestState")
	if rules.Cacheable(method) {
		out = out.without("ttlMs", "cacheScope")
	}
	for i := range out {
		switch {
		case out[i].key == "tools" && method == "tools/list":
			out[i].value = olderTools(out[i].value, version)
		case out[i].key == "messages" && method == "prompts/get":
			out[i].value = olderBlocks(out[i].value, version)
		}
	}
	if method == "tools/call" {
		return structured(out, version)
	}
	return out
}

// structured returns a tool's result as a revision has it: structured content that it does not know becomes text, unless there is an equal
// text.
func structured(o obj, version string) obj {
	at := o.find("content")
	before := o[at].value
	o[at].value = olderBlocks(before, version)
	s := o.find("structuredContent")
	if s < 0 {
		return o
	}
	value := o[s].value
	object := value[0] == '{'
	if object && version >= "2025-06-18" {
		return o
	}
	if !strings.Contains(before, `"text":`+quote(value)+`}`) && !(object && strings.Contains(before, `"type":"text"`)) {
		block := `{"type":"text","text":` + quote(value) + "}]"
		if o[at].value == "[]" {
			o[at].value = "[" + block
		} else {
			o[at].value = strings.TrimSuffix(o[at].value, "]") + "," + block
		}
	}
	return o.without("structuredContent")
}

// failure is a random error object: its members, and its decoded message.
type failure struct {
	code    int
	message string
	o       obj
	uri     bool // data.uri names the resource that was asked for
	data    string
}

func (g *gen) failure(uri string) *failure {
	f := &failure{code: pick(g, -32601, -32602, -32603, -32000, -32002, -32005, -32020, -32021, -32022, -32042, -32050, -32099, -32100, -1, 0, 7), message: g.words()}
	if f.code == -32002 && uri == "" {
		f.code = -32602
	}
	f.o = obj{mem("code", strconv.Itoa(f.code)), mem("message", g.written(f.message))}
	if g.chance(60) {
		d := g.object(2)
		if uri != "" && g.chance(50) {
			f.uri = true
			d = g.shuffled(append(d, mem("uri", uri)))
		}
		f.data = d.text()
		f.o = append(f.o, mem("data", f.data))
	}
	f.o = g.shuffled(append(f.o, g.object(1)...))
	return f
}

// made is an error that a translation makes: with this code, the server's message, and data unless "".
func (f *failure) made(code int, message, data string) string {
	o := obj{mem("code", strconv.Itoa(code)), mem("message", quote(message))}
	if data != "" {
		o = o.with("data", data)
	}
	return o.text()
}

// withURI is the error's data with the uri in it.
func (f *failure) withURI(uri string) string {
	if f.uri {
		return f.data
	}
	if f.data == "" || f.data == "{}" {
		return `{"uri":` + uri + "}"
	}
	return strings.TrimSuffix(f.data, "}") + `,"uri":` + uri + "}"
}

// toModern returns a legacy server's error as a modern client gets it, and reports whether Dragoman made the error.
func (f *failure) toModern(method, uri string) (code int, text string, anew bool) {
	switch {
	case f.code == -32601 && rules.Offers([]byte(`{"tools":{},"prompts":{},"resources":{},"completions":{}}`), method): // it means the name
		return -32602, f.o.with("code", "-32602").text(), false
	case f.code == -32002:
		return -32602, f.made(-32602, f.message, f.withURI(uri)), true
	case f.code == -32042:
		return -32021, f.made(-32021, f.message, `{"requiredCapabilities":{"elicitation":{"url":{}}}}`), true
	case f.code <= -32020 && f.code >= -32099:
		return -32603, f.made(-32603, f.message, fmt.Sprintf(`{"code":"upstream_code_not_translatable","retryable":false,"originalCode":%d}`, f.code)), true
	}
	return f.code, f.o.text(), false
}

// down returns a legacy server's error as a legacy client gets it through the modern era.
func (f *failure) down(method, uri string) (text string, anew bool) {
	switch {
	case method == "resources/read" && f.code == -32002:
		return f.made(-32002, f.message, f.withURI(uri)), true
	case method == "resources/read" && (f.code == -32602 || f.code == -32601) && f.uri: // distinguished from -32002 by its code only
		return f.made(-32002, f.message, f.data), true
	}
	_, text, anew = f.toModern(method, uri)
	return text, anew
}

// up returns a modern server's error as a modern client gets it through the legacy era.
func (f *failure) up(method, uri string) (text string, anew bool) {
	switch {
	case f.code == -32020, f.code == -32022:
		return f.made(-32603, fmt.Sprintf("the upstream server refused what Dragoman sent (code %d): %s", f.code, wire.Shown(f.message)), `{"code":"upstream_bad_answer","retryable":false}`), true
	case method == "resources/read" && f.code == -32602 && f.uri:
		return f.made(-32602, f.message, f.data), true
	}
	_, text, anew = f.toModern(method, uri)
	return text, anew
}
