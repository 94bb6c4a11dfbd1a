//go:build unix

package lines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/mux"
	"dragoman/adapters/stdio/pipe"
	"dragoman/internal/testkit"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// piped is a mux over pipes, as to a child, with the server's ends.
type piped struct {
	*mux.Mux
	in       *pipe.Writer
	w        *Writer
	r        *Reader
	requests *os.File // what the server reads
	answers  *os.File // where it writes
	ended    chan struct{}
}

func (p *piped) Keep() func()  { return p.r.Keep() }
func (p *piped) Run() wire.Run { return p.r.Run() }

func (p *piped) WriteParts(ctx context.Context, parts ...[]byte) error {
	return p.w.WriteParts(ctx, parts...)
}

type noSink struct{}

func (noSink) Message(*wire.Message) bool { return true }
func (noSink) Lost(error)                 {}

func startPiped(t *testing.T, size int) *piped {
	t.Helper()
	requests, in := testPipeOf(t, size)
	r, answers, err := os.Pipe()
	must(t, err)
	out, err := pipe.NewReader(r, pipe.DefaultSize)
	must(t, err)
	p := &piped{in: in, w: NewWriter(in, WriterOptions{}), r: NewReader(out, 0), requests: requests, answers: answers, ended: make(chan struct{})}
	p.Mux = mux.NewLines(proxy.Modern, p, noSink{})
	go func() {
		defer close(p.ended)
		for {
			line, err := p.r.ReadLine()
			if err != nil {
				p.Fail(err)
				return
			}
			if err := p.Deliver(line); err != nil {
				t.Errorf("%.60q: %v", line, err)
			}
		}
	}()
	t.Cleanup(func() {
		requests.Close()
		answers.Close()
		<-p.ended
		out.Close()
	})
	return p
}

