package faults

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// prompt is how long after the report of a connection's end a client may have its error.
const prompt = 100 * time.Millisecond

// site is a provider's process behind a bad network and a Dragoman.
type site struct {
	*caller
	p   *process
	net *network
	r   *row
}

// newSite starts a provider, the network to it, and a Dragoman; limits and more are lines of its configuration.
func newSite(t *testing.T, r *row, conf providerConfig, limits, more string) *site {
	t.Helper()
	s := &site{p: startProcess(t, conf), r: r}
	s.net = newNetwork(t, s.p.addr)
	s.caller = newCaller(t, startWith(t, "serve", patientHead+limits+section("default", "grpc://"+s.net.front.addr, "retry_budget = 100\n"+more)), "/mcp")
	s.ready()
	return s
}

// patientHead is head for calls that take longer than the others' limits.
var patientHead = strings.NewReplacer(`tool_timeout = 4`, `tool_timeout = 30`, `request_time = "12s"`, `request_time = "60s"`, `drain_timeout = "1s"`, `drain_timeout = "60s"`).Replace(head)

// ready waits until calls succeed.
func (c *caller) ready() {
	c.t.Helper()
	last := outcome{}
	if !within(patient, func() bool {
		last = c.begin("echo.v1", work{}, 0, false).end()
		return last.Code == ""
	}) {
		c.t.Fatalf("no call succeeds: %+v", last)
	}
}

// fails checks that a call has failed with a code and an error that says all of this.
func (s *site) fails(r *running, code string, says ...string) outcome {
	s.t.Helper()
	o := r.end()
	for _, text := range append(says, "") {
		if o.Code != code || !strings.Contains(o.Message, text) {
			s.t.Errorf("%q: %s; want %q: … %s …", o.Code, o.Message, code, text)
		}
	}
	s.r.failed(o)
	return o
}

// repetitions is how often a case with a delay is tried.
func repetitions() int {
	if testing.Short() {
		return 3
	}
	return 15
}

// broken repeats a fault that ends the connection of a call in mid stream: the call is lost, and runs once; its client knows that promptly. The next calls
// succeed once mend has run.
func (s *site) broken(fault func() (reported func() time.Time), mend func()) {
	s.t.Helper()
	for range repetitions() {
		r := s.begin("stream.v1", work{Times: 10_000, Pause: 10, Pad: 10}, 0, true)
		r.moves(3)
		reported := fault()
		s.fails(r, "upstream_lost", "connection", "may have been carried out")
		s.r.delayed(r.ended.Sub(reported()))
		if n := s.p.noted("ran", r.tag); n != 1 {
			s.t.Errorf("%s ran %d times", r.tag, n)
		}
		mend()
		s.ready()
	}
}

// closed returns when Dragoman's connection was closed.
func (s *site) closed() time.Time {
	_, _, at := s.net.front.seen()
	return at
}

func killed(t *testing.T, r *row) {
	s := newSite(t, r, providerConfig{}, "", "")
	s.broken(func() func() time.Time { s.p.kill(); return s.closed }, s.p.start)
	s.d.end()
}

func resetStream(t *testing.T, r *row) {
	s := newSite(t, r, providerConfig{}, "", "")
	s.broken(func() func() time.Time { s.net.front.cut(); return s.closed }, func() {})
	s.d.end()
}

// Calls that have no effects are made again, at the process that takes the place of one that was killed.
func replaced(t *testing.T, r *row) {
	const atOnce = 8
	s := newSite(t, r, providerConfig{Name: "one"}, "", "")
	two := startProcess(t, providerConfig{Name: "two"})
	all := make([]*running, atOnce)
	for i := range all {
		all[i] = s.begin("look.v1", work{Pause: 700}, 0, false)
	}
	eventually(t, "all calls run", func() bool {
		return !slices.ContainsFunc(all, func(r *running) bool { return s.p.noted("ran", r.tag) == 0 })
	})
	s.net.behind.aim(two.addr)
	s.p.kill()
	for _, r := range all {
		if by := r.answered(); by != "two" {
			t.Errorf("%s was answered by %q", r.tag, by)
		}
		if n := two.noted("ran", r.tag); n != 1 {
			t.Errorf("%s ran %d times", r.tag, n)
		}
	}
	s.d.end()
}

