package everything

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const metaJSON = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`

// exchange returns a modern exchange. members are further members of params, meta further members of _meta.
func exchange(t *testing.T, method, members, meta string) *proxy.Exchange {
	t.Helper()
	if members != "" {
		members += ","
	}
	if meta != "" {
		meta = "," + meta
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"q1","method":"` + method + `","params":{` + members + `"_meta":{` + metaJSON + meta + `}}}`))
	if err != nil {
		t.Fatalf("%s %s: %v", method, members, err)
	}
	return &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern, Version: revision}}
}

// response is a decoded response.
type response struct {
	ID     string          `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// do sends an exchange and returns its notifications and its response, which must be the last message.
func do(t *testing.T, s *Server, ex *proxy.Exchange) ([]string, response) {
	t.Helper()
	r, err := s.Do(ex)
	if err != nil {
		t.Fatalf("Do: %v", err)
	}
	defer func() { _ = r.Close() }()
	var notes []string
	for {
		m, err := r.Next(time.Time{})
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		if m.Kind == wire.Notification {
			notes = append(notes, string(m.Raw))
			continue
		}
		var resp response
		if err := json.Unmarshal(m.Raw, &resp); err != nil || resp.ID != "q1" {
			t.Fatalf("response %s: %v", m.Raw, err)
		}
		if _, err := r.Next(time.Time{}); err == nil || err.Error() != "EOF" {
			t.Fatalf("after the response: %v, want EOF", err)
		}
		return notes, resp
	}
}

// ask sends an exchange that must succeed and returns the members of the result.
func ask(t *testing.T, s *Server, method, members string) map[string]json.RawMessage {
	t.Helper()
	_, resp := do(t, s, exchange(t, method, members, ""))
	if resp.Error != nil {
		t.Fatalf("%s {%s}: error %d %s", method, members, resp.Error.Code, resp.Error.Message)
	}
	var result map[string]json.RawMessage
	if err := json.Unmarshal(resp.Result, &result); err != nil {
		t.Fatal(err)
	}
	if string(result["resultType"]) != `"complete"` || !strings.Contains(string(result["_meta"]), `serverInfo":{"name":"dragoman-demo"`) {
		t.Fatalf("%s: no complete result with serverInfo: %s", method, resp.Result)
	}
	return result
}

func same(t *testing.T, what string, got []byte, want string) {
	t.Helper()
	var g, w any
	if json.Unmarshal(got, &g) != nil || json.Unmarshal([]byte(want), &w) != nil || !reflect.DeepEqual(g, w) {
		t.Errorf("%s = %s; want %s", what, got, want)
	}
}

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s := New(o)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// offered has the server's capabilities, in either era.
const offered = `{"tools":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"prompts":{"listChanged":true},` +
	`"completions":{},"logging":{}}`

func TestDiscover(t *testing.T) {
	s := newServer(t, Options{Instructions: "say \"hello\""})
	r := ask(t, s, "server/discover", "")
	same(t, "versions", r["supportedVersions"], `["2026-07-28"]`)
	same(t, "capabilities", r["capabilities"], offered)
	same(t, "instructions", r["instructions"], `"say \"hello\""`)
	same(t, "cacheScope", r["cacheScope"], `"public"`)
	same(t, "ttlMs", r["ttlMs"], `300000`)
}

func TestLists(t *testing.T) {
	f := func(method, key, name, ttl string, all int) {
		t.Helper()
		for _, size := range []int{0, 1, 2, all - 1, all, all + 1} {
			s := newServer(t, Options{PageSize: size})
			seen, cursor := map[string]bool{}, ""
			for pages := 1; ; pages++ {
				r := ask(t, s, method, cursor)
				same(t, method+" cacheScope", r["cacheScope"], `"public"`)
				same(t, method+" ttlMs", r["ttlMs"], ttl)
				var items []map[string]any
				if err := json.Unmarshal(r[key], &items); err != nil {
					t.Fatalf("%s: %v", method, err)
				}
				for _, item := range items {
					id, _ := item[name].(string)
					if id == "" || seen[id] || item["name"] == "" || item["description"] == "" {
						t.Errorf("%s, pages of %d: item %v", method, size, item)
					}
					seen[id] = true
				}
				if r["nextCursor"] == nil {
					if want := (all + max(size, 1) - 1) / max(size, 1); size > 0 && pages != want {
						t.Errorf("%s, pages of %d: %d pages, want %d", method, size, pages, want)
					}
					break
				}
				cursor = `"cursor":` + string(r["nextCursor"])
			}
			if len(seen) != all {
				t.Errorf("%s, pages of %d: %d items, want %d", method, size, len(seen), all)
			}
		}
	}
	f("tools/list", "tools", "name", "60000", 45)
	f("resources/list", "resources", "uri", "60000", 6)
	f("resources/templates/list", "resourceTemplates", "uriTemplate", "300000", 2)
	f("prompts/list", "prompts", "name", "60000", 7)
}

