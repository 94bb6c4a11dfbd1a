package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cloudevents "dragoman/adapters/events"
	"dragoman/adapters/events/webhook"
	"dragoman/internal/app"
	"dragoman/internal/testkit"
)

// eventsSecret signs events in these tests.
const eventsSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// told is an event as a receiver gets it.
type told struct {
	Specversion, ID, Source, Type, Subject, Time, Traceparent string
	Data                                                      map[string]any
}

// eventReceiver is a webhook that checks signatures.
type eventReceiver struct {
	url    string
	mu     sync.Mutex
	all    []told
	bodies string
	status int // of answers; 0: 204
}

func newEventReceiver(t *testing.T) *eventReceiver {
	t.Helper()
	key, err := webhook.Secret(eventsSecret)
	if err != nil {
		t.Fatal(err)
	}
	r := &eventReceiver{}
	r.url = newTestServer(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		if q.Header.Get("Webhook-Signature") != webhook.Sign(key, q.Header.Get("Webhook-Id"), q.Header.Get("Webhook-Timestamp"), body) {
			t.Errorf("signature of %s", body)
		}
		if _, err := cloudevents.Parse(body); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		var e told
		if err := json.Unmarshal(body, &e); err != nil {
			t.Errorf("%v: %s", err, body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.status != 0 {
			w.WriteHeader(r.status)
			return
		}
		r.all, r.bodies = append(r.all, e), r.bodies+string(body)
		w.WriteHeader(http.StatusNoContent)
	})) + "/events"
	return r
}

func (r *eventReceiver) answers(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// toml is the configuration by which it gets events; extra are further keys of [events], a line each.
func (r *eventReceiver) toml(extra string) string {
	return fmt.Sprintf("[events]\n%s\n[events.sinks.hook]\nurl = %q\nsecret = %q\nretry_backoff = \"1ms\"\n", extra, r.url, eventsSecret)
}

// of waits for a number of events of a type.
func (r *eventReceiver) of(t *testing.T, typ string, n int) (all []told) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d events %s", n, typ), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		all = slices.DeleteFunc(slices.Clone(r.all), func(e told) bool { return e.Type != typ })
		return len(all) >= n
	})
	return all
}

// A call is an event without anything of its content, whichever way it came and whatever the server speaks.
func TestCallsAreEvents(t *testing.T) {
	r := newEventReceiver(t)
	everyWay(t, r.toml(`types = ["dev.dragoman.tool.called"]`), func(t *testing.T, u *upstream, w way) {
		u.on("tools/call", func(c *call) {
			c.result(`{"content":[{"type":"text","text":"secret-result"}],"resultType":"complete"}`)
		})
		u.listsTools()
		before := len(r.of(t, "dev.dragoman.tool.called", 0))
		w.ask("tools/call", `"name":"drop","arguments":{"password":"secret-argument"}`)
		all := r.of(t, "dev.dragoman.tool.called", before+1)
		e := all[len(all)-1]
		if e.Specversion != "1.0" || e.Source != "urn:dragoman:dragoman/servers/default" || e.Subject != "drop" || e.Data["server"] != "default" || e.Data["tool"] != "drop" ||
			e.Data["outcome"] != "ok" || e.Data["state"] != "COMPLETED" || e.Data["correlationId"] == nil || e.Data["durationMs"] == nil {
			t.Errorf("%+v", e)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if strings.Contains(r.bodies, "secret") || len(r.all) != before+1 {
			t.Errorf("%d events for one call: %s", len(r.all)-before, r.bodies)
		}
	})
}

// Failures say in which state the call was; states of servers, questions and limits are events as well.
func TestEventsAboutServers(t *testing.T) {
	r, u := newEventReceiver(t), newUpstream(t, "modern")
	u.on("tools/call",
		func(c *call) { c.error(200, `{"code":-32000,"message":"secret-message"}`) },
		func(c *call) { c.result(`{"content":[],"isError":true,"resultType":"complete"}`) },
		func(c *call) {
			c.result(`{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"mode":"form","message":"secret-question","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s"}`)
		})
	const elicits = `{"elicitation":{"form":{}}}`
	rig := startRig(t, "rate_limit_burst = 5\n"+u.toml("[upstreams.default.access.\"*\"]\ndeny_tools = [\"denied\"]\n")+r.toml("content = \"keys\"\nsource = \"https://example.com/gateway/\"")+"[security]\nrate_limiting = \"on\"\nrate_limit = 10\n", true)
	ask := func(name string) {
		rig.must("POST", "/mcp", strings.Replace(modernCall(`1`, name, ""), `"io.modelcontextprotocol/clientCapabilities":{}`, `"io.modelcontextprotocol/clientCapabilities":`+elicits, 1), modernHeaders("tools/call", name)...)
	}
	for i, name := range []string{"fails", "wrong", "asks", "denied", "asks", "toomany", "toomany"} {
		ask(name)
		r.of(t, "dev.dragoman.tool.called", i+1) // a call is an event once its answer is written, which the next call does not wait for
	}
	calls := r.of(t, "dev.dragoman.tool.called", 7)
	want := []string{"server_error FAILED EXECUTING", "tool_error COMPLETED <nil>", "input_required EXECUTING <nil>", "", "input_required EXECUTING <nil>", "rate_limited FAILED VALIDATING", "rate_limited FAILED VALIDATING"}
	for i, e := range calls {
		if got := fmt.Sprint(e.Data["outcome"], " ", e.Data["state"], " ", e.Data["failedIn"]); want[i] != "" && got != want[i] {
			t.Errorf("call %d: %s, not %s", i, got, want[i])
		}
	}
	if e := calls[3]; e.Data["failedIn"] != "VALIDATING" || e.Data["deniedBy"] == nil {
		t.Errorf("a denied call: %+v", e)
	}
	if q := r.of(t, "dev.dragoman.question.asked", 2)[0]; q.Data["question"] != "elicitation/create" || q.Data["tool"] != "asks" || q.Source != "https://example.com/gateway/servers/default" {
		t.Errorf("%+v", q)
	}
	if l := r.of(t, "dev.dragoman.limit.hit", 2)[0]; l.Data["limit"] != "rate_limited" || l.Data["policy"] != "rate" || l.Data["unreported"] != 0.0 {
		t.Errorf("%+v", l)
	}
	states := r.of(t, "dev.dragoman.server.state", 2)
	if a, b := states[0].Data, states[1].Data; a["from"] != "DISCONNECTED" || a["to"] != "CONNECTING" || b["to"] != "CONNECTED" || b["server"] != "default" {
		t.Errorf("%v, %v", a, b)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if strings.Contains(r.bodies, "secret") || !strings.Contains(r.bodies, `"argumentKeys":[]`) {
		t.Errorf("%s", r.bodies)
	}
}

// Definitions that change are an event.
func TestDefinitionsAreEvents(t *testing.T) {
	r, u := newEventReceiver(t), newUpstream(t, "modern")
	list := func(tools string) answer {
		return func(c *call) {
			c.result(`{"tools":[` + tools + `],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`)
		}
	}
	tool := func(name, says string) string {
		return fmt.Sprintf(`{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, name, says)
	}
	u.on("tools/list", list(tool("a", "one")+","+tool("b", "two")), list(tool("a", "secret-other")+","+tool("c", "three")))
	rig := startRig(t, "merge = \"always\"\n"+u.toml("")+r.toml(""), true)
	rig.h.Targets.Reread("default")
	e := r.of(t, "dev.dragoman.definitions.changed", 1)[0]
	if got := fmt.Sprint(e.Data["kind"], e.Data["added"], e.Data["changed"], e.Data["removed"]); got != "tools[c] [a] [b]" || e.Source != "urn:dragoman:dragoman/servers/default" {
		t.Errorf("%s %+v", got, e)
	}
}

// A sink that does not change keeps its queue over a reload; one that does hands it over; one that is gone leaves dead letters.
func TestEventsOverReloads(t *testing.T) {
	a, b, u := newEventReceiver(t), newEventReceiver(t), newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	dead := filepath.Join(t.TempDir(), "dead.jsonl")
	config := func(r *eventReceiver, more string) string {
		return u.toml("") + strings.Replace(r.toml(fmt.Sprintf("types = [\"dev.dragoman.tool.called\"]\ndead_letter = %q", dead)), `"1ms"`, `"20ms"`, 1) + "max_attempts = 1000\n" + more
	}
	a.answers(503)
	rig := startRig(t, config(a, ""), true)
	call := func() {
		rig.must("POST", "/mcp", modernCall(`1`, "t", ""), modernHeaders("tools/call", "t")...)
	}
	call()
	call()
	testkit.Eventually(t, "it is tried", func() bool { return rig.sum("dragoman_events_retries_total") >= 1 })
	rig.reload(app.ReloadApplied, config(a, "types = [\"dev.*\"]\n"))
	if n := rig.sum("dragoman_events_queued", "sink", "hook"); n != 2 || rig.sum("dragoman_events_retries_total") == 0 {
		t.Errorf("%v queued: the queue was made anew", n)
	}
	rig.reload(app.ReloadApplied, config(b, ""))
	call()
	if all := b.of(t, "dev.dragoman.tool.called", 3); len(all) != 3 || all[0].Time > all[1].Time || all[1].Time > all[2].Time {
		t.Errorf("%+v", all)
	}
	testkit.Eventually(t, "the third is delivered: its answer has come", func() bool { return rig.sum("dragoman_events_sink_total", "outcome", "delivered") == 3 })
	b.answers(503)
	call()
	rig.reload(app.ReloadApplied, u.toml(""))
	call()
	rig.h.Retiring.Wait()
	if text := testkit.ReadText(t, dead); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"sink":"hook"`) || !strings.Contains(text, "was closed") {
		t.Errorf("%s", text)
	}
}

// A receiver that hangs does not delay calls, and memory for events is bounded.
func TestEventsDoNotDelayCalls(t *testing.T) {
	u := newUpstream(t, "modern")
	u.on("tools/call", func(c *call) { c.result(`{"content":[],"resultType":"complete"}`) })
	hang := newTestServer(t, http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		<-q.Context().Done()
	}))
	rig := startRig(t, u.toml("")+fmt.Sprintf("[events]\nqueue = \"1MiB\"\n[events.sinks.hook]\nurl = %q\ntimeout = \"30s\"\n[security]\nrate_limiting = \"off\"\n", hang), true)
	began := time.Now()
	const n = 1500
	for range n {
		rig.must("POST", "/mcp", modernCall(`1`, "t", ""), modernHeaders("tools/call", "t")...)
	}
	if took := time.Since(began); took > testkit.Patient {
		t.Errorf("%d calls took %s", n, took)
	}
	if bytes, queued, dropped := rig.sum("dragoman_events_queued_bytes"), rig.sum("dragoman_events_queued"), rig.sum("dragoman_events_dead_letters_total", "outcome", "dropped"); bytes > 1<<20 || bytes < 1<<19 ||
		dropped == 0 || queued+dropped < n {
		t.Errorf("%v events of %v bytes, %v dropped", queued, bytes, dropped)
	}
	mentions(t, rig.logs.String(), "events.dead_letter names no file")
}
