package faults

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProvider) != "" {
		providerMain()
		return
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // Toxiproxy logs each interruption
	os.Exit(m.Run())
}

// patient is the timeout of a case for an event. It is longer than any limit of the configuration.
const patient = 30 * time.Second

// slack is the time that a busy machine may add to a limit.
const slack = 4 * time.Second

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	if !within(patient, cond) {
		t.Fatalf("never happened: %s", what)
	}
}

func within(d time.Duration, cond func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		if cond() {
			return true
		}
	}
	return false
}

// network is the path between Dragoman and a server: a gate, Toxiproxy, another gate.
type network struct {
	front, behind *gate
	proxy         *toxiproxy.Proxy
	refused       bool
}

func newNetwork(t *testing.T, server string) *network {
	t.Helper()
	n := &network{behind: newGate(t, server)}
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	n.proxy = toxiproxy.NewProxy(api, t.Name(), "127.0.0.1:0", n.behind.addr)
	if err := n.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proxy.Stop)
	n.front = newGate(t, n.proxy.Listen)
	return n
}

func (n *network) add(t *testing.T, toxics ...string) {
	t.Helper()
	for _, text := range toxics {
		if _, err := n.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// heal ends all faults. Connections that were cut stay so.
func (n *network) heal(t *testing.T) {
	t.Helper()
	healed := make(chan struct{})
	go func() { // Toxiproxy waits for connections that take nothing
		n.proxy.Toxics.ResetToxics(context.Background())
		close(healed)
	}()
	select {
	case <-healed:
	case <-time.After(patient):
		t.Fatal("Toxiproxy does not take its toxics back")
	}
	n.front.set(ends, false)
	n.behind.set(ends, false)
	if n.refused {
		n.refused = false
		n.front.listen()
	}
}

// TestFaults combines every fault with every kind of client and server. With -short it runs a part of the combinations, in which every
// fault occurs with every kind. FAULTS_RESULTS names the file for the table.
func TestFaults(t *testing.T) {
	out, beside := newTable(), providers{}
	t.Run("cases", func(t *testing.T) {
		for k, f := range faults() {
			for i, serverKind := range serverKinds {
				for j, clientKind := range clientKinds {
					if testing.Short() && (i+j+k)%len(clientKinds) != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s server/%s client", f.name, serverKind, clientKind), func(t *testing.T) {
						t.Parallel()
						out.put(f.name, serverKind, clientKind, try(t, f, serverKind, clientKind))
					})
				}
			}
		}
	})
	t.Run("providers", beside.run) // after the others, which would delay what it measures
	if file := os.Getenv("FAULTS_RESULTS"); file != "" && !t.Failed() && !testing.Short() {
		if err := os.WriteFile(file, []byte(out.markdown()+beside.markdown()), 0o644); err != nil { //nolint:gosec // it is to be read
			t.Fatal(err)
		}
	}
}

// trial is a running case.
type trial struct {
	t      *testing.T
	f      fault
	server *server
	net    *network
	d      *dragoman
	client client
	calls  atomic.Int32
	over   bool // the client has no session any more
	anew   int  // sessions that the client had to begin
}

// call makes one call with its own tag, in a new session if the last has ended, as a client of that transport would. It checks that the
// server runs no call twice.
func (c *trial) call(tool string, load int) (outcome, int) {
	c.t.Helper()
	if c.over {
		began := time.Now()
		o := c.client.open()
		if o.took = time.Since(began); o.Code != "" {
			c.unbroken("a new session", o)
			return o, 0
		}
		c.over = false
		c.anew++
	}
	tag := fmt.Sprintf("t%d", c.calls.Add(1))
	o := c.client.call(c.server.tool(tool), tag, load)
	c.unbroken(tag, o)
	c.over = o.Over || o.Code == "upstream_session_lost"
	if c.over && !c.stateful() {
		c.t.Errorf("%s: the session has ended with a connection, although the server's does not depend on one: %s", tag, o.Message)
	}
	ran := c.server.ran(tag)
	if ran > 1 {
		c.t.Errorf("%s of %s ran %d times", tag, tool, ran)
	}
	if o.Code == "" && ran != 1 {
		c.t.Errorf("%s of %s was answered, and ran %d times", tag, tool, ran)
	}
	return o, ran
}

func (c *trial) unbroken(what string, o outcome) {
	c.t.Helper()
	if o.Broken {
		c.t.Errorf("%s: %s: %s", what, o.Code, o.Message)
	}
}

// stateful reports whether the server forgets a session when a connection ends.
func (c *trial) stateful() bool { return c.server.kind == "sse" || c.server.kind == "legacy-lines" }

