package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// mostAllocations is how much a call of a modern client at a modern server may allocate in the steady state, in everything between the two
// sockets or a socket and a child's pipes: endpoints, policies, adapters, fasthttp. It may only be lowered.
const mostAllocations = 0

// leanPeer is a modern server and a client that allocate nothing, so that only Dragoman is counted.
type leanPeer struct {
	answer  []byte // of a call, with its id at
	at      int    // in it, or in request
	request []byte
	in      []byte
	conn    net.Conn
	events  *bufio.Reader // of a client over HTTP+SSE
}

const leanID = "1000000001"

// serve answers calls without parsing them: it looks for the end of a message and for its id.
func (f *leanPeer) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f.serveConn(c)
	}
}

// serveConn ends with its client.
func (f *leanPeer) serveConn(c net.Conn) {
	defer func() { _ = c.Close() }()
	in, out := make([]byte, 64<<10), bytes.Clone(f.answer)
	key, discover, call := []byte(`"id":`), []byte(`"server/discover"`), []byte(`"tools/call"`)
	for n := 0; ; {
		m, err := c.Read(in[n:])
		if err != nil {
			return
		}
		n += m
		if _, body, whole := bytes.Cut(in[:n], []byte("\r\n\r\n")); !whole || len(body) < contentLength(in[:n]) {
			continue
		}
		at := bytes.Index(in[:n], key) + len(key)
		switch {
		case bytes.Contains(in[:n], call):
			copy(out[f.at:], in[at:at+len(leanID)])
			_, err = c.Write(out)
		default:
			id, _, _ := strings.Cut(string(in[at:n]), ",")
			body := `{"jsonrpc":"2.0","id":` + strings.Trim(id, "}") + `,"error":{"code":-32601,"message":"no"}}`
			if bytes.Contains(in[:n], discover) {
				body = strings.Replace(body, `"error":{"code":-32601,"message":"no"}`, `"result":`+discovered, 1)
			}
			_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		}
		if n = 0; err != nil {
			return
		}
	}
}

