package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/rest/schema"
	"dragoman/internal/clitest"
	"dragoman/proxy"
)

// mapped is a row of the error table as `dragoman errors --json` prints it.
type mapped struct {
	InternalCode   *string
	JSONRPCCode    *int `json:"jsonRpcCode"`
	HTTPStatus     int
	EnvelopeCode   proxy.EnvelopeCode
	EnvelopeStatus int
	Retryable      *bool
	Templates      []string `json:"messageTemplates"`
	DataSchema     json.RawMessage
}

// Seed 003, McpErrorMapping: its fields and validation rules, by the printed table.
func TestRulesErrorMapping(t *testing.T) {
	r := clitest.Run(t, nil, "errors", "--json")
	var rows []mapped
	if err := json.Unmarshal([]byte(r.Out), &rows); err != nil || r.Code != 0 || len(rows) != len(proxy.Faults()) {
		t.Fatalf("%d %v %s: %d rows", r.Code, err, r.Errs, len(rows))
	}
	each := func(rule string, holds func(m *mapped) bool) {
		t.Helper()
		t.Run(rule, func(t *testing.T) {
			for i := range rows {
				if !holds(&rows[i]) {
					t.Errorf("row %d, %s: %d %d %s %d %q", i, *rows[i].InternalCode, *rows[i].JSONRPCCode, rows[i].HTTPStatus, rows[i].EnvelopeCode, rows[i].EnvelopeStatus, rows[i].Templates)
				}
			}
		})
	}
	seen := map[string]bool{}
	each("rule M.1 internalCode is there, and no two are the same", func(m *mapped) bool {
		defer func() { seen[*m.InternalCode] = true }()
		return *m.InternalCode != "" && !seen[*m.InternalCode]
	})
	each("rule M.2 jsonRpcCode is of JSON-RPC's or MCP's range", func(m *mapped) bool {
		n := *m.JSONRPCCode
		return n == -32700 || n >= -32603 && n <= -32600 || n >= -32099 && n <= -32000
	})
	each("rule M.3 messageTemplate is there", func(m *mapped) bool {
		return len(m.Templates) > 0 && !slices.ContainsFunc(m.Templates, func(s string) bool { return strings.TrimSpace(s) == "" })
	})
	each("rule M.4 retryable is there", func(m *mapped) bool { return m.Retryable != nil })
	each("rule M.5 dataSchema is there where error.data is", func(m *mapped) bool {
		return (*m.JSONRPCCode != proxy.CodeInternal || len(m.DataSchema) > 0) && (len(m.DataSchema) == 0 || m.DataSchema[0] == '{')
	})
	each("rule M.6 each row is an envelope's code with its status, too", func(m *mapped) bool {
		// what HTTP itself refuses has HTTP's status
		ours := m.EnvelopeCode == proxy.BadArguments && m.EnvelopeStatus > 400 && m.EnvelopeStatus < 500
		return slices.Contains(proxy.EnvelopeCodes(), m.EnvelopeCode) && (m.EnvelopeStatus == m.EnvelopeCode.Status() || ours)
	})
	t.Run("rule M.5 error.data fits its dataSchema", func(t *testing.T) { ruleData(t) })
	t.Run("rule M.7 one failure is the same row towards every kind of client", func(t *testing.T) { ruleSameRow(t) })
}

// ruleData validates the data of an error of each row by the row's schema.
func ruleData(t *testing.T) {
	cache := schema.NewCache()
	for _, f := range proxy.Faults() {
		e := proxy.Errf(f, "why")
		e.RetryAfter = 7
		var object struct{ Data json.RawMessage }
		if err := json.Unmarshal(e.AppendJSON(nil), &object); err != nil {
			t.Fatal(err)
		}
		if f.DataSchema() == "" || object.Data == nil {
			if (f.DataSchema() == "") != (object.Data == nil) && f.Code == proxy.CodeInternal {
				t.Errorf("%s: data %s, schema %s", f.Name, object.Data, f.DataSchema())
			}
			continue
		}
		if v, err := cache.Check([]byte(f.DataSchema()), object.Data); v != nil || err != nil {
			t.Errorf("%s: %s: %v %v", f.Name, object.Data, v, err)
		}
		if v, err := cache.Check([]byte(f.DataSchema()), []byte(`{"code":7}`)); v == nil || err != nil {
			t.Errorf("%s: its schema refuses nothing: %v", f.Name, err)
		}
	}
}

// ruleSameRow checks that one failure has the same row for a modern, a legacy and a REST client.
func ruleSameRow(t *testing.T) {
	fresh := func() *rig { // which has not noticed yet that the server is down
		return startRig(t, "[upstreams.default]\nurl = \"http://127.0.0.1:1/mcp\"\n", false)
	}
	row := proxy.Unreachable
	data := fmt.Sprintf(`"data":{"code":%q,"retryable":%v`, row.Name, row.Retryable)
	modern := fresh().must("POST", "/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
	legacy := fresh().must("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, legacyHeaders("")...)
	for _, res := range []*response{modern, legacy} {
		if !strings.Contains(res.body, fmt.Sprintf(`"error":{"code":%d,`, row.Code)) || !strings.Contains(res.body, data) {
			t.Errorf("%d %s", res.status, res.body)
		}
	}
	status, e := fresh().post("/call-tool", `{"tool":"a","arguments":{}}`)
	if status != row.Envelope.Status() || e.Code != string(row.Envelope) || !strings.HasPrefix(string(e.Meta.Cause), fmt.Sprintf(`{"code":%d,%s`, row.Code, data)) {
		t.Errorf("%d %+v %s", status, e, e.Meta.Cause)
	}
}

// Seed 001, HTTP Implementation: GET /mcp/sse is a stream of JSON-RPC 2.0 messages on which the server can begin.
func TestRulesEventStream(t *testing.T) {
	for _, path := range []string{"/mcp/sse", "/servers/default/mcp/sse"} {
		u := newUpstream(t, "legacy")
		u.getOpen = true
		r := startRig(t, u.toml(""), true)
		echoing(u)
		c := r.sse(path)
		c.send(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`)
		t.Run("rule S.6 GET "+path+" is an event stream", func(t *testing.T) {
			if kind := c.res.Header.Get("Content-Type"); c.res.StatusCode != 200 || !strings.HasPrefix(kind, "text/event-stream") {
				t.Error(c.res.StatusCode, kind)
			}
			c.receives(`{"jsonrpc":"2.0","id":"open","result":{…`)
		})
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.send(legacyCall("7", "a"))
		t.Run("rule S.7 the server begins a message on "+path, func(t *testing.T) {
			_, asked := c.event()
			var m struct {
				JSONRPC, Method string
				ID              json.RawMessage
			}
			if err := json.Unmarshal([]byte(asked), &m); err != nil || m.JSONRPC != "2.0" || m.Method != "elicitation/create" || m.ID == nil {
				t.Fatal(err, asked)
			}
			c.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept","content":{"text":"yes"}}}`)
			c.receives(`{"jsonrpc":"2.0","id":7,"result":{…"text":"a yes"…`)
		})
	}
}
