package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"dragoman/internal/testkit"
)

// everyAsked runs a test for every SDK client at every SDK server through Dragoman, and once per server without, which shows what the SDK
// can do.
func everyAsked(t *testing.T, f func(t *testing.T, up *askingServer, c *askedClient, through bool)) {
	for _, kind := range askerKinds {
		t.Run("directly to "+kind, func(t *testing.T) {
			up := startAskingServer(t, kind)
			f(t, up, up.client(t, "", ""), false)
		})
		for _, face := range askedFaces {
			t.Run(face+" to "+kind, func(t *testing.T) {
				up := startAskingServer(t, kind)
				f(t, up, up.client(t, face, ""), true)
			})
		}
	}
}

// All kinds of questions of an SDK server, and all answers of an SDK client.
func TestSDKQuestions(t *testing.T) {
	everyAsked(t, func(t *testing.T, up *askingServer, c *askedClient, through bool) {
		c.answers("accept:yes", "form", "accept yes")
		c.answers("decline", "form", "decline")
		c.answers("cancel", "form", "cancel")
		c.answers("m:a thought", "sample", "accept a thought")
		c.answers("file:///root", "roots", "")
		c.answers("/accept:r0/accept:r1/accept:r2", "rounds", "accept r")
		askedByPrompt(t, c)
		askedURL(t, up, c, through)
		askedAtOnce(t, up, c)
		askedInParallel(t, c)
		askedInVain(t, up, c)
		askedTooLate(t, up, c)
		askedWithdrawn(t, up, c)
	})
}

func askedByPrompt(t *testing.T, c *askedClient) {
	t.Helper()
	if r, err := c.GetPrompt(c.ctx, &mcp.GetPromptParams{Name: "ask"}); err != nil || r.Messages[0].Content.(*mcp.TextContent).Text != "accept:prompted" {
		t.Errorf("prompt: %+v, %v", r, err)
	}
	if r, err := c.ReadResource(c.ctx, &mcp.ReadResourceParams{URI: "test://ask"}); err != nil || r.Contents[0].Text != "accept:read" {
		t.Errorf("resource: %+v, %v", r, err)
	}
}

// askedURL checks that a URL question arrives in the client's era: with an elicitationId for a legacy client, and a completion notification
// when a modern server's call has completed; without one for a modern client.
func askedURL(t *testing.T, up *askingServer, c *askedClient, through bool) {
	t.Helper()
	c.answers("accept", "url", "accept")
	c.answers("decline", "url", "decline")
	c.mu.Lock()
	urls, ids := slices.Clone(c.urls), slices.Clone(c.ids)
	c.mu.Unlock()
	if want := "https://x.example/consent?a=b&c=%20"; !slices.Equal(urls, []string{want, want}) {
		t.Errorf("URLs %q", urls)
	}
	if !through {
		return
	}
	switch {
	case isModern(c.face):
		if !isModern(up.kind) && !slices.Equal(ids, []string{"", ""}) {
			t.Errorf("elicitation ids %q for a modern client", ids)
		}
	case isModern(up.kind):
		if ids[0] == "" || ids[1] == "" || ids[0] == ids[1] || ids[0] == "own" {
			t.Errorf("elicitation ids %q for a legacy client", ids)
		}
		c.sees("the completion", func() bool { return slices.Contains(c.completed, ids[0]) })
	default:
		if !slices.Equal(ids, []string{"own", "own"}) {
			t.Errorf("elicitation ids %q in the legacy era", ids)
		}
	}
}

// askedAtOnce checks that two questions of one call are open at the same time. For a legacy server's questions to a modern client it is not
// specified whether they are in one result.
func askedAtOnce(t *testing.T, up *askingServer, c *askedClient) {
	t.Helper()
	if isModern(c.face) && !isModern(up.kind) {
		c.answers("accept:x and m:x", "both", "accept x")
		return
	}
	c.answers("accept:x and m:x", "both", "meet 2 both x")
}

// askedInParallel checks that each of several calls gets its own answer, with all questions open at the same time.
func askedInParallel(t *testing.T, c *askedClient) {
	t.Helper()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() { c.answers(fmt.Sprintf("accept:v%d", i), "form", fmt.Sprintf("meet 4 parallel v%d", i)) })
	}
	group.Wait()
}

// askedInVain makes a handler fail: the call fails, and nothing else does.
func askedInVain(t *testing.T, up *askingServer, c *askedClient) {
	t.Helper()
	if got, err := c.call(c.ctx, "form", "fail", ""); err == nil {
		t.Errorf("the handler failed, the tool says %q", got)
	}
	c.answers("accept:on", "form", "accept on")
	legs := 1
	if isModern(up.kind) {
		legs = 2 // one for the question, one for the answer
	}
	testkit.Eventually(t, "the reports of the calls", func() bool { return up.events.count("called form accept on") >= legs })
	if n, m := up.events.count("called form fail"), up.events.count("called form accept on"); n != 1 || m != legs {
		t.Errorf("the tool ran %d times and %d times, want 1 and %d", n, m, legs)
	}
}

// askedTooLate cancels a call whose question is answered afterwards. The late answer does no harm.
func askedTooLate(t *testing.T, up *askingServer, c *askedClient) {
	t.Helper()
	for range 2 {
		ctx, stop := context.WithCancel(c.ctx)
		done := make(chan error, 1)
		before := up.events.count("cancelled form")
		go func() {
			_, err := c.call(ctx, "form", "late answer", "")
			done <- err
		}()
		testkit.Receive(t, "the question", c.open)
		stop()
		if !isModern(c.face) { // a modern client waits for its handler
			if err := testkit.Receive(t, "the end of the call", done); err == nil {
				t.Error("a cancelled call has a result")
			}
			if !isModern(up.kind) {
				testkit.Eventually(t, "the cancellation at the server", func() bool { return up.events.count("cancelled form") > before })
			}
		}
		c.late <- struct{}{}
		if isModern(c.face) {
			if err := testkit.Receive(t, "the end of the call", done); err == nil {
				t.Error("a cancelled call has a result")
			}
		}
		for range 3 {
			c.answers("accept:after", "form", "accept after")
		}
	}
}

// askedWithdrawn cancels a call with an open question: server and client are notified, and the next call works.
func askedWithdrawn(t *testing.T, up *askingServer, c *askedClient) {
	t.Helper()
	ctx, stop := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	before := up.events.count("cancelled form")
	go func() {
		_, err := c.call(ctx, "form", "hang on", "")
		done <- err
	}()
	testkit.Receive(t, "the question", c.open)
	stop()
	if err := testkit.Receive(t, "the end of the call", done); err == nil {
		t.Error("a cancelled call has a result")
	}
	if isModern(c.face) || isModern(up.kind) {
		testkit.Receive(t, "the withdrawal", c.gone)
	}
	if !isModern(c.face) && !isModern(up.kind) {
		testkit.Eventually(t, "the cancellation at the server", func() bool { return up.events.count("cancelled form") > before })
	}
	c.answers("accept:after", "form", "accept after")
	c.answers("/accept:r0/accept:r1/accept:r2", "rounds", "accept r")
}

// A modern client that never sends the answer: the suspended call at a legacy server ends after its timeout without an answer, and other
// calls are not affected.
func TestSDKQuestionTimesOut(t *testing.T) {
	for _, face := range []string{"modern", "modern-stdio"} {
		for _, kind := range askerKinds {
			if isModern(kind) {
				continue
			}
			t.Run(face+" to "+kind, func(t *testing.T) {
				t.Parallel()
				up := startAskingServer(t, kind)
				c := up.client(t, face, "[questions]\nttl = \"1s\"\n")
				for range 2 {
					if got, err := c.call(c.ctx, "form", "fail", ""); err == nil {
						t.Errorf("the handler failed, the tool says %q", got)
					}
				}
				c.answers("accept:meanwhile", "form", "accept meanwhile")
				// The SDK handles a cancellation on a goroutine of its own, so that the error of the question, which follows, may be
				// processed first.
				testkit.Eventually(t, "the end of the calls", func() bool { return up.events.count("cancelled form")+up.events.count("refused form") == 2 })
				c.answers("accept:after", "form", "accept after")
				if n := up.events.count("called form fail"); n != 2 {
					t.Errorf("the tool ran %d times, want 2", n)
				}
			})
		}
	}
}

// A suspended call when Dragoman ends: it is cancelled at the server, so that its session can end.
func TestSDKEndsSuspended(t *testing.T) {
	for _, kind := range []string{"legacy", "legacy-json", "legacy-resumes", "sse"} {
		t.Run(kind, func(t *testing.T) {
			up := startAskingServer(t, kind)
			t.Run("meanwhile", func(t *testing.T) { // at whose end Dragoman ends
				c := up.client(t, "modern", "")
				for range 3 {
					if got, err := c.call(c.ctx, "form", "fail", ""); err == nil {
						t.Errorf("the handler failed, the tool says %q", got)
					}
				}
			})
			testkit.Eventually(t, "the end of the calls", func() bool { return up.events.count("cancelled form")+up.events.count("refused form") == 3 })
		})
	}
}