// A server that says GOAWAY once a second, as grpc-go does by MaxConnectionAge, loses no call: neither short ones nor one that outlasts a connection.
func goAway(t *testing.T, r *row) {
	s := newSite(t, r, providerConfig{Name: "one", MaxAge: time.Second}, "", "")
	long := s.begin("stream.v1", work{Times: 70, Pause: 50, Pad: 10}, 0, true)
	l := newLoad(s.caller, 8, "echo.v1", 3)
	long.answered()
	calls := l.saved(false, s.p)
	if n, _, _ := s.net.front.seen(); n < 3 {
		t.Errorf("there were %d connections: nothing was said", n)
	}
	t.Logf("%d calls", calls)
	s.d.end()
}

// stopped returns the case of a process that is stopped in the usual way (SIGTERM, GracefulStop) while another takes its place. drains says that its health
// service tells callers before, as provider-go does.
func stopped(drains bool) func(t *testing.T, r *row) {
	return func(t *testing.T, r *row) {
		s := newSite(t, r, providerConfig{Name: "one", Drains: drains}, "", "")
		two := startProcess(t, providerConfig{Name: "two"})
		long := s.begin("stream.v1", work{Times: 30, Pause: 50, Pad: 10}, 0, true)
		long.moves(1)
		l := newLoad(s.caller, 8, "echo.v1", 3)
		l.meets("one")
		s.net.behind.aim(two.addr)
		s.p.signal(syscall.SIGTERM)
		l.meets("two")
		if by := long.answered(); by != "one" {
			t.Errorf("the call that ran was answered by %q", by)
		}
		s.p.ended() // it waits for its calls, and for nothing else
		t.Logf("%d calls", l.saved(false, s.p, two))
		s.d.end()
	}
}

