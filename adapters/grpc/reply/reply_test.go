package reply

import (
	"math"
	"testing"

	"dragoman/proxy"
)

func TestWriter(t *testing.T) {
	info := []byte(`{"name":"n"}`)
	w := Writer{ID: []byte(`"a\/1"`), Info: func() []byte { return info }}
	if m, err := w.Progress(1, nil, ""); m != nil || err != nil {
		t.Error(m, err)
	}
	if m, err := w.Refuse("\"no"); err != nil || string(m.Raw) != `{"jsonrpc":"2.0","id":"a\/1","result":{"content":[{"type":"text","text":"\"no"}],"isError":true,"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}}}}` {
		t.Errorf("%s %v", m.Raw, err)
	}
	if m, err := w.Failure([]byte(`{"code":1,"message":"m"}`)); err != nil || string(m.Raw) != `{"jsonrpc":"2.0","id":"a\/1","error":{"code":1,"message":"m"}}` {
		t.Errorf("%s %v", m.Raw, err)
	}
	b := w.Begin(0)
	b.Add("a", []byte("1,"))
	if m, err := w.End(b); !proxy.IsFault(err, proxy.BadAnswer) {
		t.Errorf("%v %v", m, err)
	}
	if got := string(w.Meta([]byte(`{"a":1}`))); got != `{"a":1,"io.modelcontextprotocol/serverInfo":{"name":"n"}}` {
		t.Error(got)
	}
	if info = nil; w.Meta(nil) != nil || string(w.Meta([]byte("{}"))) != "{}" {
		t.Error("_meta without serverInfo")
	}
	w.Token = []byte("7")
	total := math.NaN()
	if m, err := w.Progress(math.Inf(1), &total, "m"); err != nil || string(m.Raw) != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":0,"total":0,"message":"m"}}` {
		t.Errorf("%s %v", m.Raw, err)
	}
	if got := string(Number(1e21)) + string(Number(2.5)) + string(Number(-3)); got != "1e+212.5-3" {
		t.Error(got)
	}
}
