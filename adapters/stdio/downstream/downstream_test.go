package downstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/rules"
	"dragoman/adapters/stdio/lines"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// downstreamOf serves in with answers of the size that the tool's name gives.
func downstreamOf(in io.Reader, out io.Writer) *Server {
	return &Server{In: in, Out: out, MaxLine: 200_000, Cap: time.Minute, InFlight: 64,
		Handle: func(ex *proxy.Exchange) (proxy.Replies, error) {
			var n int
			_, _ = fmt.Sscan(string(ex.Msg.Text(ex.Msg.Name)), &n)
			m, err := wire.Scan(fmt.Appendf(nil, `{"result":{"t":"%s"},"jsonrpc":"2.0","id":1}`, strings.Repeat("x", n)))
			m.Replace(m.ID, ex.Msg.Of(ex.Msg.ID))
			return proxy.Reply(m), err
		}}
}

func modernLine(id, name string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"_meta":{"%sprotocolVersion":%q,"%sclientInfo":{"name":"c","version":"1"},"%sclientCapabilities":{}}}}`+"\n",
		id, name, wire.MetaPrefix, rules.ModernVersion, wire.MetaPrefix, wire.MetaPrefix)
}

// Answers of any size arrive; one that is too long for a line arrives as an error.
func TestDownstreamSizes(t *testing.T) {
	t.Parallel()
	sizes := []string{"10", "65000", "66000", "190000", "250000"}
	in := ""
	for i, n := range sizes {
		in += modernLine(fmt.Sprintf(`"k%d"`, i), n)
	}
	reader, writer := io.Pipe()
	answers, output := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- downstreamOf(reader, output).Serve(t.Context()) }()
	go func() { _, _ = io.WriteString(writer, in) }()
	input := lines.NewReader(answers, 1<<20)
	for range sizes {
		line, err := input.ReadLine()
		must(t, err)
		m, err := wire.Scan(line)
		must(t, err)
		var i, n int
		_, _ = fmt.Sscanf(string(m.Text(m.ID)), "k%d", &i)
		_, _ = fmt.Sscan(sizes[i], &n)
		if i == len(sizes)-1 {
			if m.Kind != wire.Failure || !bytes.Contains(line, []byte("response_too_large")) {
				t.Errorf("%.200s", line)
			}
		} else if m.Kind != wire.Result || bytes.Count(m.Of(m.Result), []byte("x")) != n {
			t.Errorf("%s: %d bytes, %.60s", sizes[i], len(line), line)
		}
	}
	_ = writer.Close()
	must(t, <-ended)
}

// blockedWriter accepts nothing until it is closed.
type blockedWriter chan struct{}

func (d blockedWriter) Write([]byte) (int, error) { <-d; return 0, errors.New("closed") }

// A client that has closed its input and does not read does not delay the end for ever.
func TestDownstreamClientDoesNotRead(t *testing.T) {
	t.Parallel()
	out := make(blockedWriter)
	in := modernLine("0", "190000")
	for i := 1; i < 60; i++ { // more than may wait
		in += modernLine(fmt.Sprint(i), "150000")
	}
	ended := make(chan error, 1)
	go func() { ended <- downstreamOf(strings.NewReader(in), out).Serve(context.Background()) }()
	select {
	case err := <-ended:
		if !errors.Is(err, errStalled) && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	case <-time.After(flushTime + 20*time.Second):
		t.Error("it does not end")
	}
	close(out)
}

// A cancellation right after its request finds it, in either era, whether it has begun or not, and the request gets no answer.
func TestDownstreamCancelBehindRequest(t *testing.T) {
	const rounds = 300
	store, err := session.NewStore(session.Options{IdleTTL: time.Hour, Max: 10})
	must(t, err)
	defer store.Close()
	for _, era := range []string{"legacy", "modern"} {
		in := ""
		if era == "legacy" {
			in = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n"
		}
		for id := range rounds {
			call := modernLine(fmt.Sprint(id), "a")
			if era == "legacy" {
				call = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}`+"\n", id)
			}
			in += call + fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
		}
		reader, writer := io.Pipe()
		var out bytes.Buffer
		cancelled := make(chan error, rounds)
		d := &Server{Store: store, In: reader, Out: &out, MaxLine: 200_000, Cap: time.Minute, InFlight: 64, Handle: func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Is("initialize") {
				return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), []byte(`{"protocolVersion":"x"}`))), nil
			}
			select {
			case <-ex.Done():
			case <-time.After(20 * time.Second):
			}
			cancelled <- ex.Err()
			return nil, proxy.ErrCancelled
		}}
		ended := make(chan error, 1)
		go func() { ended <- d.Serve(t.Context()) }()
		go func() { _, _ = io.WriteString(writer, in) }()
		for range rounds {
			if err := <-cancelled; err != proxy.ErrCancelled {
				t.Fatalf("%s: a request was not cancelled: %v", era, err)
			}
		}
		_ = writer.Close()
		must(t, <-ended)
		if n := strings.Count(out.String(), `"id":`) - strings.Count(out.String(), `"id":"i"`); n != 0 {
			t.Errorf("%s: %d answers: %.300s", era, n, out.String())
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A ping before initialize is answered; other legacy requests are told to send it first.
func TestDownstreamBeforeInitialize(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/list"}` + "\n"
	must(t, downstreamOf(strings.NewReader(in), &out).Serve(t.Context()))
	if got := out.String(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":1,"result":{}}`+"\n") || !strings.Contains(got, `"id":2,"error":{"code":-32600,"message":"send initialize first`) {
		t.Error(got)
	}
}
