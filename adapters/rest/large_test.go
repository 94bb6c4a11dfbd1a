package rest

import (
	"strings"
	"testing"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Large data is the same as small data, and its memory is released before the last bytes are written.
func TestLargeData(t *testing.T) {
	r := newRig(t, nil)
	for _, size := range []int{largeData - 100, largeData, 300_000} {
		text := strings.Repeat("x", size)
		result := `{"content":[{"type":"text","text":"` + text + `"}]}`
		r.s.result("tools/call", result)
		for range 3 {
			r.want(200, `{"success":true,"data":`+result+`,"request_id":"`+callerID+`",$S}`, "POST", "/call-tool",
				`{"tool":"plain","arguments":{"a":1},"request_id":"`+callerID+`"}`)
			r.want(200, result, "POST", "/mcp/tools/call", `{"name":"plain","arguments":{"a":1}}`)
		}
	}
}

// A large result is written with its edits, and its envelope depends on the edited result.
func TestLargeEdited(t *testing.T) {
	text := strings.Repeat("x", largeData)
	content := `"content":[{"type":"text","text":"` + text + `"}]`
	for name, c := range map[string]struct {
		result string
		edit   func(m *wire.Message)
		want   string // the result; "" for a failure, which has another status
	}{
		"nothing": {`{` + content + `}`, func(*wire.Message) {}, `{` + content + `}`},
		"at the end": {`{` + content + `}`, func(m *wire.Message) {
			m.EditObject(m.Result, []wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}, {Key: "_meta", Value: []byte(`{"a":1}`)}})
		}, `{` + content + `,"resultType":"complete","_meta":{"a":1}}`},
		"first and last dropped": {`{"a":1,` + content + `,"b":{}}`, func(m *wire.Message) { m.EditObject(m.Result, []wire.Change{{Key: "a"}, {Key: "b"}}) }, `{` + content + `}`},
		"the id as well":         {`{` + content + `}`, func(m *wire.Message) { m.Replace(m.ID, []byte(`"another"`)) }, `{` + content + `}`},
		"all of it":              {`{` + content + `}`, func(m *wire.Message) { m.Replace(m.Result, []byte(`{"a":1,`+content+`}`)) }, `{"a":1,` + content + `}`},
		"a failure no more":      {`{` + content + `,"isError":true}`, func(m *wire.Message) { m.EditObject(m.Result, []wire.Change{{Key: "isError"}}) }, `{` + content + `}`},
		"a failure": {`{` + content + `}`, func(m *wire.Message) {
			m.EditObject(m.Result, []wire.Change{{Key: "isError", Value: []byte(`true`)}})
		}, ""},
		"a failure all along": {`{` + content + `,"isError":true}`, func(m *wire.Message) {
			m.EditObject(m.Result, []wire.Change{{Key: "resultType", Value: []byte(`"complete"`)}})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.s.set("tools/call", func(ex *proxy.Exchange) (proxy.Replies, error) {
				m := proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(c.result))
				c.edit(&m)
				return proxy.Reply(m), nil
			})
			if c.want == "" {
				if status, got := r.got("POST", "/call-tool", `{"tool":"plain","arguments":{}}`); status != 500 || !strings.Contains(got, `"code":"EXECUTION_ERROR"`) || !strings.Contains(got, text) {
					t.Errorf("%d %.300s", status, got)
				}
				return
			}
			r.want(200, `{"success":true,"data":`+c.want+`,"request_id":"`+callerID+`",$S}`, "POST", "/call-tool", `{"tool":"plain","arguments":{},"request_id":"`+callerID+`"}`)
			r.want(200, c.want, "POST", "/mcp/tools/call", `{"name":"plain","arguments":{}}`)
		})
	}
}
