package wire

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
)

func TestScanKinds(t *testing.T) {
	f := func(raw string, want Kind) {
		t.Helper()
		m, err := Scan([]byte(raw))
		if err != nil || m.Kind != want {
			t.Errorf("Scan(%s) = %v, %v; want %v", raw, m.Kind, err, want)
		}
	}
	f(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, Request)
	f(`{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}`, Request)
	f(`{"method":"notifications/initialized","jsonrpc":"2.0"}`, Notification)
	f(`{"jsonrpc":"2.0","id":0,"result":{}}`, Result)
	f(`{"jsonrpc":"2.0","id":0,"result":null}`, Result)
	f(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`, Failure)
	f(`{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`, Failure)
	f(" \t\n[{},1]\r\n", Batch)
	f("\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", Request)
	f(`{"jsonrpc":"2.0","id":1,"meth\u006fd":"ping"}`, Request)
	f(`{"jsonrpc":"2.0","id":1,"method":"ping","x":"`+"\u2028"+`\ud83e\udd8a"}`, Request)
	f(`{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}`, Request)
}

func TestScanRefuses(t *testing.T) {
	f := func(raw string, code int, hasID bool) {
		t.Helper()
		m, err := Scan([]byte(raw))
		se, _ := err.(*ScanError)
		if se == nil || se.Code != code || m.ID.Present() != hasID {
			t.Errorf("Scan(%.80q) = %v, id %q; want code %d, id %v", raw, err, m.Of(m.ID), code, hasID)
		}
	}
	f(``, CodeParse, false)
	f(`{`, CodeParse, false)
	f(`{"jsonrpc":"2.0","id":1,"method":"x"}}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x"`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":01}}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1.}}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":+1}}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[1,]}}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x",}`, CodeParse, true)
	f("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\x00\"}", CodeParse, true)
	f("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", CodeParse, true)
	f("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xed\xa0\x80\"}", CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"\x"}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"\u12g4"}`, CodeParse, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":`+strings.Repeat(`[`, 10000)+strings.Repeat(`]`, 10000)+`}`, CodeParse, true)
	f(strings.Repeat(`[`, 10000)+strings.Repeat(`]`, 10000), CodeParse, false)
	f(strings.Repeat(`{"a":`, 10000)+`1`+strings.Repeat(`}`, 10000), CodeParse, false)
	f(`"x"`, CodeInvalid, false)
	f(`nul`, CodeParse, false)
	f(`{"id":1,"method":"x"}`, CodeInvalid, true)
	f(`{"jsonrpc":"1.0","id":1,"method":"x"}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","jsonrpc":"2.0","id":1,"method":"x"}`, CodeInvalid, false)
	f(`{"jsonrpc":"2.0","id":null,"method":"x"}`, CodeInvalid, false)
	f(`{"jsonrpc":"2.0","id":1.5,"method":"x"}`, CodeInvalid, false)
	f(`{"jsonrpc":"2.0","id":1e3,"method":"x"}`, CodeInvalid, false)
	f(`{"jsonrpc":"2.0","id":true,"method":"x"}`, CodeInvalid, false)
	f(`{"jsonrpc":"2.0","id":1,"method":""}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":7}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":[]}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","METHOD":"tools/call"}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/list","\u006dethod":"tools/call"}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","param`+"\u017f"+`":{"name":"a"}}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","Name":"b"}}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}`, CodeInvalid, true)
	f(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"progressToken":1,"progressToken":2}}}`, CodeInvalid, true)
}

func TestScanPlaces(t *testing.T) {
	raw := []byte(`{ "params" : {"name":"t\"x","arguments":{"n":9007199254740993},"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}},` + "\n" + `"id":"12","jsonrpc":"2.0","method":"tools/call"}`)
	m, err := Scan(raw)
	if err != nil {
		t.Fatal(err)
	}
	f := func(s Span, want string) {
		t.Helper()
		if got := string(m.Of(s)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(m.ID, `"12"`)
	f(m.Arguments, `{"n":9007199254740993}`)
	f(m.Token, `7`)
	f(m.Version, `"2026-07-28"`)
	if !m.Is("tools/call") || string(m.Text(m.Name)) != `t"x` || !m.Lines {
		t.Errorf("method %q name %q lines %v", m.Text(m.Method), m.Text(m.Name), m.Lines)
	}
	if r, err := Scan([]byte(`{"jsonrpc":"2.0","id":1,"error":{"data":{"uri":"u"},"code":-32602,"message":"no"}}`)); err != nil || r.ErrorCode != -32602 || string(r.Of(r.ErrorData)) != `{"uri":"u"}` {
		t.Errorf("failure: %+v %v", r, err)
	}
}

func TestEditObject(t *testing.T) {
	f := func(in, want string, changes ...Change) {
		t.Helper()
		m := Message{Raw: []byte(in)}
		m.EditObject(m.Whole(), changes)
		got := m.Append(nil)
		if string(got) != want || !json.Valid(got) {
			t.Errorf("edit %s = %s; want %s", in, got, want)
		}
	}
	drop := func(k string) Change { return Change{Key: k} }
	set := func(k, v string) Change { return Change{k, []byte(v)} }
	f(`{}`, `{"a":1}`, set("a", "1"))
	f(`{}`, `{}`, drop("a"))
	f(`{ }`, `{ "a":1,"b":2}`, set("a", "1"), set("b", "2"))
	f(`{"a":1}`, `{}`, drop("a"))
	f(`{"a":1}`, `{"b":2}`, drop("a"), set("b", "2"))
	f(`{"a":1,"b":2}`, `{"b":2}`, drop("a"))
	f(`{"a":1,"b":2}`, `{"a":1}`, drop("b"))
	f(`{"a":1,"b":2}`, `{}`, drop("a"), drop("b"))
	f(`{"a":1,"b":2,"c":3}`, `{"a":1}`, drop("b"), drop("c"))
	f(`{"a":1 , "b":2 , "c":3 }`, `{"b":9 , "c":3 }`, drop("a"), set("b", "9"))
	f(`{"a":1 , "b":2 , "c":3 }`, `{"a":1 , "b":2 ,"d":4}`, drop("c"), drop("x"), set("d", "4"))
	f(`{"a":1,"b":2,"c":3,"d":4}`, `{"b":2}`, drop("a"), drop("c"), drop("d"))
	f(`{"a":1,"a":2}`, `{"a":3}`, set("a", "3"))
	f(`{"\u0061":1,"b":{"a":5}}`, `{"b":{"a":5}}`, drop("a"))
}

func TestEditsOfSeveralObjects(t *testing.T) {
	m, err := Scan([]byte(`{"jsonrpc":"2.0","params":{"_meta":{"x":1,"io.modelcontextprotocol/logLevel":"info"},"name":"n","task":{}},"id":5,"method":"tools/call"}`))
	if err != nil {
		t.Fatal(err)
	}
	m.Replace(m.ID, []byte(`"up"`))
	m.EditObject(m.Meta, []Change{{Key: "io.modelcontextprotocol/logLevel"}, {"t", []byte("1")}})
	m.EditObject(m.Params, []Change{{Key: "task"}, {Key: "name"}})
	want := `{"jsonrpc":"2.0","params":{"_meta":{"x":1,"t":1}},"id":"up","method":"tools/call"}`
	if got := string(m.Append(nil)); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	if got := string(m.AppendPart(nil, m.Params)); got != `{"_meta":{"x":1,"t":1}}` {
		t.Fatalf("part %s", got)
	}
	if _, err := m.Settle(nil); err != nil || string(m.Of(m.ID)) != `"up"` || m.Name.Present() {
		t.Fatalf("settled %s %v", m.Raw, err)
	}
}

func TestWalk(t *testing.T) {
	raw := []byte(`{"a":"x\\\"y" , "b":[1, {"c":[]} ,"]"],"d":{}}`)
	var got []string
	for k, v := range Members(raw, Span{0, uint32(len(raw))}) {
		got = append(got, string(k.Of(raw))+"="+string(v.Of(raw)))
	}
	if s := strings.Join(got, ";"); s != `"a"="x\\\"y";"b"=[1, {"c":[]} ,"]"];"d"={}` {
		t.Error(s)
	}
	n := 0
	for i, v := range Items(raw, Get(raw, Span{0, uint32(len(raw))}, "b")) {
		n += i
		if i == 1 && string(v.Of(raw)) != `{"c":[]}` {
			t.Error(string(v.Of(raw)))
		}
	}
	if n != 3 {
		t.Error("items", n)
	}
}

func TestAppendText(t *testing.T) {
	f := func(in string) {
		t.Helper()
		var back string
		out := AppendText(nil, in)
		if err := json.Unmarshal(out, &back); err != nil || back != strings.ToValidUTF8(in, "\ufffd") {
			t.Errorf("%q -> %s -> %q %v", in, out, back, err)
		}
		if got := (Span{0, uint32(len(out))}).Text(out); string(got) != back {
			t.Errorf("Text(%s) = %q", out, got)
		}
	}
	f("")
	f("a\"b\\c\n\r\t\x00\x1f\x7f</script>\u2028終🦊")
	f("\xff")
	// What several bytes at once must not pass over, at every place of a long text.
	for _, odd := range []string{"\"", "\\", "\x00", "\x1f", "\x7f", "\xff", "é", "終", "🦊"} {
		for at := range 150 {
			f(strings.Repeat("x", at) + odd + strings.Repeat("y", 170-at))
		}
	}
	if got := string(AppendText(nil, strings.Repeat("x", 100)+"\x7f")); !strings.HasSuffix(got, `x\u007f"`) {
		t.Error(got)
	}
}

func BenchmarkAppendText(b *testing.B) {
	long, dst := strings.Repeat("plain words, and so on; ", 1000), make([]byte, 0, 32<<10)
	for _, size := range []int{20, 300, 24000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				dst = AppendText(dst[:0], long[:size])
			}
		})
	}
}

