package sse

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A call that ends because the stream was closed locally gets that reason, not the connection error that follows.
func TestCallsOfAClosedStream(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	base, err := url.Parse(srv.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	link, err := NewDialer(host, base, Options{Limits: httpcall.Limits{Body: 1 << 20, Event: 1 << 20}}).Dial(t.Context(), transport.Discard{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	replies, err := link.Call(&proxy.Exchange{Msg: m})
	if err != nil {
		t.Fatal(err)
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
	_, err = replies.Next(time.Now().Add(10 * time.Second))
	if e := proxy.AsError(err); e.Name != proxy.Lost.Name || !strings.Contains(e.Message, "was closed here") || strings.Contains(e.Message, "aborted") {
		t.Errorf("%v", err)
	}
	_ = replies.Close()
}
