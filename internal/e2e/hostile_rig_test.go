package e2e

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"dragoman/internal/testkit"
)

// soonEnough is how long it may take to serve a well-behaved client after an attack, and to refuse an attacker, if no configured time
// applies. It is generous: machines are busy.
const soonEnough = 5 * time.Second

// wireClient is a connection with raw bytes.
type wireClient struct {
	net.Conn
	t  *testing.T
	br *bufio.Reader
}

func (r *rig) wire() *wireClient {
	r.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		r.t.Fatal(err)
	}
	c := &wireClient{conn, r.t, bufio.NewReader(conn)}
	r.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(testkit.Patient))
	return c
}

// send writes, and ignores errors: the other side may have closed the connection.
func (c *wireClient) send(text string) { _, _ = io.WriteString(c.Conn, text) }

// receive reads one answer; nil if there is none, with the error of the connection.
func (c *wireClient) receive() (*response, error) {
	res, err := http.ReadResponse(c.br, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return &response{res.StatusCode, res.Header, string(body)}, err
}

// rest reads all further answers until the connection ends or nothing arrives for a while, and reports which.
func (c *wireClient) rest(silence time.Duration) (all []*response, ended bool) {
	for {
		_ = c.SetReadDeadline(time.Now().Add(silence))
		res, err := c.receive()
		switch {
		case err == nil:
			all = append(all, res)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return all, false
		default:
			return all, true
		}
	}
}

// good checks that a well-behaved client is served at once in both eras.
func (r *rig) good(after string) {
	r.t.Helper()
	began := time.Now()
	res := r.must("POST", "/mcp", discoverBody, modernHeaders("server/discover", "")...)
	if res.status != 200 || !strings.Contains(res.body, `"result"`) {
		r.t.Errorf("after %s a good client gets %d %s", after, res.status, res.body)
	}
	if took := time.Since(began); took > soonEnough {
		r.t.Errorf("after %s a good client waited %v", after, took)
	}
}