func TestToolTable(t *testing.T) {
	s := newServer(t, Options{})
	for name, tool := range s.tools {
		ways := 0
		for _, set := range []bool{tool.answer != nil, tool.run != nil, tool.script != nil} {
			if set {
				ways++
			}
		}
		if ways != 1 {
			t.Errorf("%s: exactly one of answer, run and script must be set", name)
		}
		for _, schema := range []string{tool.input, tool.output} {
			var v map[string]any
			if schema != "" && (json.Unmarshal([]byte(schema), &v) != nil || v["type"] != "object") {
				t.Errorf("%s: schema %s", name, schema)
			}
		}
	}
}

// toolCase calls a tool and compares its result, without the members of every result.
func toolCase(t *testing.T, s *Server, name, args, want string) {
	t.Helper()
	if args != "" {
		args = `,"arguments":` + args
	}
	r := ask(t, s, "tools/call", `"name":"`+name+`"`+args)
	delete(r, "resultType")
	delete(r, "_meta")
	got, _ := json.Marshal(r)
	same(t, name+args, got, want)
}

// asText, asWrong and asSum return results: a text given as JSON, an error about arguments, a sum.
func asText(json string) string { return `{"content":[{"type":"text","text":` + json + `}]}` }

func asWrong(complaint string) string {
	return `{"content":[{"type":"text","text":` + content.Quote("invalid arguments: "+complaint) + `}],"isError":true}`
}

func asSum(n string) string {
	return `{"content":[{"type":"text","text":"{\"sum\":` + n + `}"}],"structuredContent":{"sum":` + n + `}}`
}

func TestTools(t *testing.T) {
	s := newServer(t, Options{})
	f := func(name, args, want string) {
		t.Helper()
		toolCase(t, s, name, args, want)
	}
	f("echo", `{"message":"hé \"w\"\n\t\u2028 🦊 \\ \u0001 </script>"}`, asText(`"Echo: hé \"w\"\n\t\u2028 🦊 \\ \u0001 </script>"`))
	f("echo", `{"message":""}`, asText(`"Echo: "`))
	f("echo", `{}`, asWrong(`argument "message" is missing`))
	f("echo", ``, asWrong(`argument "message" is missing`))
	f("echo", `{"message":null}`, asWrong(`argument "message" must be a string`))
	f("echo", `{"Message":"x"}`, asWrong(`argument "message" is missing`))

	f("add", `{"a":2,"b":3.5}`, asSum("5.5"))
	f("add", `{"a":-1e6,"b":0}`, asSum("-1000000"))
	f("add", `{"a":1e300,"b":0}`, asSum("1e+300"))
	f("add", `{"a":1e308,"b":1e308}`, asWrong("the sum is out of range"))
	f("add", `{"a":1e999,"b":1}`, asWrong(`argument "a" is out of range`))
	f("add", `{"a":"x"}`, asWrong(`argument "a" must be a number`))
	f("add", `{"a":1}`, asWrong(`argument "b" is missing`))
	f("add", `{"a":1,"b":[1]}`, asWrong(`argument "b" must be a number`))

	f("progress", `{"steps":2,"delayMs":0}`, asText(`"done 2"`))
	f("progress", `{"steps":0,"delayMs":0}`, asText(`"done 0"`))
	f("progress", `{"steps":1.5}`, asWrong(`argument "steps" must be a whole number from 0 to 10000`))
	f("progress", `{"steps":-1}`, asWrong(`argument "steps" must be a whole number from 0 to 10000`))
	f("log", ``, asText(`"logged 3"`))
	f("log", `{"count":100000}`, asWrong(`argument "count" must be a whole number from 0 to 10000`))
	f("slow", `{"ms":1}`, asText(`"slept 1"`))
	f("slow", `{"ms":1e0}`, asText(`"slept 1"`))
	f("slow", `{}`, asWrong(`argument "ms" is missing`))
	f("fail", ``, `{"content":[{"type":"text","text":"deliberate failure"}],"isError":true}`)
	f("touch", ``, asText(`"1"`))
	f("touch", ``, asText(`"2"`))
	f("whoami", ``, asText(`"{\"era\":\"modern\",\"version\":\"2026-07-28\"}"`))

	f("route", `{"region":"us-west1"}`, asText(`"region=us-west1"`))
	f("route", `{"region":"","shard":-7,"urgent":false}`, asText(`"region= shard=-7 urgent=false"`))
	f("route", `{"region":"x","shard":9007199254740992}`, asWrong(`argument "shard" must be a whole number between ±(2^53-1)`))
	f("route", `{"region":"x","urgent":1}`, asWrong(`argument "urgent" must be true or false`))
}

