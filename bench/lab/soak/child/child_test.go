//go:build linux

package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, k := range kinds() {
		for _, isModern := range []bool{false, true} {
			want := Role{Modern: isModern, Kind: k}
			if got, err := Parse(want.String()); err != nil || got != want {
				t.Errorf("Parse(%q) = %v, %v", want, got, err)
			}
		}
	}
	for _, word := range []string{"", "legacy", "good", "/good", "future/good", "legacy/", "legacy/good/", "legacy/Good"} {
		if got, err := Parse(word); err == nil {
			t.Errorf("Parse(%q) = %v", word, got)
		}
	}
}

func TestEnd(t *testing.T) {
	now := time.Unix(1000, 0)
	if got := end("1234", now); !got.Equal(time.Unix(1234, 0)) {
		t.Error(got)
	}
	for _, word := range []string{"", "soon"} {
		if got := end(word, now); !got.Equal(now.Add(lifetime)) {
			t.Errorf("%q: %v", word, got)
		}
	}
}

// pipes is a child with its pipes.
type pipes struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Scanner
	done chan error
}

func startChild(t *testing.T, word string) *pipes {
	t.Helper()
	role, err := Parse(word)
	if err != nil {
		t.Fatal(err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	r := &pipes{t: t, in: inW, out: bufio.NewScanner(outR), done: make(chan error, 1)}
	r.out.Buffer(nil, 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	go func() {
		err := role.Serve(ctx, inR, outW, io.Discard)
		_ = outW.Close()
		_ = inR.Close()
		r.done <- err
	}()
	t.Cleanup(func() {
		cancel()
		_ = inW.Close()
		_ = outR.Close()
		<-r.done
	})
	return r
}

func (r *pipes) send(line string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, line+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *pipes) next() string {
	r.t.Helper()
	if !r.out.Scan() {
		r.t.Fatalf("no line: %v", r.out.Err())
	}
	return r.out.Text()
}

func (r *pipes) want(line string) {
	r.t.Helper()
	if got := r.next(); got != line {
		r.t.Errorf("got  %s\nwant %s", got, line)
	}
}

func TestEcho(t *testing.T) {
	for word, head := range map[string]string{"legacy/good": "", "modern/good": `"resultType":"complete",`} {
		r := startChild(t, word)
		r.send(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"token":"a","size":3,"progress":1},"_meta":{"progressToken":"p"}}}`)
		r.want(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}`)
		r.want(`{"jsonrpc":"2.0","id":7,"result":{` + head + `"content":[{"type":"text","text":"a:xxx"}]}}`)
	}
}

// A cancelled call is not answered; the next one is.
func TestCancel(t *testing.T) {
	r := startChild(t, "legacy/good")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"token":"a","delay_ms":15000}}}`)
	r.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	r.send(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	r.want(`{"jsonrpc":"2.0","id":2,"result":{}}`)
}

func TestAsks(t *testing.T) {
	r := startChild(t, "legacy/good")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"token":"a"}}}`)
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.Unmarshal([]byte(r.next()), &m); err != nil || m.Method != "elicitation/create" {
		t.Fatal(m, err)
	}
	r.send(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"action":"accept"}}`)
	r.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a:"}]}}`)

	r = startChild(t, "modern/good")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"token":"a"}}}`)
	if got := r.next(); !strings.Contains(got, `"input_required"`) || !strings.Contains(got, `"requestState":"half-way"`) {
		t.Error(got)
	}
	r.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"token":"a"},"inputResponses":{"q":{"action":"accept"}},"requestState":"half-way"}}`)
	r.want(`{"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","text":"a:"}]}}`)
}

func TestCrash(t *testing.T) {
	r := startChild(t, "legacy/crash-later")
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"token":"a"}}}`
	for id := range lastCalls {
		r.send(fmt.Sprintf(call, id))
		r.next()
	}
	r.send(fmt.Sprintf(call, lastCalls))
	err := <-r.done
	r.done <- err
	if !errors.Is(err, errCrash) {
		t.Error(err)
	}
}

// The children that answer no call answer initialize and server/discover. One that floods answers in the end.
func TestMisbehaviour(t *testing.T) {
	r := startChild(t, "legacy/hang")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"token":"a"}}}`)
	r.send(`{"jsonrpc":"2.0","id":2,"method":"server/discover"}`)
	r.want(`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"method not found"}}`)

	r = startChild(t, "legacy/flood")
	r.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"token":"a"}}}`)
	for range floodCount {
		if got := r.next(); !strings.Contains(got, "notifications/message") {
			t.Fatal(got)
		}
	}
	r.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a:"}]}}`)
}
