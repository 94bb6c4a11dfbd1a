package legacy

import (
	"io"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/mcphttp"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

var keeps = mcphttp.Resume{Events: 256, Bytes: 1 << 20, Retry: 300 * time.Millisecond}

const (
	tick     = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}`
	tock     = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":2}}`
	question = `{"jsonrpc":"2.0","id":"q","method":"roots/list"}`
)

func reply(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":{}}` }

// session is the session with the given id.
func (f *downstreamRig) session(id string) *proxy.Session {
	f.t.Helper()
	sess := f.d.Store.Find([]byte(id), "", proxy.Caller{})
	if sess == nil {
		f.t.Fatal("no session")
	}
	return sess
}

// Events have ids in every revision, but a priming event only in 2025-11-25: older clients take it for a malformed message.
func TestEventIDsAndPriming(t *testing.T) {
	for version, prime := range map[string]string{"2025-11-25": "s1-1 300", "2025-06-18": "", "2025-03-26": ""} {
		t.Run(version, func(t *testing.T) {
			f := newDownstreamRig(t, keeps)
			s := f.post(f.open(version), "1")
			c := f.call("1")
			c.say <- tick
			c.say <- reply("1")
			if prime != "" {
				s.want(prime, "s1-2 -1 "+tick, "s1-3 -1 "+reply("1"), "end")
			} else {
				s.want("s1-1 -1 "+tick, "s1-2 -1 "+reply("1"), "end")
			}
		})
	}
}

// The first event may come before the response becomes a stream. A JSON response has no ids.
func TestEventIDsOfPromptAnswers(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	sess := f.open("2025-11-25")
	go func() { f.call("1").say <- tick }()
	s := f.post(sess, "1")
	f.call("1").say <- reply("1")
	s.want("s1-1 300", "s1-2 -1 "+tick, "s1-3 -1 "+reply("1"), "end")
	go func() { f.call("2").say <- reply("2") }()
	res := f.send("POST", sess, "", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil || string(body) != reply("2") || res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v", body, err)
	}
}

func TestNothingKept(t *testing.T) {
	f := newDownstreamRig(t, mcphttp.Resume{})
	sess := f.open("2025-11-25")
	own := f.stream("GET", sess, "s1-1", "")
	s := f.post(sess, "1")
	c := f.call("1")
	c.say <- tick
	s.want(" -1 " + tick)
	s.lose()
	stop := make(chan struct{})
	asking := make(chan struct{})
	go func() { // events that are written before the loss is noticed are lost: nothing is recorded
		defer close(asking)
		for {
			select {
			case c.say <- question:
			case <-stop:
				return
			}
		}
	}()
	own.want(" -1 " + question)
	close(stop)
	<-asking
	for len(c.say) > 0 {
		<-c.say
	}
	c.say <- reply("1")
	<-c.over
}

// A client resumes a lost stream after the last event that it saw. The stream goes on live and ends with the response; the session's own
// stream is unaffected.
func TestResumeAnAnswer(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2025-06-18"} {
		t.Run(version, func(t *testing.T) {
			f := newDownstreamRig(t, keeps)
			sess := f.open(version)
			own := f.stream("GET", sess, "", "")
			if version == "2025-11-25" {
				own.want("s1-1 300")
			}
			s := f.post(sess, "1")
			c := f.call("1")
			c.say <- tick
			seen := s.next()
			if version == "2025-11-25" {
				seen = s.next()
			}
			last, _, _ := strings.Cut(seen, " ")
			s.lose()
			c.say <- tock
			testkit.Eventually(t, "the server's message is read", func() bool { return len(c.say) == 0 })
			back := f.stream("GET", sess, last, "")
			back.wantSuffix(tock)
			c.say <- tick
			back.wantSuffix(tick)
			if err := f.session(sess).Push([]byte(`{"own":1}`)); err != nil {
				t.Fatal(err)
			}
			own.wantSuffix(`{"own":1}`)
			c.say <- reply("1")
			back.wantSuffix(reply("1"))
			back.want("end")
			<-c.over
			again := f.stream("GET", sess, last, "") // also after its end
			if first := again.next(); !strings.HasSuffix(first, " "+tock) {
				t.Fatalf("after the end: %s", first)
			}
		})
	}
}

