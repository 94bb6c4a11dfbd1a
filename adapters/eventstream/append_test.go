package eventstream

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

func TestAppend(t *testing.T) {
	f := func(name, id string, hasID bool, data, want string) {
		t.Helper()
		var idBytes []byte
		if hasID {
			idBytes = []byte(id)
		}
		if got := string(Append(nil, name, idBytes, []byte(data))); got != want {
			t.Errorf("Append(%q, %q, %q)\n got %q\nwant %q", name, id, data, got, want)
		}
	}
	f("", "", false, "a", "data: a\n\n")
	f("", "", false, "", "data:\n\n")
	f("endpoint", "", false, "/messages?s=1", "event: endpoint\ndata: /messages?s=1\n\n")
	f("message", "7", true, "a", "event: message\nid: 7\ndata: a\n\n")
	f("", "", true, "", "id:\ndata:\n\n")
	f("", "", false, "a\nb", "data: a\ndata: b\n\n")
	f("", "", false, "a\r\nb\rc\n\rd\r\r\n", "data: a\ndata: b\ndata: c\ndata:\ndata: d\ndata:\ndata:\n\n")
	f("", "", false, "\n", "data:\ndata:\n\n")
	f("", "", false, "\r", "data:\ndata:\n\n")
	f("", "", false, " a", "data:  a\n\n")
	f("a\nid: 1\r\x00", "", false, "x", "event: aid: 1\ndata: x\n\n")
	f("", "1\ndata: evil", true, "x", "data: x\n\n")
	f("", "1\rdata: evil", true, "x", "data: x\n\n")
	f("", "\x00", true, "x", "data: x\n\n")
}

func TestAppendOthers(t *testing.T) {
	f := func(got []byte, want string) {
		t.Helper()
		if string(got) != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(AppendMessage([]byte("x"), []byte(`{"a":1}`)), "xevent: message\ndata: {\"a\":1}\n\n")
	f(AppendMessage(nil, nil), "event: message\ndata:\n\n")
	f(AppendMessage(nil, []byte("{\n}")), "event: message\ndata: {\ndata: }\n\n")
	f(AppendRetry(nil, 1500), "retry: 1500\n")
	f(AppendRetry(nil, 0), "retry: 0\n")
}

func TestAppendAllocatesNothing(t *testing.T) {
	dst := make([]byte, 0, 4096)
	data, id := bytes.Repeat([]byte("x\n"), 100), []byte("12")
	n := testing.AllocsPerRun(100, func() {
		dst = AppendRetry(dst[:0], 100)
		dst = Append(dst, "message", id, data)
		dst = AppendMessage(dst, data[:1])
		dst = append(dst, KeepAlive...)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// lines gives data as a reader sees it: every kind of line end as LF.
func lines(data []byte) string {
	return strings.ReplaceAll(strings.ReplaceAll(string(data), "\r\n", "\n"), "\r", "\n")
}

func FuzzAppend(f *testing.F) {
	f.Add("message", []byte("1"), []byte("{}"), 5)
	f.Add("a\nb", []byte("1\n"), []byte("\r\n\ndata: x\r"), -1)
	f.Fuzz(func(t *testing.T, name string, id, data []byte, retry int) {
		in := []byte(KeepAlive)
		if retry = min(retry, 1<<31-1); retry >= 0 {
			in = AppendRetry(in, retry)
		}
		in = Append(in, name, id, data)
		in = append(in, KeepAlive...)
		in = AppendMessage(in, data)
		want := kept{
			Name: strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(name),
			Data: lines(data), HasData: true, Retry: max(retry, -1),
		}
		if id != nil && !bytes.ContainsAny(id, "\r\n\x00") {
			want.ID, want.HasID = string(id), true
		}
		var s Splitter
		got, err := all(&s, bytes.NewReader(in))
		if err != io.EOF || len(got) != 2 || got[0] != want ||
			got[1] != (kept{Name: "message", Data: lines(data), HasData: true, Retry: -1}) {
			t.Fatalf("%q\n got %+v, %v\nwant %+v", in, got, err, want)
		}
	})
}

func BenchmarkAppendMessage(b *testing.B) {
	data := bytes.Repeat([]byte("x"), 300)
	dst := make([]byte, 0, 1024)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendMessage(dst[:0], data)
	}
}
