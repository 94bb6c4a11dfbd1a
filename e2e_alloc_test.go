package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mostAllocations is what a call of a modern client at a modern server may allocate in the steady state, in everything between the two
// sockets, or a socket and a child's pipes: faces, policies, adapters, fasthttp. It can only be lowered.
const mostAllocations = 0

// frugal is a modern server, a client and nothing else that would allocate: what is counted is Dragoman's.
type frugal struct {
	answer  []byte // of a call, with its id at
	at      int
	request []byte
	in      []byte
	conn    net.Conn
}

const frugalID = "1000000001"

// serve answers calls by the book of nobody: it looks for the end of a message and for its id.
func (f *frugal) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f.converse(c)
	}
}

// converse ends with its client.
func (f *frugal) converse(c net.Conn) {
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
			copy(out[f.at:], in[at:at+len(frugalID)])
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

// contentLength reads what a head says; 0: nothing.
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
func (f *frugal) call() error {
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
		if !bytes.HasPrefix(f.in, []byte("HTTP/1.1 200")) || !bytes.Contains(f.in[:n], []byte(`fine"`)) || !bytes.Contains(f.in[:n], []byte(`"id":`+frugalID)) {
			return fmt.Errorf("%s", f.in[:n])
		}
		return nil
	}
}

// frugalServer is such a server's address.
func frugalServer(t *testing.T) string {
	t.Helper()
	f := &frugal{}
	body := `{"jsonrpc":"2.0","id":` + frugalID + `,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	f.answer, f.at = []byte(head+body), len(head)+strings.Index(body, frugalID)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go f.serve(l) // ends with its listener
	return l.Addr().String()
}

// newFrugal is such a client of a rig that stands before the upstream.
func newFrugal(t *testing.T, upstream string) *frugal {
	t.Helper()
	f := &frugal{in: make([]byte, 64<<10)}
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
	call := strings.Replace(modernCall(frugalID, "echo", ""), `"arguments":{}`, `"arguments":{"message":"fine"}`, 1)
	lines := "POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\n"
	for h := modernHeaders("tools/call", "echo"); len(h) > 1; h = h[2:] {
		lines += h[0] + ": " + h[1] + "\r\n"
	}
	f.request = []byte(lines + "Content-Length: " + strconv.Itoa(len(call)) + "\r\n\r\n" + call)
	return f
}

// A call in the steady state, through real sockets on both sides, or to a real child.
func TestAllocationsOfACall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("server", func(t *testing.T) { allocations(t, fmt.Sprintf("url = \"http://%s/mcp\"\n", frugalServer(t))) })
	t.Run("child", func(t *testing.T) {
		allocations(t, fmt.Sprintf("command = [%q, \"demo\", \"--log-level\", \"error\"]\n[upstreams.default.env]\n%s = \"main\"\n", self, asDragoman))
	})
}

func allocations(t *testing.T, upstream string) {
	f := newFrugal(t, upstream)
	const warm, calls = 2000, 2000
	for range warm {
		if err := f.call(); err != nil {
			t.Fatal(err)
		}
	}
	var failed error
	n := testing.AllocsPerRun(calls, func() {
		if err := f.call(); err != nil {
			failed = err
		}
	})
	t.Logf("%v allocations", n)
	if failed != nil {
		t.Fatal(failed)
	}
	if n > mostAllocations {
		t.Errorf("a call allocates %v times, at most %d are allowed", n, mostAllocations)
	}
}