// A process that reads nothing any more stalls what is sent to it. The calls end by their time-out; other servers are served; what waits is bounded.
func stalled(t *testing.T, r *row) {
	const loadSize, atOnce = 1 << 20, 16
	s := &site{p: startProcess(t, providerConfig{}), r: r}
	other := startProcess(t, providerConfig{Name: "other"})
	s.caller = newCaller(t, startWith(t, "serve", head+section("default", "grpc://"+s.p.addr, "breaker_failures = 0")+section("other", "grpc://"+other.addr, "")), "/servers/default/mcp")
	beside := newCaller(t, s.d, "/servers/other/mcp")
	s.ready()
	beside.ready()
	s.p.signal(syscall.SIGSTOP)
	before := s.d.resident()
	var all []*running
	for range atOnce {
		all = append(all, s.begin("echo.v1", work{}, loadSize, false))
	}
	l := newLoad(beside, 2, "echo.v1", 0)
	most := 0
	for _, r := range all {
		o := s.fails(r, "upstream_timeout", "silent for 4s", "tool_timeout")
		if o.took > toolTimeout+slack {
			t.Errorf("an answer after %s", o.took)
		}
		most = max(most, s.d.resident())
	}
	for _, r := range l.end() {
		r.answered()
		if r.outcome.took > toolTimeout/2 { // one that waited for the stalled calls would last nearly as long as they
			t.Errorf("another server's call took %s", r.outcome.took)
		}
	}
	if grown := most - before; grown > 8*atOnce*loadSize { // a request exists as it came, as arguments, and as a message of gRPC; and the collector lets it double
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	s.p.signal(syscall.SIGCONT)
	s.ready()
	for _, r := range all {
		if n := s.p.noted("ran", r.tag); n > 1 {
			t.Errorf("%s ran %d times", r.tag, n)
		}
	}
	s.d.end()
}

// An answer that is larger than limits.response_body ends its call, and none other on the same connection.
func oversized(t *testing.T, r *row) {
	s := newSite(t, r, providerConfig{Name: "one"}, "response_body = \"1MiB\"\n", "")
	long := s.begin("stream.v1", work{Times: 20, Pause: 20, Pad: 10}, 0, true)
	long.moves(1)
	for range repetitions() {
		for _, w := range []work{{Size: 2 << 20}, {Times: 4, Pad: 400 << 10, Size: 1}} { // one message, and several that are too large together
			s.fails(s.begin("big.v1", w, 0, false), "response_too_large", "limits.response_body")
		}
	}
	if text := s.begin("big.v1", work{Size: 1<<20 - 1000}, 0, false).answered(); len(text) != 1<<20-1000 {
		t.Errorf("an answer of %d bytes", len(text))
	}
	long.answered()
	if n, _, _ := s.net.front.seen(); n != 1 {
		t.Errorf("it took %d connections", n)
	}
	s.d.end()
}

// The times of the keepalive, the shortest that there are.
const aliveTime, aliveTimeout = 10 * time.Second, time.Second

// A connection on which nothing arrives any more, without its end, is noticed by the keepalive.
func halfOpen(t *testing.T, r *row) {
	s := newSite(t, r, providerConfig{}, "", fmt.Sprintf("health_check_interval = \"0s\"\ngrpc.keepalive = %q\ngrpc.keepalive_timeout = %q\n", aliveTime, aliveTimeout))
	call := s.begin("stream.v1", work{Times: 10_000, Pause: 10, Pad: 10}, 0, true)
	waits := s.begin("echo.v1", work{Pause: 20_000}, 0, false)
	call.moves(3)
	s.net.add(t, `{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`, `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`)
	began, stood := time.Now(), standstill(t)
	var took time.Duration
	for _, one := range []*running{call, waits} {
		s.fails(one, "upstream_lost", "keepalive", "may have been carried out")
		took = max(took, one.ended.Sub(began))
	}
	if pause := stood(); took > aliveTime+aliveTimeout+prompt+pause {
		t.Errorf("a call was lost after %s, of which the machine stood still for %s", took, pause)
	}
	s.net.heal(t)
	s.ready()
	s.d.end()
}

// standstill begins to measure for how long this process cannot run, and returns a function that ends that and returns the sum of its pauses.
func standstill(t *testing.T) (end func() time.Duration) {
	const tick, least = 10 * time.Millisecond, 50 * time.Millisecond // a shorter pause is none
	stop, sum := make(chan struct{}), make(chan time.Duration)
	go func() {
		clock := time.NewTicker(tick)
		defer clock.Stop()
		last, stood := time.Now(), time.Duration(0)
		for {
			select {
			case <-clock.C:
				if pause := time.Since(last); pause >= least {
					stood += pause
				}
				last = time.Now()
			case <-stop:
				sum <- stood
				return
			case <-t.Context().Done():
				return
			}
		}
	}()
	return func() time.Duration {
		close(stop)
		return <-sum
	}
}

// Clients that do not read the progress of their calls: what waits for them is bounded by limits.answer_bytes and by what gRPC lets a provider send ahead.
// Those for which there is no more room lose their connections; others are served. The latency makes gRPC's own estimate of what a provider may
// send ahead larger than it is on the loopback.
func slowClients(t *testing.T, r *row) {
	const clients, pad, room = 16, 64 << 10, 16 << 20
	s := newSite(t, r, providerConfig{}, fmt.Sprintf("answer_bytes = %q\nanswer_bytes_per_principal = %[1]q\n", "16MiB"), "")
	s.net.add(t, `{"type":"latency","stream":"downstream","attributes":{"latency":10}}`, `{"type":"latency","stream":"upstream","attributes":{"latency":10}}`)
	before := s.d.resident()
	for i := range clients {
		s.unread("stream.v1", work{Tag: fmt.Sprint("slow", i), Times: 100_000, Pause: -1, Pad: pad})
	}
	behind, most, last, still := 0, 0, -1, 0
	eventually(t, "nothing comes any more", func() bool {
		_, began, _ := s.net.front.seen()
		s.begin("echo.v1", work{}, 0, false).answered()
		_, now, _ := s.net.front.seen()
		behind, most = max(behind, now-began), max(most, s.d.resident()-before)
		if still++; now > last+100_000 {
			last, still = now, 0
		}
		return still == 75 && now > clients*pad
	})
	ended := 0
	for i := range clients {
		ended += s.p.noted("cancelled", fmt.Sprint("slow", i))
	}
	t.Logf("%d MiB were sent for %d clients that read nothing, of which %d were left; memory grew by %d MiB; another client's calls waited behind %d MiB at most", last>>20, clients, ended, most>>20, behind>>20)
	if ended != clients {
		t.Errorf("%d of %d calls were left", ended, clients)
	}
	if most > 10*(room+clients<<20) { // a message exists several times on its way, and the collector comes late
		t.Error("too much waits")
	}
	if behind > last/2 { // in bytes, since the time of a call depends on what else the machine does
		t.Error("a call waited while more than half of what the slow clients get was sent")
	}
}

// unread makes a call whose answer nobody reads. Its connection ends with the test.
func (c *caller) unread(tool string, w work) {
	c.t.Helper()
	body := w.body(tool, 0, true)
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.d.base, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: %s\r\nContent-Length: %d\r\n\r\n%s", c.path, tool, len(body), body); err != nil {
		c.t.Fatal(err)
	}
}
