package httpd

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
)

// dialer is the way to an upstream.
type dialer struct {
	network, addr string
	secure        bool   // TLS at addr
	name          string // whom its certificate names

	proxy       string // host:port, or empty
	proxySecure bool
	proxyName   string
}

// proxyFor decides on a proxy for u: given, "off", or by the environment.
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

// tlsConfig makes the settings for a TLS upstream. HTTP/1.1 is all that is spoken.
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
func (h *Host) connect(ctx context.Context) (*upConn, error) {
	ctx, cancel := context.WithTimeout(ctx, h.opts.ConnectTimeout)
	defer cancel()
	addr := h.dial.addr
	if h.dial.proxy != "" {
		addr = h.dial.proxy
	}
	raw, err := (&net.Dialer{Control: calm}).DialContext(ctx, h.dial.network, addr)
	if err != nil {
		return nil, &DialError{Addr: addr, Err: err}
	}
	wire := &counted{Conn: raw}
	nc, err := h.secure(ctx, wire)
	if err != nil {
		_ = raw.Close()
		return nil, &DialError{Addr: addr, Err: err}
	}
	return newUpConn(h, nc, wire), nil
}

// secure goes through the proxy and makes the connection private, as far as either is wanted.
func (h *Host) secure(ctx context.Context, wire *counted) (nc net.Conn, err error) {
	nc = wire
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

// tunnel asks the proxy for a way through (RFC 9110 §9.3.6). Its answer is read a byte at a time, so that nothing of what
// comes through the tunnel is lost.
func (h *Host) tunnel(ctx context.Context, nc net.Conn) error {
	deadline, _ := ctx.Deadline()
	if err := nc.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	ask := "CONNECT " + h.dial.addr + " HTTP/1.1\r\nHost: " + h.dial.addr + "\r\n"
	if h.proxyAuth != "" {
		ask += "Proxy-Authorization: " + h.proxyAuth + "\r\n"
	}
	if _, err := io.WriteString(nc, ask+"\r\n"); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	br := bufio.NewReaderSize(&oneByte{nc}, h.opts.MaxHeader)
	var scan headScan
	scan.start(false)
	if _, err := scan.next(br); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	if scan.status < 200 || scan.status > 299 {
		return fmt.Errorf("proxy refused the tunnel: %s", Reason(scan.status))
	}
	return nc.SetDeadline(time.Time{})
}

type oneByte struct{ r io.Reader }

func (o *oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }
