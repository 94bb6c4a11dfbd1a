package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/testkit"
)

// Change notifications, logs and progress of an SDK server reach an SDK client.
func TestSDKChanges(t *testing.T) {
	everyAsked(t, func(t *testing.T, up *askingServer, c *askedClient, through bool) {
		told := changedLists(t, c)
		steppedThrough(t, up, c, through)
		changedResources(t, c)
		if up.kind == "modern-stdio" && isModern(c.face) {
			if !through {
				lastListen(t, c)
			}
			return // see there
		}
		told("+tool more", "tools", 3) // the listen for lists has outlived those for resources
	})
}

// lastListen shows that the SDK's server on stdio, without Dragoman, sends no list changes after any listen of its client has ended: it has
// one listen for lists per connection. If this fails, the SDK has been fixed and Dragoman's tests can require it.
func lastListen(t *testing.T, c *askedClient) {
	t.Helper()
	c.mu.Lock()
	before := c.lists["tools"]
	c.mu.Unlock()
	if _, err := c.call(c.ctx, "change", "", "+tool more"); err != nil {
		t.Fatal(err)
	}
	late := time.After(10 * 10 * time.Millisecond) // the SDK gathers changes for 10 ms
	select {
	case <-late:
	case <-c.ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lists["tools"] > before {
		t.Error("the SDK's server on pipes keeps telling of changed lists when another listen has ended")
	}
}

// changedLists changes every list and checks that the client is notified of each change and sees it.
func changedLists(t *testing.T, c *askedClient) (told func(what, list string, times int)) {
	t.Helper()
	if isModern(c.face) {
		c.sees("the acknowledgement for lists", func() bool {
			return slices.ContainsFunc(c.acked, func(n *mcp.NotificationSubscriptions) bool {
				return n.ToolsListChanged && n.PromptsListChanged && n.ResourcesListChanged
			})
		})
	}
	told = func(what, list string, times int) {
		t.Helper()
		if _, err := c.call(c.ctx, "change", "", what); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.sees("a notice of "+what, func() bool { return c.lists[list] >= times })
	}
	tools := func() (names []string) {
		t.Helper()
		for tool, err := range c.Tools(c.ctx, nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
		}
		return names
	}
	told("+tool extra", "tools", 1)
	if !slices.Contains(tools(), "extra") {
		t.Error("the new tool is not in the list")
	}
	told("-tool extra", "tools", 2)
	if slices.Contains(tools(), "extra") {
		t.Error("the old tool is still in the list")
	}
	told("+prompt p", "prompts", 1)
	if r, err := c.ListPrompts(c.ctx, nil); err != nil || len(r.Prompts) != 2 {
		t.Errorf("prompts: %+v, %v", r, err)
	}
	told("+resource test://new", "resources", 1)
	if r, err := c.ListResources(c.ctx, nil); err != nil || len(r.Resources) != 2 {
		t.Errorf("resources: %+v, %v", r, err)
	}
	return told
}

// changedResources subscribes to two resources, and unsubscribes from one.
func changedResources(t *testing.T, c *askedClient) {
	t.Helper()
	const a, b = "test://ask", "test://other?x=1&y=%20"
	subscribe := func(uri string, times int) {
		t.Helper()
		if err := c.Subscribe(c.ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Fatalf("subscribe: %v", err)
		}
		if !isModern(c.face) {
			return
		}
		c.sees("the acknowledgement for "+uri, func() bool { // the SDK does not wait for it
			n := 0
			for _, ack := range c.acked {
				if slices.Contains(ack.ResourceSubscriptions, uri) {
					n++
				}
			}
			return n >= times
		})
	}
	update := func(uri string) {
		t.Helper()
		if _, err := c.call(c.ctx, "change", "", "updated "+uri); err != nil {
			t.Fatalf("update: %v", err)
		}
	}
	count := func(uri string) (n int) {
		for _, u := range c.updated {
			if u == uri {
				n++
			}
		}
		return n
	}
	// updated updates a resource and waits for the notification; others returns how often the other one was named meanwhile.
	updated := func(uri, other string) (others int) {
		t.Helper()
		c.mu.Lock()
		n, m := count(uri), count(other)
		c.mu.Unlock()
		update(other)
		update(uri)
		c.sees("the update of "+uri, func() bool { return count(uri) > n })
		c.mu.Lock()
		defer c.mu.Unlock()
		return count(other) - m
	}
	subscribe(a, 1)
	if updated(a, b) != 0 {
		t.Error("notified of a resource without a subscription")
	}
	subscribe(b, 1)
	updated(b, a)
	if err := c.Unsubscribe(c.ctx, &mcp.UnsubscribeParams{URI: a}); err != nil {
		t.Errorf("unsubscribe: %v", err)
	}
	// A modern client does so by closing a connection, which takes effect at some later time.
	testkit.Eventually(t, "silence about "+a, func() bool { return updated(b, a) == 0 })
	subscribe(a, 2)
	updated(a, b)
}

// steppedThrough checks the progress and the logs of a call that asks in between.
func steppedThrough(t *testing.T, up *askingServer, c *askedClient, through bool) {
	t.Helper()
	params := &mcp.CallToolParams{Name: "step", Arguments: map[string]any{"say": "accept on"}, Meta: mcp.Meta{}}
	params.SetProgressToken(progressToken)
	if isModern(c.face) {
		params.Meta[mcp.MetaKeyLogLevel] = "warning"
	} else if err := c.SetLoggingLevel(c.ctx, &mcp.SetLoggingLevelParams{Level: "warning"}); err != nil {
		t.Errorf("setLevel: %v", err)
	}
	if res, err := c.CallTool(c.ctx, params); err != nil || res.Content[0].(*mcp.TextContent).Text != "accept:on" {
		t.Errorf("step: %+v, %v", res, err)
	}
	progress, logs := []float64{1, 2, 3}, []string{"loud 2", "loud 3"}
	if isModern(c.face) && isModern(up.kind) {
		progress = []float64{1, 2, 1, 2, 3} // two requests of one token, each of which rises
	}
	if through && up.kind == "legacy-json" { // it sends these outside of the call, whose answer may overtake them
		if isModern(c.face) {
			c.sees("the first of it", func() bool {
				return len(c.logs) > 0 && c.logs[0] == logs[0] && len(c.progress) > 0 && c.progress[0] == progress[0] && c.otherTokens == nil
			})
			c.mu.Lock()
			defer c.mu.Unlock()
			c.progress, c.logs = nil, nil
			return
		}
	}
	c.sees("progress and logs", func() bool { return len(c.progress) >= len(progress) && len(c.logs) >= len(logs) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(c.progress, progress) || !slices.Equal(c.logs, logs) || c.otherTokens != nil {
		t.Errorf("progress %v, logs %q; want %v, %q; and progress of %v", c.progress, c.logs, progress, logs, c.otherTokens)
	}
	c.progress, c.logs = nil, nil
}

// halfway calls the tool "gate" and returns a function that opens the gate and checks the rest.
func (c *askedClient) halfway(up *askingServer, what string) (rest func()) {
	c.t.Helper()
	c.mu.Lock()
	c.progress = nil
	c.mu.Unlock()
	params := &mcp.CallToolParams{Name: "gate", Arguments: map[string]any{"what": what}}
	params.SetProgressToken(progressToken)
	done := make(chan error, 1)
	var res *mcp.CallToolResult
	go func() {
		var err error
		res, err = c.CallTool(c.ctx, params)
		done <- err
	}()
	c.sees("the first half", func() bool { return len(c.progress) == 1 })
	return func() {
		c.t.Helper()
		select {
		case up.gate <- struct{}{}:
		case <-c.ctx.Done():
			c.t.Fatal("the tool has ended")
		}
		if err := testkit.Receive(c.t, "the result", done); err != nil || res.Content[0].(*mcp.TextContent).Text != "done" {
			c.t.Errorf("%+v, %v", res, err)
		}
		c.sees("the second half", func() bool { return len(c.progress) >= 2 })
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Equal(c.progress, []float64{1, 2}) || c.otherTokens != nil {
			c.t.Errorf("progress %v, and of %v", c.progress, c.otherTokens)
		}
	}
}

// A server that closes the stream of a call for polling (2025-11-25): the client gets all of it, once.
func TestSDKServerClosesStream(t *testing.T) {
	for _, face := range append([]string{""}, askedFaces...) {
		t.Run(face, func(t *testing.T) {
			up := startAskingServer(t, "legacy-resumes")
			c := up.client(t, face, "[resume]\nretry = \"100ms\"\n")
			c.halfway(up, "close")()
			c.answers("accept:after", "form", "accept after")
		})
	}
}

// A legacy client whose connections break during a call, with or without an open question, loses nothing: it resumes with Last-Event-ID.
func TestSDKClientResumes(t *testing.T) {
	for _, kind := range askerKinds {
		if kind == "legacy-json" {
			continue // its answers are no streams before they are there
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			up := startAskingServer(t, kind)
			r := startRig(t, up.toml(t, "[resume]\nretry = \"100ms\"\n"), false)
			relay := startRelay(t, strings.TrimPrefix(r.base, "http://"))
			c := connectAskedClient(t, "legacy", &mcp.StreamableClientTransport{Endpoint: "http://" + relay.addr + "/mcp", HTTPClient: r.http})
			if up.url != "" {
				rest := c.halfway(up, "")
				relay.cut()
				rest()
			}
			done := make(chan error, 1)
			go func() {
				got, err := c.call(c.ctx, "form", "late answer", "")
				if got != "accept:answer" {
					t.Errorf("the tool says %q", got)
				}
				done <- err
			}()
			testkit.Receive(t, "the question", c.open)
			relay.cut()
			c.late <- struct{}{}
			if err := testkit.Receive(t, "the result", done); err != nil {
				t.Error(err)
			}
			runs := 1
			if isModern(kind) {
				runs = 2
			}
			testkit.Eventually(t, "the report of the call", func() bool { return up.events.count("called form late answer") >= runs })
			if n := up.events.count("called form late answer"); n != runs {
				t.Errorf("the tool ran %d times, want %d", n, runs)
			}
			if _, err := c.call(c.ctx, "change", "", "+tool extra"); err != nil {
				t.Error(err)
			}
			c.sees("a notice on the stream that was cut, too", func() bool { return c.lists["tools"] > 0 })
		})
	}
}

// Several modern clients of one server: each gets the notifications of its own listen.
func TestSDKListensTogether(t *testing.T) {
	for _, kind := range askerKinds {
		t.Run(kind, func(t *testing.T) {
			if kind == "modern-stdio" {
				t.Skip("the SDK's server has one listen for lists on each pipe, and the clients share one: see lastListen")
			}
			up := startAskingServer(t, kind)
			r := startRig(t, up.toml(t, ""), false)
			var both []*askedClient
			for range 2 {
				c := connectAskedClient(t, "modern", &mcp.StreamableClientTransport{Endpoint: r.base + "/mcp", HTTPClient: r.http})
				c.sees("the acknowledgement", func() bool { return len(c.acked) > 0 })
				both = append(both, c)
			}
			if _, err := both[0].call(both[0].ctx, "change", "", "+tool extra"); err != nil {
				t.Fatal(err)
			}
			for i, c := range both {
				c.sees(fmt.Sprintf("a notice for client %d", i+1), func() bool { return c.lists["tools"] > 0 })
			}
		})
	}
}
