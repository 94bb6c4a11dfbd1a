package peer

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// echoes listens at a socket and echoes lines; a stubborn one does not close when its client does.
func echoes(t *testing.T, stubborn bool) Socket {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	end := make(chan struct{})
	t.Cleanup(func() { close(end); _ = l.Close(); work.Wait() })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					_, _ = io.WriteString(c, in.Text()+"\n")
				}
				if stubborn {
					<-end
				}
			})
		}
	})
	return Socket{Network: "unix", Address: path}
}

func TestSocket(t *testing.T) {
	c, err := StartChild(t.Context(), echoes(t, false), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(`{"a":1}`); err != nil {
		t.Fatal(err)
	}
	if line, err := c.Next(t.Context()); err != nil || line != `{"a":1}` {
		t.Errorf("%q %v", line, err)
	}
	if end, forced := c.Close(); forced {
		t.Error(end)
	}
	stubborn := echoes(t, true)
	stubborn.Grace = 10 * time.Millisecond
	if c, err = StartChild(t.Context(), stubborn, nil); err != nil {
		t.Fatal(err)
	}
	if end, forced := c.Close(); !forced || !strings.Contains(end, "has not closed") {
		t.Error(end)
	}
	if _, err := StartChild(t.Context(), Socket{Network: "unix", Address: filepath.Join(t.TempDir(), "none")}, nil); err == nil {
		t.Error("no error where nobody listens")
	}
}

func TestRelay(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+strings.Join([]string{r.Method, r.URL.String(), r.Host, r.Header.Get("Authorization"), r.Header.Get("Origin")}, " ")+"\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // the event has to come before the end
	}))
	t.Cleanup(srv.Close)
	to := NewHTTP(srv.URL+"/mcp?k=v", Fields{{"Authorization", "Bearer x"}}, srv.Client().Transport.(*http.Transport).TLSClientConfig)
	t.Cleanup(to.Close)
	relay, err := NewRelay(to)
	if err != nil {
		t.Fatal(err)
	}
	defer relay.Close()
	if !strings.HasPrefix(relay.URL, "http://localhost:") || !strings.HasSuffix(relay.URL, "/mcp?k=v") {
		t.Error(relay.URL)
	}
	from := NewHTTP(relay.URL, nil, nil)
	t.Cleanup(from.Close)
	for host, want := range map[string]string{"": strings.TrimPrefix(srv.URL, "https://"), "evil.example": "evil.example"} {
		res, err := from.Send(t.Context(), Request{Host: host, Header: Fields{{"Origin", "https://evil.example"}, {"Authorization", "Bearer of-the-tester"}}, Body: "{}"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		heard := ""
		res.OnText, res.Patience = func(text string) { heard = text }, 10*time.Second
		if e, err := res.Next(); err != nil || e.Data != "POST /mcp?k=v "+want+" Bearer x https://evil.example" || heard != e.Data {
			t.Errorf("%q: %q %v, heard %q", host, e.Data, err, heard)
		}
		res.Patience = 10 * time.Millisecond
		if _, err := res.Next(); err == nil || !strings.Contains(err.Error(), "no event came within") {
			t.Errorf("%v", err)
		}
		res.Close()
	}
	if value, ok := to.Always("authorization"); !ok || value != "Bearer x" {
		t.Error("what is always sent is not known")
	}
	for _, name := range []string{"Authorization", ""} {
		if _, ok := to.Bare(name).Always("Authorization"); ok {
			t.Errorf("%q: it is sent all the same", name)
		}
	}
}