// The session's own stream is resumed where it broke, and is the session's own again.
func TestResumeTheOwnStream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	sess := f.session(id)
	push := func(msg string) {
		t.Helper()
		if err := sess.Push([]byte(msg)); err != nil {
			t.Fatal(err)
		}
	}
	own := f.stream("GET", id, "", "")
	own.want("s1-1 300")
	push(`{"n":1}`)
	push(`{"n":2}`)
	own.want(`s1-2 -1 {"n":1}`)
	own.lose() // with {"n":2} on its way
	testkit.Eventually(t, "the loss is noticed", func() bool { return !sess.HasOutlet() })
	sess.Keep("", []byte(`{"n":3}`))
	own = f.stream("GET", id, "s1-2", "")
	own.want(`s1-3 -1 {"n":2}`, `s1-4 -1 {"n":3}`)
	push(`{"n":4}`)
	own.want(`s1-5 -1 {"n":4}`)
	newer := f.stream("GET", id, "s1-4", "") // while the other is open: the newer one takes over
	newer.want(`s1-5 -1 {"n":4}`)
	own.want("end")
	push(`{"n":5}`)
	newer.want(`s1-6 -1 {"n":5}`)
	plain := f.stream("GET", id, "", "")
	plain.want("s2-1 300")
	newer.want("end")
}

func TestUnknownLastEventID(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	f.call("1").say <- tick
	s.want("s1-1 300", "s1-2 -1 "+tick)
	for i, last := range []string{"s1-9", "s7-1", "nonsense", "-"} {
		own := f.stream("GET", id, last, "")
		own.want([]string{"s2-1 300", "s3-1 300", "s4-1 300", "s5-1 300"}[i])
		if err := f.session(id).Push([]byte(`{"n":1}`)); err != nil {
			t.Fatal(err)
		}
		own.wantSuffix(`{"n":1}`)
	}
	f.call("1").say <- reply("1")
	s.want("s1-3 -1 "+reply("1"), "end")
}

// A question to a client that has lost the stream goes to the session's own stream, or waits until the stream is resumed, but never both.
func TestQuestionOnALostStream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	own := f.stream("GET", id, "", "")
	own.want("s1-1 300")
	s := f.post(id, "1")
	s.want("s2-1 300")
	s.lose()
	c := f.call("1")
	c.say <- tick
	c.say <- tock // the loss is noticed with one of these, or with a comment
	c.say <- question
	own.wantSuffix(question) // at once, or after the time to come back
	back := f.stream("GET", id, "s2-1", "")
	back.wantSuffix(tick)
	back.wantSuffix(tock)
	c.say <- reply("1")
	back.wantSuffix(reply("1")) // the question does not come twice
}

func TestQuestionWaitsForTheOwnStream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	s.want("s1-1 300")
	s.lose()
	c := f.call("1")
	c.say <- tick
	c.say <- question
	own := f.stream("GET", id, "", "")
	own.want("s2-1 300")
	own.wantSuffix(question)
	c.say <- reply("1")
	<-c.over
}

func TestQuestionOnAResumedStream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	s.want("s1-1 300")
	s.lose()
	c := f.call("1")
	c.say <- question
	back := f.stream("GET", id, "s1-1", "")
	back.want("s1-2 -1 " + question)
	own := f.stream("GET", id, "", "")
	own.want("s2-1 300")
	if err := f.session(id).Push([]byte(`{"n":1}`)); err != nil {
		t.Fatal(err)
	}
	own.want(`s2-2 -1 {"n":1}`)
	if res := f.send("POST", id, "", `{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`); res.StatusCode != 202 {
		t.Errorf("the answer: %d", res.StatusCode)
	}
	c.say <- reply("1")
	back.want("s1-3 -1 "+reply("1"), "end")
	again := f.stream("GET", id, "s1-1", "")
	again.want("s1-3 -1 "+reply("1"), "end") // an answered question is not asked again
}

// A long stream is closed, with an id and a retry time, and its request goes on. Older revisions have no such close.
func TestHold(t *testing.T) {
	resume := keeps
	resume.Hold = 60 * time.Millisecond
	f := newDownstreamRig(t, resume)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	s.want("s1-1 300", "s1-2 300", "end")
	c := f.call("1")
	c.say <- tick
	s = f.stream("GET", id, "s1-2", "")
	s.want("s1-3 -1 " + tick)
	if got := s.next(); got != "s1-4 300" { // also a resumed stream
		t.Fatal(got)
	}
	s.want("end")
	c.say <- reply("1")
	s = f.stream("GET", id, "s1-4", "")
	s.want("s1-5 -1 "+reply("1"), "end")

	old := f.open("2025-06-18")
	s = f.post(old, "2")
	began := time.Now()
	for time.Since(began) < 3*resume.Hold { // keep-alive comments in the meantime
		time.Sleep(resume.Hold)
	}
	f.call("2").say <- reply("2")
	s.want("s1-1 -1 "+reply("2"), "end")
}

// A server that closes our stream does not want held connections, so we close the client's stream.
func TestPolledUpstream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	go func() { f.call("1").poll <- struct{}{} }()
	s := f.post(id, "1")
	got := s.next()
	for ; got != "end"; got = s.next() {
		if !strings.HasPrefix(got, "s1-") || !strings.HasSuffix(got, " 300") {
			t.Fatal(got)
		}
	}
	c := f.call("1")
	back := f.stream("GET", id, "s1-1", "")
	c.poll <- struct{}{} // also that of a client that has resumed
	back.wantSuffix("300")
	back.want("end")
	back = f.stream("GET", id, "s1-1", "")
	c.say <- reply("1")
	back.wantSuffix(reply("1"))
	back.want("end")
}

// The stream of an array has ids too, and goes on after each response. Lost events of it can be resumed, and requests that have not begun
// are processed nevertheless.
func TestBatchStream(t *testing.T) {
	const array = `[{"jsonrpc":"2.0","id":1,"method":"tools/list"},{"jsonrpc":"2.0","id":2,"method":"tools/list"},{"jsonrpc":"2.0","method":"notifications/x"}]`
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-03-26")
	s := f.stream("POST", id, "", array)
	f.call("1").say <- reply("1")
	f.call("2").say <- reply("2")
	s.want("s1-1 -1 "+reply("1"), "s1-2 -1 "+reply("2"), "end")
	f.mu.Lock()
	if len(f.said) != 1 {
		t.Errorf("received: %q", f.said)
	}
	clear(f.calls)
	f.mu.Unlock()

	id = f.open("2025-03-26")
	s = f.stream("POST", id, "", array)
	c := f.call("1")
	c.say <- tick
	s.want("s1-1 -1 " + tick)
	s.lose()
	c.say <- tock
	c.say <- reply("1")
	f.call("2").say <- tick
	back := f.stream("GET", id, "s1-1", "")
	back.want("s1-2 -1 "+tock, "s1-3 -1 "+reply("1"), "s1-4 -1 "+tick)
	f.call("2").say <- reply("2")
	back.want("s1-5 -1 "+reply("2"), "end")
}

// The end of a session ends its drained and its resumed streams.
func TestSessionEndsItsStreams(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	s.want("s1-1 300")
	s.lose()
	back := f.stream("GET", id, "s1-1", "")
	lost := f.post(id, "2")
	lost.want("s2-1 300")
	lost.lose()
	own := f.stream("GET", id, "", "")
	own.want("s3-1 300")
	if res := f.send("DELETE", id, "", ""); res.StatusCode != 204 {
		t.Fatal(res.StatusCode)
	}
	back.want("end")
	own.want("end")
	<-f.call("1").over
	<-f.call("2").over
	if f.streams() != 0 {
		t.Errorf("%d streams kept", f.streams())
	}
	if res := f.send("GET", id, "s1-1", ""); res.StatusCode != 404 {
		t.Errorf("after the end: %d", res.StatusCode)
	}
}

// A client that cancels a request whose stream it has resumed gets the end of that stream and no response.
func TestCancelOnAResumedStream(t *testing.T) {
	f := newDownstreamRig(t, keeps)
	id := f.open("2025-11-25")
	s := f.post(id, "1")
	s.want("s1-1 300")
	s.lose()
	back := f.stream("GET", id, "s1-1", "")
	if res := f.send("POST", id, "", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`); res.StatusCode != 202 {
		t.Fatal(res.StatusCode)
	}
	back.want("end")
	<-f.call("1").over
}