// contentLength reads the length from a head; 0: none.
func contentLength(raw []byte) (n int) {
	name := []byte("Content-Length: ")
	at := bytes.Index(raw, name)
	if at < 0 {
		return 0
	}
	for _, c := range raw[at+len(name):] {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// call makes a call and reads the whole answer, which must have its id and its text.
func (f *leanPeer) call() error {
	if _, err := f.conn.Write(f.request); err != nil {
		return err
	}
	for n := 0; ; {
		m, err := f.conn.Read(f.in[n:])
		if err != nil {
			return err
		}
		n += m
		if end := bytes.Index(f.in[:n], []byte("\r\n\r\n")); end < 0 || n-end-4 < contentLength(f.in[:n]) {
			continue
		}
		if !bytes.HasPrefix(f.in, []byte("HTTP/1.1 200")) || !bytes.Contains(f.in[:n], []byte(`fine"`)) || !bytes.Contains(f.in[:n], []byte(`"id":`+leanID)) {
			return fmt.Errorf("%s", f.in[:n])
		}
		return nil
	}
}

// leanServer returns the address of such a server.
func leanServer(t *testing.T) string {
	t.Helper()
	f := &leanPeer{}
	body := `{"jsonrpc":"2.0","id":` + leanID + `,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	f.answer, f.at = []byte(head+body), len(head)+strings.Index(body, leanID)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go f.serve(l) // ends with its listener
	return l.Addr().String()
}

// newLeanPeer is such a client of a rig in front of the upstream.
func newLeanPeer(t *testing.T, upstream string) (*leanPeer, *rig) {
	t.Helper()
	f := &leanPeer{in: make([]byte, 64<<10)}
	r := startRig(t, "log.access = \"off\"\n[upstreams.default]\n"+upstream, false)
	addr := strings.TrimPrefix(r.base, "http://")
	var err error
	if f.conn, err = net.Dial("tcp", addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	if err = f.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	call := strings.Replace(modernCall(leanID, "echo", ""), `"arguments":{}`, `"arguments":{"message":"fine"}`, 1)
	lines := "POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\n"
	for h := modernHeaders("tools/call", "echo"); len(h) > 1; h = h[2:] {
		lines += h[0] + ": " + h[1] + "\r\n"
	}
	f.request = []byte(lines + "Content-Length: " + strconv.Itoa(len(call)) + "\r\n\r\n" + call)
	return f, r
}

// A call in the steady state, through real sockets on both sides, or to a real child.
func TestAllocationsOfACall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	self := testkit.Executable(t)
	t.Run("server", func(t *testing.T) {
		f, _ := newLeanPeer(t, fmt.Sprintf("url = \"http://%s/mcp\"\n", leanServer(t)))
		allocations(t, f.call, mostAllocations)
	})
	t.Run("child", func(t *testing.T) {
		f, _ := newLeanPeer(t, fmt.Sprintf("command = [%q, \"demo\", \"--log-level\", \"error\"]\n[upstreams.default.env]\n%s = \"main\"\n", self, testkit.AsDragoman))
		allocations(t, f.call, mostAllocations)
	})
}

// overSSE makes the calls over HTTP+SSE: the answer to each is an event on another connection.
func (f *leanPeer) overSSE(t *testing.T, r *rig) {
	c := r.sse("/sse")
	c.send(stdioInit)
	c.receives(`{"jsonrpc":"2.0","id":"i","result":{…`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	body := `{"jsonrpc":"2.0","id":` + leanID + `,"method":"tools/call","params":{"name":"echo","arguments":{"message":"fine"}}}`
	f.request = []byte("POST " + c.post + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(r.base, "http://") +
		"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	f.at, f.events = bytes.Index(f.request, []byte(leanID)), c.br
}

// post makes a call and reads both answers. Each has its own id: the same id again would be answered as a duplicate.
func (f *leanPeer) post() error {
	id := f.request[f.at : f.at+len(leanID)]
	for i := len(id) - 1; ; i-- {
		if id[i]++; id[i] <= '9' {
			break
		}
		id[i] = '0'
	}
	if _, err := f.conn.Write(f.request); err != nil {
		return err
	}
	n, err := f.conn.Read(f.in)
	if err != nil || !bytes.HasPrefix(f.in[:n], []byte("HTTP/1.1 202")) || !bytes.HasSuffix(f.in[:n], []byte("\r\n\r\n")) {
		return fmt.Errorf("%s, %w", f.in[:n], err)
	}
	for {
		line, err := f.events.ReadSlice('\n')
		if err != nil {
			return err
		}
		if bytes.HasPrefix(line, []byte("data: ")) {
			if !bytes.Contains(line, []byte(`fine"`)) || !bytes.Contains(line, id) {
				return fmt.Errorf("%s", line)
			}
			_, err = f.events.ReadSlice('\n')
			return err
		}
	}
}

// mostOverSSE is how much a call over HTTP+SSE may allocate: the text of its id in the session, that of its correlation id, and its entry
// in the store of duplicates until entries are reused. One more is for calls that begin before the one before has ended: its answer is read
// earlier, which happens more often on a busy machine.
const mostOverSSE = 5

// A call over HTTP+SSE to a legacy child of the session, and to a shared one.
func TestAllocationsOverSSE(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	self := testkit.Executable(t)
	for _, isolation := range []string{"session", "shared"} {
		t.Run(isolation, func(t *testing.T) {
			f, r := newLeanPeer(t, fmt.Sprintf("isolation = %q\ncommand = [%q, \"demo\", \"--era\", \"legacy\", \"--log-level\", \"error\"]\n[upstreams.default.env]\n%s = \"main\"\n", isolation, self, testkit.AsDragoman))
			f.overSSE(t, r)
			allocations(t, f.post, mostOverSSE)
		})
	}
}

func allocations(t *testing.T, call func() error, most float64) {
	const warm, calls = 2000, 2000
	for range warm {
		if err := call(); err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	n := testing.AllocsPerRun(calls, func() {
		if err := call(); err != nil {
			failed = err
		}
	})
	t.Logf("%v allocations", n)
	if failed != nil {
		t.Fatal(failed)
	}
	if n > most {
		t.Errorf("a call allocates %v times, at most %v are allowed", n, most)
	}
}
