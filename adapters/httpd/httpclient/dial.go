package httpclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
)

// dialer holds how to reach an upstream.
type dialer struct {
	network, addr string
	proxy         string      // host:port, or empty
	proxyTLS      *tls.Config // nil: none
}

// proxyFor returns the proxy for u: the given one, none for "off", or the environment's.
func proxyFor(u *url.URL, given string) (*url.URL, error) {
	var proxy *url.URL
	var err error
	switch given {
	case "off":
		return nil, nil
	case "":
		proxy, err = httpproxy.FromEnvironment().ProxyFunc()(u)
	default:
		proxy, err = url.Parse(given)
	}
	if err != nil {
		return nil, errors.New("httpd: proxy: not a URL") // it may hold a password
	}
	if proxy != nil && (proxy.Hostname() == "" || proxy.Scheme != "http" && proxy.Scheme != "https") {
		return nil, fmt.Errorf("httpd: proxy %s: only http and https proxies are known", proxy.Redacted())
	}
	return proxy, nil
}

// tlsFor returns the TLS settings for an https URL, with HTTP/1.1 as the only protocol; nil for http.
func tlsFor(u *url.URL) *tls.Config {
	if u.Scheme != "https" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, ServerName: u.Hostname()}
}

// readRoots reads trusted certificates from a PEM file.
func readRoots(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file) //nolint:gosec // G304: the configuration names it
	if err != nil {
		return nil, fmt.Errorf("httpd: CA file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("httpd: CA file %s: no certificate in it", file)
	}
	return roots, nil
}

// connect makes a connection that is ready for a request.
func (h *Host) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.ConnectTimeout)
	defer cancel()
	addr := cmp.Or(h.dial.proxy, h.dial.addr)
	raw, err := (&net.Dialer{Control: h.control}).DialContext(ctx, h.dial.network, addr)
	if err != nil {
		return nil, &DialError{Addr: addr, Err: err}
	}
	sock := &socket{Conn: raw}
	nc, err := h.secure(ctx, sock)
	if err != nil {
		_ = raw.Close()
		return nil, &DialError{Addr: addr, Err: err}
	}
	return newConn(h, nc, sock), nil
}

// control prepares a socket for an address, if it may be used. It is a Control function of net.Dialer.
func (h *Host) control(network, address string, raw syscall.RawConn) error {
	if h.opts.Refuse != nil && h.dial.network != "unix" {
		to, err := netip.ParseAddrPort(address)
		if err == nil {
			err = h.opts.Refuse(to)
		}
		if err != nil {
			return err
		}
	}
	return netpoll.LoopbackControl(network, address, raw)
}

// secure opens the tunnel through the proxy and does the TLS handshake, where there are any.
func (h *Host) secure(ctx context.Context, sock *socket) (nc net.Conn, err error) {
	nc = sock
	if h.dial.proxyTLS != nil {
		if nc, err = handshake(ctx, nc, h.dial.proxyTLS); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	if h.tls == nil {
		return nc, nil
	}
	if h.dial.proxy != "" {
		if err := h.tunnel(ctx, nc); err != nil {
			return nil, err
		}
	}
	return handshake(ctx, nc, h.tls)
}

func handshake(ctx context.Context, nc net.Conn, config *tls.Config) (net.Conn, error) {
	secure := tls.Client(nc, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return secure, nil
}

// tunnel sends CONNECT to the proxy (RFC 9110 §9.3.6). The response is read a byte at a time, so that nothing of what follows it is
// lost.
func (h *Host) tunnel(ctx context.Context, nc net.Conn) error {
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	request := "CONNECT " + h.dial.addr + " HTTP/1.1\r\nHost: " + h.dial.addr + "\r\n"
	if h.proxyAuth != "" {
		request += "Proxy-Authorization: " + h.proxyAuth + "\r\n"
	}
	if _, err := io.WriteString(nc, request+"\r\n"); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	br := bufio.NewReaderSize(&oneByte{nc}, h.opts.MaxHeader)
	var head http1.HeadReader
	head.Start(false)
	if _, err := head.Read(br); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if head.Status < 200 || head.Status > 299 {
		return fmt.Errorf("proxy refused the tunnel: %s", Reason(head.Status))
	}
	return nc.SetDeadline(time.Time{})
}

type oneByte struct{ r io.Reader }

func (o *oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }
