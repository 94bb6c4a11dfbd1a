package upstream

import (
	"bytes"
	"testing"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/proxy/wire"
)

// Every answer to every request becomes a response, a next step, or an error.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{successBody(`{"a":1}`), failureBody("EXECUTION_ERROR", `,"meta":{"result":{"content":[]},"cause":{"code":-1,"data":{}}}`), toolsAnswer, healthyAnswer, "", "<p>", "[]", "1",
		successBody(`{"result_type":"input_required","input_requests":{"a":{"method":"roots/list"}},"request_state":"s"}`), successBody(`{"content":[{"type":"text","text":"x"}],"_meta":{}}`),
		successBody(`{"resources":[{"uri":"a","name":"b","mime_type":"c"}],"resource_templates":[{"uri_template":"a","name":"b"}],"prompts":[{"name":"p"}],"next_cursor":"n"}`),
		successBody(`{"contents":[{"uri":"a"}],"messages":[],"completion":{"values":[]}}`), `{"tools":[{"name":"a","input_schema":{"type":"object"},"description":null}]}`, `1,"method":"x"`, "\xef\xbb\xbf{}"} {
		for which := range 10 {
			f.Add(uint8(which), uint16(200), []byte(body))
		}
	}
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: "http://h"})
	if err != nil {
		f.Fatal(err)
	}
	handlers := []answerHandler{(*call).called, (*call).tools, (*call).resources, (*call).templates, (*call).prompts, (*call).read, (*call).prompted, (*call).completion,
		(*call).readTools, func(c *call, r *reply) (wire.Message, *step, error) {
			if _, _, err := c.progress(r.raw[r.begin:]); err != nil {
				m, _, err := c.log(r.raw[r.begin:])
				return m, c.discover(), err
			}
			return wire.Message{}, c.discover(), nil
		}}
	f.Fuzz(func(t *testing.T, which uint8, status uint16, body []byte) {
		u := New(host, "/", httpcall.Limits{})
		ex := newExchange(t, "tools/call", `{"name":"a","uri":"a:b"}`)
		c := &call{u: u, ex: ex, m: ex.Msg, id: ex.Msg.Of(ex.Msg.ID), opening: resultHead(ex.Msg.Of(ex.Msg.ID)), token: []byte("1"), logLevel: "debug"}
		c.step = c.get("/x", nil)
		r := &reply{step: c.step, status: int(status), begin: len(c.opening), raw: append(bytes.Clone(c.opening), body...)}
		r.parse()
		m, next, err := handlers[int(which)%len(handlers)](c, r)
		switch {
		case err != nil && err.Error() == "":
			t.Error("an error without words")
		case err != nil, next != nil:
		case m.Kind == wire.Invalid:
			t.Error("nothing came of it")
		default:
			out, err := wire.Scan(m.Append(nil))
			if err != nil || out.IsResponse() && string(out.Of(out.ID)) != string(c.id) {
				t.Errorf("%v: %s", err, m.Append(nil))
			}
		}
	})
}