func TestSuiteTools(t *testing.T) {
	s := newServer(t, Options{})
	f := func(name, args, want string) {
		t.Helper()
		toolCase(t, s, name, args, want)
	}
	f("test_simple_text", ``, asText(`"This is a simple text response for testing."`))
	f("test_embedded_resource", `{}`, `{"content":[{"type":"resource","resource":{"uri":"test://embedded-resource","mimeType":"text/plain","text":"This is an embedded resource content."}}]}`)
	f("test_image_content", ``, `{"content":[{"type":"image","data":"`+s.png+`","mimeType":"image/png"}]}`)
	f("test_audio_content", ``, `{"content":[{"type":"audio","data":"`+s.wav+`","mimeType":"audio/wav"}]}`)
	f("test_multiple_content_types", ``, `{"content":[{"type":"text","text":"Multiple content types test:"},{"type":"image","data":"`+s.png+
		`","mimeType":"image/png"},{"type":"resource","resource":{"uri":"test://mixed-content-resource","mimeType":"application/json","text":"{\"test\":\"data\",\"value\":123}"}}]}`)
	f("test_error_handling", ``, `{"content":[{"type":"text","text":"This tool intentionally returns an error for testing"}],"isError":true}`)
	f("media", ``, `{"content":[{"type":"text","text":"media"},{"type":"image","data":"`+s.png+`","mimeType":"image/png"},{"type":"audio","data":"`+s.wav+
		`","mimeType":"audio/wav"},{"type":"resource_link","uri":"demo://static/text","name":"static text","mimeType":"text/plain"},`+
		`{"type":"resource","resource":{"uri":"demo://static/text","mimeType":"text/plain","text":"static text"}}]}`)

	f("json_schema_2020_12_tool", `{"phone":"1","contactMethod":"phone"}`, asText(`"Valid: {\"phone\":\"1\",\"contactMethod\":\"phone\"}"`))
	f("json_schema_2020_12_tool", `{"email":"a@b","address":{"street":"x"}}`, asText(`"Valid: {\"email\":\"a@b\",\"address\":{\"street\":\"x\"}}"`))
	f("json_schema_2020_12_tool", `{"phone":"1"}`, asWrong(`argument "email" is missing`))
	f("json_schema_2020_12_tool", `{"email":"a","contactMethod":"phone"}`, asWrong(`argument "phone" is missing`))
	f("json_schema_2020_12_tool", `{"email":"a","contactMethod":"fax"}`, asWrong(`argument "contactMethod" must be phone or email`))
	f("json_schema_2020_12_tool", `{"email":"a","x":1}`, asWrong(`there is no argument "x"`))
	f("json_schema_2020_12_tool", `{"email":"a","address":{"city":1}}`, asWrong(`argument "address": city must be a string`))
}

