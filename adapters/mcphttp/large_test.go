package mcphttp

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// lender is replies that reuse their memory once they are closed.
type lender struct {
	raw    []byte
	edit   bool
	closed *atomic.Int64
	done   bool
}

func (l *lender) Next(time.Time) (*wire.Message, error) {
	if l.done {
		return nil, io.EOF
	}
	l.done = true
	m, err := proxy.Scanned(l.raw)
	if l.edit {
		m.Replace(m.ID, []byte(`"a longer id"`))
	}
	return m, err
}

func (l *lender) Close() error {
	clear(l.raw)
	l.closed.Add(1)
	return nil
}

// serveLent serves answers of the size in the query, with the id first or last, edited or not.
func serveLent(t *testing.T) (addr string, closed *atomic.Int64, made *atomic.Int64) {
	t.Helper()
	srv, err := httpserver.NewServer(httpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	closed, made = new(atomic.Int64), new(atomic.Int64)
	n := ResponseOptions{Patience: time.Second, KeepAlive: time.Second, Cap: time.Minute, Leaves: true, Status: func(int) int { return 200 }}
	srv.Handle("POST", "/", func(ctx *fasthttp.RequestCtx) {
		q := ctx.QueryArgs()
		raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"result":{"t":"%s"}}`, strings.Repeat("x", q.GetUintOrZero("n")))
		if q.GetBool("last") {
			raw = fmt.Appendf(nil, `{"result":{"t":"%s"},"jsonrpc":"2.0","id":7}`, strings.Repeat("x", q.GetUintOrZero("n")))
		}
		made.Add(1)
		plan := Plan{Exchange: &proxy.Exchange{}, Options: &n, Handle: func(*proxy.Exchange) (proxy.Replies, error) {
			return &lender{raw: raw, edit: q.GetBool("edit"), closed: closed}, nil
		}}
		plan.run(ctx)
	})
	return testkit.Serve(t, srv), closed, made
}

// A large answer arrives complete, with or without edits, although its memory is reused before its last bytes have been sent.
func TestLargeAnswers(t *testing.T) {
	addr, closed, made := serveLent(t)
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	for _, n := range []int{0, 1000, inPlace - 60, inPlace, inPlace + 300, 15_000, 17_000, 100_000, 2 << 20} {
		for _, query := range []string{"", "&edit=1", "&last=1", "&last=1&edit=1"} {
			res, err := client.Post(fmt.Sprintf("http://%s/?n=%d%s", addr, n, query), "application/json", nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			id := "7"
			if strings.Contains(query, "edit") {
				id = `"a longer id"`
			}
			want := `{"jsonrpc":"2.0","id":` + id + `,"result":{"t":"` + strings.Repeat("x", n) + `"}}`
			if strings.Contains(query, "last") {
				want = `{"result":{"t":"` + strings.Repeat("x", n) + `"},"jsonrpc":"2.0","id":` + id + `}`
			}
			if err != nil || string(got) != want || res.Header.Get("Content-Type") != "application/json" || res.ContentLength != int64(len(want)) {
				t.Errorf("%d%s: %v, %d bytes of %d, ending in %q", n, query, err, len(got), len(want), got[max(0, len(got)-40):])
			}
			if n >= inPlace && closed.Load() != made.Load() {
				t.Errorf("%d%s: the client has its answer, and the exchange has not ended", n, query)
			}
		}
	}
}

// A client that leaves in the middle of a large answer leaves nothing behind.
func TestLargeAnswerUnread(t *testing.T) {
	addr, closed, made := serveLent(t)
	for range 3 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "POST /?n=16000000 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		head := make([]byte, 12)
		if _, err := io.ReadFull(c, head); string(head) != "HTTP/1.1 200" {
			t.Errorf("%q, %v", head, err)
		}
		_ = c.Close()
	}
	testkit.Eventually(t, "all are closed", func() bool { return closed.Load() == 3 && made.Load() == 3 })
}
