package main

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// mostAllocations is what a call of a modern client at a modern server may allocate in the steady state, in everything between the two
// sockets: faces, policies, adapters, fasthttp. It can only be lowered.
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
		if !bytes.HasPrefix(f.in, []byte("HTTP/1.1 200")) || !bytes.Contains(f.in[:n], []byte(`"text":"fine"`)) || !bytes.Contains(f.in[:n], []byte(`"id":`+frugalID)) {
			return fmt.Errorf("%s", f.in[:n])
		}
		return nil
	}
}

// newFrugal is such a server, and such a client of the rig that stands before it.
func newFrugal(t *testing.T) *frugal {
	t.Helper()
	f := &frugal{in: make([]byte, 64<<10)}
	body := `{"jsonrpc":"2.0","id":` + frugalID + `,"result":{"resultType":"complete","content":[{"type":"text","text":"fine"}]}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	f.answer, f.at = []byte(head+body), len(head)+strings.Index(body, frugalID)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go f.serve(l) // ends with its listener
	r := startRig(t, fmt.Sprintf("log.access = \"off\"\n[upstreams.default]\nurl = \"http://%s/mcp\"\n", l.Addr()), false)
	addr := strings.TrimPrefix(r.base, "http://")
	if f.conn, err = net.Dial("tcp", addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.conn.Close() })
	if err = f.conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	call := modernCall(frugalID, "echo", "")
	lines := "POST /mcp HTTP/1.1\r\nHost: " + addr + "\r\n"
	for h := modernHeaders("tools/call", "echo"); len(h) > 1; h = h[2:] {
		lines += h[0] + ": " + h[1] + "\r\n"
	}
	f.request = []byte(lines + "Content-Length: " + strconv.Itoa(len(call)) + "\r\n\r\n" + call)
	return f
}

// A call in the steady state, through real sockets on both sides.
func TestAllocationsOfACall(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	f := newFrugal(t)
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