const small = `{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"name":"echo","arguments":{"message":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"_meta":{"progressToken":"p41","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`

func TestScanAndRewriteAllocateNothing(t *testing.T) {
	raw, dst, edits := []byte(small), make([]byte, 0, 1024), make([]Edit, 0, 8)
	id := []byte("1234567")
	got := testing.AllocsPerRun(200, func() {
		m, err := Scan(raw)
		if err != nil {
			t.Fatal(err)
		}
		m.Edits = edits[:0]
		m.Replace(m.ID, id)
		m.Replace(m.Token, id)
		dst = m.Append(dst[:0])
	})
	if got != 0 {
		t.Errorf("scan and rewrite allocate %v times", got)
	}
}

// text returns an answer with one long string.
func text(s string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"` + s + `"}]}}`
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct{ name, raw string }{
		{"300B", small},
		{"10K", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"m":"` + strings.Repeat("lorem ipsum ", 850) + `"}}}`},
		{"10K-dense", `{"jsonrpc":"2.0","id":1,"result":{"content":[` + strings.Repeat(`{"a":1,"b":[true,"x"]},`, 440) + `0]}}`},
		{"10K-escapes", text(strings.Repeat(`\"lorem\": 17,\n  `, 520))},
		{"10K-other-script", text(strings.Repeat("при\u2008вет", 600))},
		{"1M", text(strings.Repeat("lorem ipsum ", 1<<20/12))},
	} {
		raw := []byte(c.raw)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Scan(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"x"}]`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":"\u00e9","error":{"code":1,"message":"\ud83e\udd8a","data":[1e5,-0.1,null]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := Scan(raw)
		if err != nil {
			if se := err.(*ScanError); se.Code == CodeInvalid && !json.Valid(bytes.TrimPrefix(raw, bom)) {
				// The scanner may refuse a message before it has read all of it, but it never accepts invalid JSON.
				return
			}
			return
		}
		if !json.Valid(m.Raw) {
			t.Fatalf("accepted %q", raw)
		}
		walkAll(t, m.Raw, m.Whole())
		if m.Kind == Batch {
			return
		}
		for _, at := range []Span{m.ID, m.Method, m.Name, m.URI, m.Version, m.ResultType, m.ErrorText} {
			text := at.Text(m.Raw)
			if got := m.Text(at); string(got) != string(text) || (got == nil) != (text == nil) {
				t.Fatalf("%q is %q, want %q", at.Of(m.Raw), text, got)
			}
			for _, want := range []string{string(text), "x", "tools/call", ""} {
				if m.At(at, want) != at.Is(m.Raw, want) {
					t.Fatalf("%q is not distinguished from %q", at.Of(m.Raw), want)
				}
			}
		}
		m.EditObject(m.Whole(), []Change{{Key: "id"}, {"method", []byte(`"m"`)}, {"zz", []byte(`1`)}})
		out := m.Append(nil)
		if !json.Valid(out) {
			t.Fatalf("edit of %q gave %q", raw, out)
		}
		if got := Get(out, Span{0, uint32(len(out))}, "method"); !got.Is(out, "m") {
			t.Fatalf("edit of %q gave %q", raw, out)
		}
	})
}

// walkAll compares the walkers with encoding/json on the same bytes.
func walkAll(t *testing.T, raw []byte, s Span) {
	switch raw[s.From] {
	case '{':
		for k, v := range Members(raw, s) {
			var name string
			if err := json.Unmarshal(k.Of(raw), &name); err != nil || string(k.Text(raw)) != name {
				t.Fatalf("name %q: %q %v", k.Of(raw), name, err)
			}
			walkAll(t, raw, v)
		}
	case '[':
		for _, v := range Items(raw, s) {
			walkAll(t, raw, v)
		}
	default:
		if !json.Valid(s.Of(raw)) {
			t.Fatalf("value %q", s.Of(raw))
		}
	}
}

// ScanValue reads one value as strictly as Scan reads a message.
func TestScanValue(t *testing.T) {
	for raw, want := range map[string]string{
		`{"a":[1,2]}`: `{"a":[1,2]}`, " 7\n": `7`, "\xef\xbb\xbf {} ": `{}`, `"x"`: `"x"`, `[{"id":1,"id":2}]`: `[{"id":1,"id":2}]`,
		``: ``, ` `: ``, `{}}`: ``, `{},"a":1`: ``, `1 2`: ``, `{"a":}`: ``, `{"a":1`: ``, `'x'`: ``, `01`: ``, "\"\x01\"": ``, "\"\xff\"": ``,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): ``,
	} {
		at, err := ScanValue([]byte(raw))
		if got := string(at.Of([]byte(raw))); got != want || (err == nil) != (want != "") {
			t.Errorf("%.40q: %q, %v", raw, got, err)
		}
	}
}
