package peer

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
)

// Relay listens on loopback and forwards all requests to an endpoint with the fields of every request to it. It is for testers that cannot
// send own fields or trust own roots. It changes nothing else. Close ends it.
type Relay struct {
	// URL is the URL of the endpoint through the relay.
	URL    string
	server *http.Server
	work   sync.WaitGroup
}

// NewRelay starts a relay. The host in its URL is localhost.
func NewRelay(to *HTTP) (*Relay, error) {
	target, err := url.Parse(to.URL)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	at := *target
	at.Scheme, at.User, at.Host = "http", nil, fmt.Sprintf("localhost:%d", l.Addr().(*net.TCPAddr).Port)
	pass := &httputil.ReverseProxy{
		FlushInterval: -1, Transport: to.client.Transport, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		Rewrite: func(p *httputil.ProxyRequest) { to.rewrite(p, target) },
	}
	handle := func(w http.ResponseWriter, r *http.Request) {
		// net/http would cut the body and the answer off if the server answered before the body was read.
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		pass.ServeHTTP(w, r)
	}
	r := &Relay{URL: at.String(), server: &http.Server{ReadHeaderTimeout: connectTime, Handler: http.HandlerFunc(handle)}}
	r.work.Go(func() { _ = r.server.Serve(l) }) // ends with Close
	return r, nil
}

// rewrite aims a request at the target.
func (h *HTTP) rewrite(p *httputil.ProxyRequest, target *url.URL) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.URL.User = target.Scheme, target.Host, target.User
	// A foreign Host at the relay must be foreign at the server too.
	if host, _, err := net.SplitHostPort(p.In.Host); err == nil && (host == "localhost" || host == "127.0.0.1") {
		p.Out.Host = target.Host
	} else {
		p.Out.Host = p.In.Host
	}
	for _, f := range h.always {
		p.Out.Header.Del(f.Name)
	}
	for _, f := range h.always {
		p.Out.Header.Add(f.Name, f.Value)
	}
}

// Close ends the relay and all requests in flight.
func (r *Relay) Close() {
	_ = r.server.Close()
	r.work.Wait()
}