// try runs one fault with one client and one server, and returns the cell of the table.
func try(t *testing.T, f fault, serverKind, clientKind string) (r result) {
	c := &trial{t: t, f: f, server: newServer(t, serverKind)}
	c.net = newNetwork(t, c.server.addr)
	command := "serve"
	if strings.HasSuffix(clientKind, "stdio") {
		command = "stdio"
	}
	c.d = start(t, command, c.server.url(c.net.front.addr))
	c.client = newClient(t, clientKind, c.d)
	if o := c.client.open(); o.Code != "" {
		t.Fatalf("no session: %s: %s", o.Code, o.Message)
	}
	for range 2 {
		if o, _ := c.call("stream", 0); o.Code != "" {
			t.Fatalf("before the fault: %s: %s", o.Code, o.Message)
		}
	}
	before := c.usage()
	c.suffer(&r)
	c.recover(&r)
	c.leaks(before)
	c.client.close()
	c.d.end()
	return r
}

// suffer makes calls while the network is bad.
func (c *trial) suffer(r *result) {
	c.t.Helper()
	c.net.add(c.t, c.f.toxics...)
	c.net.front.set(c.f.ending, false)
	if c.f.begin != nil {
		c.f.begin(c.net)
	}
	first, ran := c.call(c.f.tool, c.f.load)
	r.loose = c.f.loose
	r.code, r.message, r.ran, r.took, r.over = first.Code, first.Message, ran, first.took, c.over
	c.judge("the first call", first, false)
	if c.f.once {
		r.state = c.settled(first.Code == "")
		return
	}
	for range 2 {
		next, _ := c.call(c.f.tool, c.f.load)
		c.judge("a further call", next, true)
	}
	r.state = c.settled(first.Code == "")
}

// judge checks an outcome against the codes that the fault allows. Later calls may find the server down. A call that has to connect again,
// probe the server and open a session may take longer than tool_timeout.
func (c *trial) judge(what string, o outcome, later bool) {
	c.t.Helper()
	allowed, limit := slices.Clone(c.f.codes), toolTimeout
	if later && len(allowed) > 0 {
		allowed, limit = append(allowed, "upstream_down"), requestTime
		if c.server.kind == "sse" || strings.HasSuffix(c.server.kind, "-lines") { // one channel for all, which an earlier answer may clog
			allowed = append(allowed, "upstream_era_unknown", "upstream_lost", "upstream_timeout")
		}
	}
	if c.stateful() && len(allowed) > 0 {
		allowed = append(allowed, "upstream_session_lost", "session over")
	}
	fits := func(code string) bool { return o.Code == code || o.Code == envelopeCode(code) }
	if o.Code != "" && !slices.ContainsFunc(allowed, fits) || o.Code == "" && !c.f.ok && !later {
		c.t.Errorf("%s: %q (%s) after %s; want one of %q", what, o.Code, o.Message, o.took, allowed)
	}
	if o.took > limit+slack {
		c.t.Errorf("%s took %s, more than %s: %q (%s)", what, o.took, limit+slack, o.Code, o.Message)
	}
	if o.Code != "" && o.Message == "" {
		c.t.Errorf("%s: %s says nothing", what, o.Code)
	}
}

// settled returns the upstream's state after the health checks. CONNECTING, a retry of an upstream in error, counts as ERROR.
func (c *trial) settled(fine bool) (state string) {
	limit := 2 * checkTimeout
	if c.f.dead {
		limit = patient
	}
	within(limit, func() bool {
		state = c.d.state()
		return state == "ERROR" || fine && state == "CONNECTED"
	})
	if state == "CONNECTING" {
		return "ERROR"
	}
	return state
}

// recover heals the network and measures the time until calls succeed again, without an action of the client.
func (c *trial) recover(r *result) {
	c.t.Helper()
	c.net.heal(c.t)
	began, calls := time.Now(), 0
	if !within(patient, func() bool {
		calls++
		o, _ := c.call("echo", 0)
		r.last = o.Code
		return o.Code == ""
	}) {
		c.t.Errorf("after the fault no call succeeds; the last: %s", r.last)
	}
	r.recovered, r.calls = time.Since(began), calls
	eventually(c.t, "the upstream is CONNECTED", func() bool { return c.d.state() == "CONNECTED" })
	for _, tool := range []string{"big", "stream"} {
		if o, _ := c.call(tool, 0); o.Code != "" {
			c.t.Errorf("after the fault %s: %s: %s", tool, o.Code, o.Message)
		}
	}
}

func (c *trial) usage() usage {
	if c.d.admin == "" {
		return usage{}
	}
	return c.d.usage()
}

// leaks checks that no resources are left. Two connections with their goroutines may be pooled since.
func (c *trial) leaks(before usage) {
	c.t.Helper()
	var now usage
	if !within(patient, func() bool {
		now = c.usage()
		return now.goroutines <= before.goroutines+4 && now.files <= before.files+4 && now.running <= before.running &&
			now.inFlight <= before.inFlight && now.leases <= before.leases
	}) {
		c.t.Errorf("left behind: %+v, before the fault %+v", now, before)
	}
}