func TestRefusals(t *testing.T) {
	s := newServer(t, Options{PageSize: 2})
	toolCursor := `"cursor":` + string(ask(t, s, "tools/list", "")["nextCursor"])
	f := func(method, members string, code int, data string) {
		t.Helper()
		_, resp := do(t, s, exchange(t, method, members, ""))
		if resp.Error == nil || resp.Error.Code != code {
			t.Errorf("%s {%s} = %s, %v; want code %d", method, members, resp.Result, resp.Error, code)
			return
		}
		if data != "" {
			same(t, method+" data", resp.Error.Data, data)
		}
	}
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/get", "x"} {
		f(method, `"uri":"demo://counter"`, -32601, "")
	}
	f("subscriptions/listen", ``, -32602, "")
	f("subscriptions/listen", `"notifications":[]`, -32602, "")
	f("subscriptions/listen", `"notifications":{"toolsListChanged":1}`, -32602, "")
	f("subscriptions/listen", `"notifications":{"resourceSubscriptions":"demo://counter"}`, -32602, "")
	f("subscriptions/listen", `"notifications":{"resourceSubscriptions":[1]}`, -32602, "")
	f("tools/call", `"name":"test_sometimes"`, -32602, "")
	f("prompts/get", `"name":"test_sometimes"`, -32602, "")
	f("resources/read", `"uri":"test://sometimes"`, -32602, `{"uri":"test://sometimes"}`)
	f("tools/list", `"cursor":"nope"`, -32602, "")
	f("tools/list", `"cursor":""`, -32602, "")
	f("tools/list", `"cursor":null`, -32602, "")
	f("prompts/list", toolCursor, -32602, "")
	f("tools/call", `"name":"nope"`, -32602, "")
	f("tools/call", ``, -32602, "")
	f("tools/call", `"name":"echo","arguments":[]`, -32602, "")
	f("tools/call", `"name":"echo","arguments":null`, -32602, "")
	f("tools/call", `"name":"test_missing_capability"`, -32021, `{"requiredCapabilities":{"sampling":{}}}`)
	f("resources/read", `"uri":"demo://nope"`, -32602, `{"uri":"demo://nope"}`)
	f("resources/read", `"uri":"demo://item/"`, -32602, `{"uri":"demo://item/"}`)
	f("resources/read", `"uri":"demo://item/{id}"`, -32602, `{"uri":"demo://item/{id}"}`)
	f("resources/read", `"uri":"demo://item/a/b"`, -32602, `{"uri":"demo://item/a/b"}`)
	f("resources/read", `"uri":"demo://item/%zz"`, -32602, `{"uri":"demo://item/%zz"}`)
	f("resources/read", `"uri":"test://template/data"`, -32602, `{"uri":"test://template/data"}`)
	f("resources/read", ``, -32602, "")
	f("prompts/get", `"name":"nope"`, -32602, "")
	f("prompts/get", `"name":"greet"`, -32602, "")
	f("prompts/get", `"name":"greet","arguments":{"name":1}`, -32602, "")
	f("prompts/get", `"name":"greet","arguments":"x"`, -32602, "")
	f("completion/complete", ``, -32602, "")
	f("completion/complete", `"ref":{"type":"ref/prompt","name":"nope"},"argument":{"name":"x","value":""}`, -32602, "")
	f("completion/complete", `"ref":{"type":"ref/resource","uri":"demo://item/1"},"argument":{"name":"id","value":""}`, -32602, "")
	f("completion/complete", `"ref":{"type":"ref/other"},"argument":{"name":"id","value":""}`, -32602, "")
	f("completion/complete", `"ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"style"}`, -32602, "")
}

func TestResources(t *testing.T) {
	s := newServer(t, Options{})
	ask(t, s, "tools/call", `"name":"touch"`)
	f := func(uri, rest string, ttl string) {
		t.Helper()
		r := ask(t, s, "resources/read", `"uri":"`+uri+`"`)
		same(t, uri, r["contents"], `[{"uri":"`+uri+`",`+rest+`}]`)
		same(t, uri+" ttlMs", r["ttlMs"], ttl)
		same(t, uri+" cacheScope", r["cacheScope"], `"public"`)
	}
	f("demo://static/text", `"mimeType":"text/plain","text":"static text"`, "300000")
	f("demo://static/blob", `"mimeType":"image/png","blob":"`+s.png+`"`, "300000")
	f("demo://counter", `"mimeType":"text/plain","text":"1"`, "0")
	f("demo://item/42", `"mimeType":"text/plain","text":"item 42"`, "300000")
	f("demo://item/a%20b%2Fc", `"mimeType":"text/plain","text":"item a b/c"`, "300000")
	f("test://static-text", `"mimeType":"text/plain","text":"This is the content of the static text resource."`, "300000")
	f("test://static-binary", `"mimeType":"image/png","blob":"`+s.png+`"`, "300000")
	f("test://watched-resource", `"mimeType":"text/plain","text":"Watched resource content, version 0."`, "0")
	f("test://template/123/data", `"mimeType":"application/json","text":"{\"id\":\"123\",\"templateTest\":true,\"data\":\"Data for ID: 123\"}"`, "300000")
}