// begin begins a call that names the size of its answer.
func (p *piped) begin(t *testing.T, want int, pad string) (*proxy.Exchange, proxy.Replies, error) {
	t.Helper()
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"a","n":%d,"pad":"%s"}}`, want, pad))
	must(t, err)
	ex := &proxy.Exchange{Msg: m, Client: proxy.Client{Era: proxy.Modern}}
	replies, err := p.Call(ex)
	return ex, replies, err
}

// serve answers requests in the order of their arrival.
func (p *piped) serve() {
	number := regexp.MustCompile(`"id":(\d+),.*"n":(\d+)`)
	r := NewReader(p.requests, 0)
	for {
		line, err := r.ReadLine()
		if err != nil {
			return
		}
		if m := number.FindSubmatch(line[:min(len(line), 200)]); m != nil {
			n, _ := strconv.Atoi(string(m[2]))
			if _, err := fmt.Fprintf(p.answers, `{"result":{"t":"%s"},"jsonrpc":"2.0","id":%s}`+"\n", strings.Repeat("x", n), m[1]); err != nil {
				return
			}
		}
	}
}

// Large answers to slow clients delay neither the small ones behind them nor one another, and are unchanged when they are read at last.
func TestNoHeadOfLineBlocking(t *testing.T) {
	t.Parallel()
	p := startPiped(t, pipe.DefaultSize)
	served := make(chan struct{})
	go func() { defer close(served); p.serve() }()
	const slow, size = 4, 5 << 20
	var large [slow]proxy.Replies
	for i := range large {
		var err error
		_, large[i], err = p.begin(t, size, "")
		must(t, err)
	}
	until := time.Now().Add(20 * time.Second)
	for range 50 {
		_, r, err := p.begin(t, 10, "")
		must(t, err)
		m, err := r.Next(until)
		must(t, err)
		if got := string(m.Append(nil)); got != `{"result":{"t":"xxxxxxxxxx"},"jsonrpc":"2.0","id":"own"}` {
			t.Fatal(got)
		}
		must(t, r.Close())
	}
	for _, r := range large {
		m, err := r.Next(until)
		must(t, err)
		if text := m.Append(nil); len(text) < size || bytes.Count(text, []byte("x")) != size || !bytes.HasSuffix(text, []byte(`"id":"own"}`)) {
			t.Errorf("%d bytes", len(text))
		}
		must(t, r.Close())
	}
	p.requests.Close()
	p.in.Close()
	<-served
}

// A server that does not read: requests wait as long as their clients do, those that are cancelled before they were begun leave nothing,
// and the rest arrives completely when the server reads on.
func TestServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	p := startPiped(t, -1)
	pad := strings.Repeat("p", 1<<20)
	var mu sync.Mutex
	sent, lost := map[string]bool{}, 0
	var all sync.WaitGroup
	var exs []*proxy.Exchange
	for i := range 24 { // six times the bound
		m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"own","method":"m","params":{"name":"call-%d","pad":"%s"}}`, i, pad))
		must(t, err)
		ex := &proxy.Exchange{Msg: m}
		exs = append(exs, ex)
		all.Go(func() {
			r, err := p.Call(ex)
			mu.Lock()
			if err == nil {
				sent[fmt.Sprintf("call-%d", i)] = true
			} else {
				lost++
			}
			mu.Unlock()
			if err != nil {
				if proxy.AsError(err).Name != proxy.Cancelled.Name {
					t.Error(err)
				}
				return
			}
			_, _ = r.Next(time.Time{})
			_ = r.Close()
		})
	}
	testkit.Eventually(t, "writers wait", func() bool { // one more is admitted if the first is being written
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		return len(p.w.waiting) >= 19
	})
	p.w.mu.Lock()
	if p.w.held > defaultBuffer+2<<20 {
		t.Errorf("%d bytes wait", p.w.held)
	}
	p.w.mu.Unlock()
	for _, ex := range exs {
		ex.Cancel(proxy.ErrCancelled)
	}
	all.Wait()
	if lost < 18 || len(sent) == 0 {
		t.Errorf("%d were cancelled in time, %d sent", lost, len(sent))
	}
	arrived, cancelled := 0, 0
	lines := NewReader(p.requests, 0)
	for cancelled < len(sent) {
		line, err := lines.ReadLine()
		must(t, err)
		m, err := wire.Scan(line)
		must(t, err)
		switch {
		case m.Is("notifications/cancelled"):
			cancelled++
		case !sent[string(m.Text(m.Name))]:
			t.Errorf("%s was cancelled, and arrived", m.Text(m.Name))
		default:
			arrived++
		}
	}
	if arrived != len(sent) {
		t.Errorf("%d arrived of %d", arrived, len(sent))
	}
	flush, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	must(t, p.w.Flush(flush))
	if p.w.held != 0 {
		t.Errorf("%d bytes are held", p.w.held)
	}
}

// A message is not copied on its way to or from a server, except by the system.
func TestLargeMessagesAllocateLittle(t *testing.T) {
	if proxy.Poison {
		t.Skip("the race detector empties pools")
	}
	p := startPiped(t, pipe.DefaultSize)
	served := make(chan struct{})
	go func() { defer close(served); _, _ = io.Copy(io.Discard, p.requests) }()
	pad := strings.Repeat("p", 1<<20)
	m, err := wire.Scan(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":"own","method":"m","params":{"pad":"%s"}}`, pad))
	must(t, err)
	answer := fmt.Appendf(nil, `{"result":{"t":"%s"},"jsonrpc":"2.0","id":          }`+"\n", pad)
	result := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			ex := &proxy.Exchange{Msg: m}
			ex.Msg.Edits = nil
			r, err := p.Call(ex)
			must(t, err)
			copy(answer[len(answer)-12:], fmt.Sprintf("%-10s", ex.Msg.Edits[0].With))
			_, err = p.answers.Write(answer)
			must(t, err)
			got, err := r.Next(time.Now().Add(10 * time.Second))
			must(t, err)
			if len(got.Raw) != len(answer)-1 {
				t.Fatal(len(got.Raw))
			}
			must(t, r.Close())
		}
	})
	if per := result.AllocedBytesPerOp(); per > 64<<10 {
		t.Errorf("%d bytes of heap for a call of 1 MiB and its answer", per)
	}
	p.in.Close()
	<-served
}
