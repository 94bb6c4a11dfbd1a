package httpclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/httpd/http1"
	"dragoman/internal/testkit"
)

func TestHostOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	upstreamOn(t, ln, echo)
	for _, url := range []string{"unix:" + path + ":/base", "unix://" + path + ":/base"} {
		h := newHost(t, HostOptions{URL: url})
		req := post("hi")
		req.Target = ""
		if got := whole(t, h, req); got != "POST /base hi" || h.Authority() != "localhost" {
			t.Fatal(got)
		}
		whole(t, h, req)
	}
}

func TestHostOverTLS(t *testing.T) {
	cert, pem := testkit.Certificate(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	addr := upstreamOn(t, tls.NewListener(testkit.Listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), echo)
	for _, name := range []string{"127.0.0.1", "server.test"} {
		h := newHost(t, HostOptions{URL: "https://" + addr, CAFile: ca})
		h.tls.ServerName = name
		for range 3 {
			if got := whole(t, h, post("hi")); got != "POST /mcp hi" {
				t.Fatal(got)
			}
		}
		if open, _ := h.Conns(); open != 1 {
			t.Fatal(open)
		}
	}
	for file, name := range map[string]string{"": "127.0.0.1", ca: "other.test"} {
		h := newHost(t, HostOptions{URL: "https://" + addr, CAFile: file})
		h.tls.ServerName = name
		if _, err := h.Send(context.Background(), post("hi")); !Unsent(err) {
			t.Fatal(err)
		}
	}
}

// proxy is a forward proxy with CONNECT and absolute form, which requires a password.
func connectProxy(t *testing.T, seen chan string) string {
	return upstream(t, func(_ int, c net.Conn) {
		br := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			if r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
				_, _ = io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
				continue
			}
			seen <- r.Method + " " + r.RequestURI
			if r.Method != "CONNECT" {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(c, sized(r.Host))
				continue
			}
			there, err := net.Dial("tcp", r.RequestURI)
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
			go func() {
				_, _ = io.Copy(there, br)
				_ = there.Close()
			}()
			_, _ = io.Copy(c, there)
			return
		}
	})
}

func TestHostThroughAProxy(t *testing.T) {
	cert, pem := testkit.Certificate(t)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := make(chan string, 10)
	via := connectProxy(t, seen)
	addr := upstreamOn(t, tls.NewListener(testkit.Listen(t), &tls.Config{Certificates: []tls.Certificate{cert}}), echo)
	h := newHost(t, HostOptions{URL: "https://" + addr, CAFile: ca, Proxy: "http://user:pass@" + via})
	for range 2 {
		if got := whole(t, h, post("hi")); got != "POST /mcp hi" {
			t.Fatal(got)
		}
	}
	if got := testkit.Receive(t, "the proxy's news", seen); got != "CONNECT "+addr || len(seen) != 0 {
		t.Fatal(got)
	}
	h = newHost(t, HostOptions{URL: "http://mcp.test:81/base", Proxy: "http://user:pass@" + via})
	if got := whole(t, h, post("hi")); got != "mcp.test:81" {
		t.Fatal(got)
	}
	if got := testkit.Receive(t, "the proxy's news", seen); got != "POST http://mcp.test:81/mcp" {
		t.Fatal(got)
	}
	h = newHost(t, HostOptions{URL: "https://" + addr, CAFile: ca, Proxy: "http://" + via})
	if _, err := h.Send(context.Background(), post("hi")); !Unsent(err) || !strings.Contains(err.Error(), "407") {
		t.Fatal(err)
	}
}

func TestProxyFromEnvironment(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.test:8080")
	t.Setenv("NO_PROXY", "direct.test")
	for url, want := range map[string]string{"http://mcp.test": "proxy.test:8080", "http://direct.test": "", "http://127.0.0.1:1": ""} {
		h, err := NewHost(HostOptions{URL: url})
		if err != nil || h.dial.proxy != want {
			t.Errorf("%s: %q, %v", url, h.dial.proxy, err)
		}
	}
	for _, opts := range []HostOptions{{URL: "ftp://a"}, {URL: "http://"}, {URL: "a"}, {URL: "http://u:secret@a"}, {URL: "http://a", Proxy: "socks5://u:secret@b"}, {URL: "https://a", CAFile: "/none"}, {URL: "unix:"}} {
		if _, err := NewHost(opts); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", opts.URL, err)
		}
	}
}

// Each address is judged before a connection is made, after its name was resolved, that of a proxy as well; a socket's path is not.
func TestHostRefusesAddresses(t *testing.T) {
	addr := upstream(t, echo)
	_, port, _ := net.SplitHostPort(addr)
	var judged []string
	verdict := errors.New("not there")
	refuse := func(to netip.AddrPort) error {
		judged = append(judged, to.String())
		return verdict
	}
	for _, opts := range []HostOptions{{URL: "http://" + addr + "/mcp", Proxy: "off"}, {URL: "http://localhost:" + port + "/mcp", Proxy: "off"}, {URL: "https://mcp.test/", Proxy: "http://" + addr}} {
		judged, verdict, opts.Refuse = nil, errors.New("not there"), refuse
		h := newHost(t, opts)
		var req http1.Request
		if _, err := h.Send(t.Context(), &req); !errors.Is(err, verdict) || len(judged) == 0 || !slices.Contains(judged, addr) && !strings.Contains(opts.URL, "localhost") {
			t.Errorf("%s: %v, judged %q", opts.URL, err, judged)
		}
	}
	verdict = nil
	if got := whole(t, newHost(t, HostOptions{URL: "http://" + addr + "/mcp", Proxy: "off", Refuse: refuse}), post("hi")); got != "POST /mcp hi" {
		t.Error(got)
	}
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	upstreamOn(t, ln, echo)
	judged, verdict = nil, errors.New("not there")
	if got := whole(t, newHost(t, HostOptions{URL: "unix:" + path + ":/mcp", Refuse: refuse}), post("hi")); got != "POST /mcp hi" || judged != nil {
		t.Errorf("%s, judged %q", got, judged)
	}
}