func TestPrompts(t *testing.T) {
	s := newServer(t, Options{})
	f := func(name, args string, blocks ...string) {
		t.Helper()
		r := ask(t, s, "prompts/get", `"name":"`+name+`","arguments":`+args)
		if r["ttlMs"] != nil || r["cacheScope"] != nil {
			t.Errorf("%s: prompts/get is not cacheable", name)
		}
		var want []string
		for _, b := range blocks {
			want = append(want, `{"role":"user","content":`+b+`}`)
		}
		same(t, name, r["messages"], `[`+strings.Join(want, ",")+`]`)
	}
	f("plain", `{}`, `{"type":"text","text":"plain prompt"}`)
	f("greet", `{"name":"Bo","style":"formal"}`, `{"type":"text","text":"Greet Bo in a formal style"}`)
	f("greet", `{"name":"Bo"}`, `{"type":"text","text":"Greet Bo in a plain style"}`)
	f("test_simple_prompt", `{}`, `{"type":"text","text":"This is a simple prompt for testing."}`)
	f("test_prompt_with_arguments", `{"arg1":"a","arg2":"b"}`, `{"type":"text","text":"Prompt with arguments: arg1='a', arg2='b'"}`)
	f("test_prompt_with_embedded_resource", `{"resourceUri":"test://x"}`,
		`{"type":"resource","resource":{"uri":"test://x","mimeType":"text/plain","text":"Embedded resource content for testing."}}`,
		`{"type":"text","text":"Please process the embedded resource above."}`)
	f("test_prompt_with_image", `{}`, `{"type":"image","data":"`+s.png+`","mimeType":"image/png"}`, `{"type":"text","text":"Please analyze the image above."}`)
}

func TestCompletion(t *testing.T) {
	s := newServer(t, Options{})
	f := func(ref, name, value, want string) {
		t.Helper()
		r := ask(t, s, "completion/complete", `"ref":{`+ref+`},"argument":{"name":"`+name+`","value":"`+value+`"}`)
		same(t, ref+" "+value, r["completion"], want)
	}
	f(`"type":"ref/prompt","name":"greet"`, "style", "f", `{"values":["formal","friendly","funny"],"total":3,"hasMore":false}`)
	f(`"type":"ref/prompt","name":"greet"`, "style", "fu", `{"values":["funny"],"total":1,"hasMore":false}`)
	f(`"type":"ref/prompt","name":"greet"`, "name", "", `{"values":[],"total":0,"hasMore":false}`)
	f(`"type":"ref/prompt","name":"test_prompt_with_arguments"`, "arg1", "par", `{"values":["paris","park","party"],"total":3,"hasMore":false}`)
	f(`"type":"ref/prompt","name":"test_prompt_with_arguments"`, "arg1", "test", `{"values":[],"total":0,"hasMore":false}`)
	f(`"type":"ref/resource","uri":"demo://item/{id}"`, "id", "1", `{"values":["1","10","11"],"total":3,"hasMore":false}`)
	f(`"type":"ref/resource","uri":"demo://item/{id}"`, "x", "", `{"values":[],"total":0,"hasMore":false}`)
	f(`"type":"ref/resource","uri":"test://template/{id}/data"`, "id", "12", `{"values":["12","123"],"total":2,"hasMore":false}`)
}

func TestNotRequests(t *testing.T) {
	s := newServer(t, Options{})
	f := func(raw string, name string) {
		t.Helper()
		m, err := wire.Scan([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Do(&proxy.Exchange{Msg: m})
		var e *proxy.Error
		if r != nil || name == "" && err != nil || name != "" && (!errors.As(err, &e) || e.Name != name) {
			t.Errorf("Do(%s) = %v, %v; want error %q", raw, r, err, name)
		}
	}
	f(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "")
	f(`{"jsonrpc":"2.0","id":1,"result":{}}`, "invalid_request")
	f(`[]`, "invalid_request")
}

// Recorded edits are applied.
func TestEdits(t *testing.T) {
	s := newServer(t, Options{})
	ex := exchange(t, "tools/call", `"name":"front__echo","arguments":{"message":"x"}`, "")
	ex.Msg.Replace(ex.Msg.Name, []byte(`"echo"`))
	_, resp := do(t, s, ex)
	if resp.Error != nil || !strings.Contains(string(resp.Result), "Echo: x") {
		t.Errorf("got %s, %v", resp.Result, resp.Error)
	}
}

func TestDeclaredCapability(t *testing.T) {
	s := newServer(t, Options{})
	ex := exchange(t, "tools/call", `"name":"test_missing_capability"`, "")
	ex.Client.Caps = []byte(`{"sampling":{}}`)
	if _, resp := do(t, s, ex); resp.Error != nil {
		t.Errorf("refused although declared beside the message: %v", resp.Error)
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":"q1","method":"tools/call","params":{"name":"test_missing_capability",` +
		`"_meta":{"io.modelcontextprotocol/clientCapabilities":{"sampling":{}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, resp := do(t, s, &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}}); resp.Error != nil {
		t.Errorf("refused although declared in the message: %v", resp.Error)
	}
}
