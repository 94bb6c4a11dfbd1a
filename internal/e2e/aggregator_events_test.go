package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/testkit"
	"dragoman/policies"
)

// watched is a stream of the events of servers.
type watched struct {
	t      *testing.T
	events chan watchedEvent // closed at the end of the stream
	close  func()
}

type watchedEvent struct {
	name   string
	server aggregator.Server
	data   string
}

// watch opens the stream of events with a key.
func (a *aggregated) watch(key string) *watched {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), "GET", a.admin+aggregator.Path+"/events", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		a.t.Fatalf("%d %v", res.StatusCode, res.Header)
	}
	w := &watched{t: a.t, events: make(chan watchedEvent, 1000), close: func() { _ = res.Body.Close() }}
	a.t.Cleanup(w.close)
	go func() {
		defer close(w.events)
		var e watchedEvent
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "" && e.name != "":
				_ = json.Unmarshal([]byte(e.data), &e.server)
				w.events <- e
				e = watchedEvent{}
			case strings.HasPrefix(line, "event: "):
				e.name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				e.data += line[len("data: "):]
			}
		}
	}()
	return w
}

// until returns the names of the events up to one that is wanted.
func (w *watched) until(what string, is func(e *watchedEvent) bool) (names []string) {
	w.t.Helper()
	for {
		e := testkit.Receive(w.t, what, w.events)
		if e.name == "" {
			w.t.Fatalf("the stream ended before %s", what)
		}
		if names = append(names, e.name); is(&e) {
			return names
		}
	}
}

func named(event, server string) func(*watchedEvent) bool {
	return func(e *watchedEvent) bool { return e.name == event && e.server.Name == server }
}

// Readers are told of each change of a server, and begin with all of them.
func TestEventsOfServers(t *testing.T) {
	file := testkit.WriteFile(t, "c.toml", aggregatorToml(t, "[upstreams.own]\nurl = \"http://127.0.0.1:1/mcp\"\n"))
	a := startAggregator(t, file)
	a.becomes("own", "ERROR")
	w := a.watch(viewerKey)
	if names := w.until("the snapshot", func(e *watchedEvent) bool { return e.name == "ready" }); !slices.Equal(names, []string{"snapshot", "ready"}) {
		t.Fatalf("it begins with %q", names)
	}
	var s aggregator.Server
	server := mcp.NewServer(&mcp.Implementation{Name: "sdk", Version: "1"}, nil)
	add := func(name string) {
		mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	add("a")
	add("b")
	a.want(201, "POST", "/servers", registration("one", served(t, server), false), &s)
	w.until("the registration", func(e *watchedEvent) bool {
		return e.name == "registered" && e.server.ID == s.ID && e.server.Status == "DISCONNECTED" && e.server.Connection["base_url"] == s.Connection["base_url"]
	})
	a.want(200, "POST", "/servers/one/connect", "", nil)
	w.until("the connection", func(e *watchedEvent) bool {
		return e.name == "status" && e.server.Name == "one" && e.server.Status == "CONNECTED"
	})
	w.until("its tools", func(e *watchedEvent) bool {
		return e.name == "tools" && e.server.Name == "one" && e.server.ToolCount == 2
	})
	add("c") // which concerns no monitor
	a.want(200, "POST", "/servers/one/refresh", "", nil)
	w.until("another tool", func(e *watchedEvent) bool {
		return e.name == "tools" && e.server.Name == "one" && e.server.ToolCount == 3
	})
	late := a.watch(operatorKey)
	if names := late.until("the snapshot", func(e *watchedEvent) bool { return e.name == "ready" }); !slices.Equal(names, []string{"snapshot", "snapshot", "ready"}) {
		t.Errorf("a later stream begins with %q", names)
	}
	a.want(200, "PATCH", "/servers/one", `{"description":"new"}`, nil)
	for _, one := range []*watched{w, late} {
		one.until("the change", func(e *watchedEvent) bool {
			return e.name == "changed" && e.server.Name == "one" && e.server.Description == "new"
		})
	}
	a.want(200, "POST", "/servers/one/disconnect", "", nil)
	w.until("the disconnection", func(e *watchedEvent) bool {
		return e.name == "status" && e.server.Name == "one" && e.server.Status == "DISCONNECTED"
	})
	a.want(204, "DELETE", "/servers/one", "", nil)
	w.until("the removal", named("removed", "one"))
	testkit.PutFile(t, file, strings.Replace(testkit.ReadText(t, file), "[upstreams.own]", "[upstreams.second]", 1))
	w.until("a server that left the file", named("removed", "own"))
	if res := a.ask("", "GET", "/events", "", nil); res.status != 401 {
		t.Errorf("without a key: %d", res.status)
	}
}

// A stream ends when other callers may read, and with Dragoman: the last event says so.
func TestEventsEnd(t *testing.T) {
	const briefKey = "drg_brief-brief-brief-brief-brief-brief-brief12"
	file := testkit.WriteFile(t, "c.toml", aggregatorToml(t, fmt.Sprintf("keys.brief = { hashes = [%q], expires = \"%s\" }\n", policies.HashKey(briefKey), time.Now().Add(2*time.Second).UTC().Format(time.RFC3339))))
	a := startAggregator(t, file)
	w := a.watch(briefKey)
	w.until("the end of its key", func(e *watchedEvent) bool { return e.name == "reread" && strings.Contains(e.data, "expired") })
	w = a.watch(viewerKey)
	testkit.PutFile(t, file, strings.Replace(testkit.ReadText(t, file), policies.HashKey(viewerKey), policies.HashKey(viewerKey+"x"), 1))
	w.until("the end of its credential", func(e *watchedEvent) bool {
		return e.name == "reread" && strings.Contains(e.data, "open the stream again")
	})
	if _, more := <-w.events; more {
		t.Error("something follows the last event")
	}
	if res := a.ask(viewerKey, "GET", "/events", "", nil); res.status != 401 {
		t.Errorf("%d", res.status)
	}
	w = a.watch(operatorKey)
	w.until("the snapshot", func(e *watchedEvent) bool { return e.name == "ready" })
	a.stop()
	w.until("the end", func(e *watchedEvent) bool { return e.name == "reread" && strings.Contains(e.data, "ending") })
}

// At most 32 readers follow; one that leaves makes room.
func TestReadersOfEvents(t *testing.T) {
	a := startAggregator(t, testkit.WriteFile(t, "c.toml", aggregatorToml(t, "")))
	var all []*watched
	for range 32 {
		all = append(all, a.watch(viewerKey))
	}
	if res := a.ask(viewerKey, "GET", "/events", "", nil); res.status != 503 || res.header.Get("Retry-After") == "" {
		t.Errorf("one too many: %d %s", res.status, res.body)
	}
	all[3].close()
	testkit.Eventually(t, "there is room", func() bool {
		req, err := http.NewRequestWithContext(t.Context(), "GET", a.admin+aggregator.Path+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-API-Key", viewerKey)
		res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode == 200
	})
}
