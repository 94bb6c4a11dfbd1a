package httpclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/netpoll"
)

// dialer says how to reach an upstream.
type dialer struct {
	network, addr string
	secure        bool   // TLS at addr
	name          string // that its certificate must have

	proxy       string // host:port, or empty
	proxySecure bool
	proxyName   string
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

// tlsConfig makes the settings for a TLS upstream. The only protocol is HTTP/1.1.
func tlsConfig(opts HostOptions, name string) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if opts.TLS != nil {
		config = opts.TLS.Clone()
	}
	config.NextProtos = []string{"http/1.1"}
	if opts.ServerName != "" || config.ServerName == "" {
		config.ServerName = name
	}
	if opts.CAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(opts.CAFile)
	if err != nil {
		return nil, fmt.Errorf("httpd: CA file: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("httpd: CA file %s: no certificate in it", opts.CAFile)
	}
	return config, nil
}

// connect makes a connection that is ready for a request.
func (h *Host) connect(ctx context.Context) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.ConnectTimeout)
	defer cancel()
	addr := h.dial.addr
	if h.dial.proxy != "" {
		addr = h.dial.proxy
	}
	raw, err := (&net.Dialer{Control: netpoll.LoopbackControl}).DialContext(ctx, h.dial.network, addr)
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

// secure opens the tunnel through the proxy and does the TLS handshake, where there are any.
func (h *Host) secure(ctx context.Context, sock *socket) (nc net.Conn, err error) {
	nc = sock
	if h.dial.proxySecure {
		if nc, err = handshake(ctx, nc, &tls.Config{
			ServerName: h.dial.proxyName, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
		}); err != nil {
			return nil, fmt.Errorf("proxy: %w", err)
		}
	}
	if h.dial.proxy != "" && h.dial.secure {
		if err := h.tunnel(ctx, nc); err != nil {
			return nil, err
		}
	}
	if h.dial.secure {
		return handshake(ctx, nc, h.tls)
	}
	return nc, nil
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
