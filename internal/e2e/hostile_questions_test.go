//go:build unix

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// flooder is a legacy HTTP server that asks without end in each call, and takes its time for the answers.
type flooder struct {
	flood     string // what it sends before its response; %d is a number
	many      int
	url       string
	conns     atomic.Int64 // connections now
	most      atomic.Int64 // and at most
	questions atomic.Int64 // that were answered
}

func newFlooder(t *testing.T, flood string, many int) *flooder {
	t.Helper()
	a := &flooder{flood: flood, many: many}
	id := regexp.MustCompile(`"id":("[^"]*"|\d+)`)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		text := string(body)
		n := id.FindStringSubmatch(text)
		switch {
		case req.Method != http.MethodPost:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case strings.Contains(text, `"method":"initialize"`):
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Mcp-Session-Id", "s")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, n[1], fmt.Sprintf(welcomed, "2025-11-25"))
		case strings.Contains(text, `"method":"tools/call"`):
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range a.many {
				_, _ = fmt.Fprintf(w, "data: %s\n\n", fmt.Sprintf(a.flood, i))
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[]}}\n\n", n[1])
		case strings.Contains(text, `"method":"notifications/`):
			w.WriteHeader(http.StatusAccepted)
		case strings.Contains(text, `"method":`):
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, n[1])
		default: // an answer
			a.questions.Add(1)
			time.Sleep(20 * time.Millisecond) // a slow server
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s { //nolint:exhaustive // the others change no number
		case http.StateNew:
			n := a.conns.Add(1)
			for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); most = a.most.Load() {
			}
		case http.StateClosed, http.StateHijacked:
			a.conns.Add(-1)
		}
	}
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	a.url = srv.URL
	return a
}

// A server that asks, notifies or pings without end gets neither more than a few connections nor the descriptors of the others.
func TestFloodsOfAServerAreBounded(t *testing.T) {
	for name, flood := range map[string]string{
		"questions":     `{"jsonrpc":"2.0","id":"q%d","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}`,
		"pings":         `{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		"notifications": `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"%d"}}`,
		"changes":       `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"n":%d}}`,
		"progress":      `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t%d","progress":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hostile := newFlooder(t, flood, 20000)
			good := newUpstream(t, "modern")
			good.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			_, base := startFewFiles(t, 256, fmt.Sprintf("listen = \"127.0.0.1:0\"\nadmin.listen = \"off\"\nlog.format = \"json\"\n[upstreams.hostile]\nurl = %q\nera = \"legacy\"\n", hostile.url+"/mcp")+
				strings.Replace(good.toml(""), "default", "good", 1))
			r := &rig{t: t, base: base, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
			ended := make(chan *response, 1)
			go func() {
				res, err := r.do(t.Context(), "POST", "/servers/hostile/mcp", modernCall("1", "a", ""), modernHeaders("tools/call", "a")...)
				if err != nil {
					res = &response{body: err.Error()}
				}
				ended <- res
			}()
			var answer *response
			for calls := 0; answer == nil || calls < 50; calls++ {
				if res := r.must("POST", "/servers/good/mcp", modernCall("1", "b", ""), modernHeaders("tools/call", "b")...); res.status != 200 || !strings.Contains(res.body, `"content":[]`) {
					t.Fatalf("another server's call: %d %s", res.status, res.body)
				}
				select {
				case answer = <-ended:
				default:
				}
			}
			if !strings.Contains(answer.body, `"content":[]`) {
				t.Errorf("%d %.300s", answer.status, answer.body)
			}
			if n := hostile.most.Load(); n > 32 {
				t.Errorf("%d connections to one server", n)
			}
		})
	}
}
