package everything

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dragoman/conformance/everything/calls"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
)

func begin(t *testing.T, s *Server, ex *proxy.Exchange) proxy.Replies {
	t.Helper()
	r, err := s.Do(ex)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func counters(t *testing.T, s *Server) (cancelled, calls int) {
	t.Helper()
	var c struct{ Cancelled, Calls int }
	if err := json.Unmarshal(ask(t, s, "tools/call", `"name":"stats"`)["structuredContent"], &c); err != nil {
		t.Fatal(err)
	}
	return c.Cancelled, c.Calls
}

// Each notification comes when its step is done, not with the result.
func TestProgressIsLive(t *testing.T) {
	f := func(tool, token string, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			start := time.Now()
			r := begin(t, s, exchange(t, "tools/call", tool, `"progressToken":`+token))
			var got []string
			for {
				m, err := r.Next(time.Time{})
				if err != nil {
					t.Fatal(err)
				}
				at := strconv.Itoa(int(time.Since(start).Milliseconds()))
				if m.IsResponse() {
					got = append(got, at+" response")
					break
				}
				got = append(got, at+" "+string(m.Of(m.Params)))
			}
			_ = r.Close()
			if !slices.Equal(got, want) {
				t.Errorf("%s:\ngot  %s\nwant %s", tool, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		})
	}
	f(`"name":"progress","arguments":{"steps":3,"delayMs":200}`, `"t-1"`,
		`200 {"progressToken":"t-1","progress":1,"total":3,"message":"step 1/3"}`,
		`400 {"progressToken":"t-1","progress":2,"total":3,"message":"step 2/3"}`,
		`600 {"progressToken":"t-1","progress":3,"total":3,"message":"step 3/3"}`,
		`800 response`)
	f(`"name":"test_tool_with_progress"`, `12345678901234567890`,
		`0 {"progressToken":12345678901234567890,"progress":0,"total":100}`,
		`50 {"progressToken":12345678901234567890,"progress":50,"total":100}`,
		`100 {"progressToken":12345678901234567890,"progress":100,"total":100}`,
		`150 response`)
	f(`"name":"progress","arguments":{"steps":1,"delayMs":10}`, `null`, `20 response`)
	f(`"name":"slow","arguments":{"ms":1200}`, `1`, `1200 response`)
}

func TestLogLevels(t *testing.T) {
	f := func(tool, meta, client string, want int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			ex := exchange(t, "tools/call", tool, meta)
			ex.Client.LogLevel = client
			notes, resp := do(t, s, ex)
			if resp.Error != nil || len(notes) != want {
				t.Errorf("%s, _meta {%s}, client %q: %d messages, %v; want %d", tool, meta, client, len(notes), resp.Error, want)
			}
		})
	}
	in := func(level string) string { return `"io.modelcontextprotocol/logLevel":"` + level + `"` }
	const log = `"name":"log","arguments":{"count":2}`
	f(log, "", "", 0)
	f(log, in("debug"), "", 2)
	f(log, in("info"), "", 2)
	f(log, in("notice"), "", 0)
	f(log, in("emergency"), "", 0)
	f(log, "", "debug", 2)
	f(log, "", "warning", 0)
	f(log, in("debug"), "error", 0)
	f(`"name":"test_logging_tool"`, "", "", 0)
	f(`"name":"test_logging_tool"`, in("info"), "", 1)
	f(`"name":"test_tool_with_logging"`, in("info"), "", 3)

	s := newServer(t, Options{})
	for _, bad := range []string{`"io.modelcontextprotocol/logLevel":"loud"`, `"io.modelcontextprotocol/logLevel":3`} {
		if _, resp := do(t, s, exchange(t, "tools/call", log, bad)); resp.Error == nil || resp.Error.Code != -32602 {
			t.Errorf("%s: %v; want -32602", bad, resp.Error)
		}
	}
	notes, _ := do(t, s, exchange(t, "tools/call", log, in("info")))
	same(t, "message", []byte(notes[1]), `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"demo","data":{"n":2}}}`)
}

// A client that disconnects stops the tool, which counts as cancelled.
func TestCancel(t *testing.T) {
	cause := errors.New("gone")
	f := func(what string, cancel func(ex *proxy.Exchange, r proxy.Replies), want error) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			start := time.Now()
			ex := exchange(t, "tools/call", `"name":"slow","arguments":{"ms":6000}`, "")
			r := begin(t, s, ex)
			synctest.Wait()
			cancel(ex, r)
			if want != nil {
				if _, err := r.Next(time.Time{}); !errors.Is(err, want) {
					t.Errorf("%s: Next = %v; want %v", what, err, want)
				}
				_ = r.Close()
			}
			if cancelled, calls := counters(t, s); cancelled != 1 || calls != 2 || time.Since(start) > time.Second {
				t.Errorf("%s: cancelled %d, calls %d after %v", what, cancelled, calls, time.Since(start))
			}
		})
	}
	f("Cancel", func(ex *proxy.Exchange, _ proxy.Replies) { ex.Cancel(cause) }, cause)
	f("Leave", func(ex *proxy.Exchange, _ proxy.Replies) { ex.Leave() }, proxy.ErrCancelled)
	f("Cancel while Next waits", func(ex *proxy.Exchange, _ proxy.Replies) {
		time.AfterFunc(50*time.Millisecond, func() { ex.Cancel(cause) })
	}, cause)
	f("Follow", func(ex *proxy.Exchange, _ proxy.Replies) {
		ctx, stop := context.WithTimeoutCause(context.Background(), time.Millisecond, cause)
		context.AfterFunc(ctx, stop)
		ex.Follow(ctx)
	}, cause)
	f("Close", func(_ *proxy.Exchange, r proxy.Replies) { _ = r.Close() }, nil)
}

func TestCancelledBeforehand(t *testing.T) {
	s := newServer(t, Options{})
	ex := exchange(t, "tools/call", `"name":"slow","arguments":{"ms":600000}`, "")
	ex.Leave()
	r := begin(t, s, ex)
	if _, err := r.Next(time.Time{}); !errors.Is(err, proxy.ErrCancelled) {
		t.Errorf("Next = %v", err)
	}
	_ = r.Close()
}

// Close after the answer, read or not, does not count as a cancellation.
func TestCloseAfterAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		r := begin(t, s, exchange(t, "tools/call", `"name":"slow","arguments":{"ms":5}`, ""))
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		_ = r.Close()
		if cancelled, _ := counters(t, s); cancelled != 0 {
			t.Errorf("cancelled %d", cancelled)
		}
	})
}

func TestNextHonoursItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		r := begin(t, s, exchange(t, "tools/call", `"name":"slow","arguments":{"ms":100}`, ""))
		start := time.Now()
		for i, wait := range []time.Duration{30, 30, 0, -5} {
			before := time.Now()
			_, err := r.Next(before.Add(wait * time.Millisecond))
			if took := time.Since(before); !errors.Is(err, proxy.ErrNotYet) || took != max(wait, 0)*time.Millisecond {
				t.Errorf("Next %d = %v after %v", i, err, took)
			}
		}
		m, err := r.Next(start.Add(time.Hour))
		if err != nil || !m.IsResponse() || time.Since(start) != 100*time.Millisecond {
			t.Errorf("Next = %v, %v after %v", m.Kind, err, time.Since(start))
		}
		_ = r.Close()
	})
}

// A tool waits for its reader: messages are neither lost nor queued without bound.
func TestBackPressure(t *testing.T) {
	const level = `"io.modelcontextprotocol/logLevel":"info"`
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		ex := func() *proxy.Exchange {
			return exchange(t, "tools/call", `"name":"log","arguments":{"count":1000}`, level)
		}
		r := begin(t, s, ex())
		synctest.Wait() // the tool is blocked now
		for i := 1; i <= 1000; i++ {
			m, err := r.Next(time.Time{})
			if err != nil || !bytes.Contains(m.Raw, []byte(`{"n":`+strconv.Itoa(i)+`}`)) {
				t.Fatalf("message %d: %s, %v", i, m.Raw, err)
			}
		}
		if m, err := r.Next(time.Time{}); err != nil || !m.IsResponse() {
			t.Errorf("last: %s, %v", m.Raw, err)
		}
		_ = r.Close()

		r = begin(t, s, ex())
		synctest.Wait()
		_ = r.Close() // ends the blocked tool
		if cancelled, _ := counters(t, s); cancelled != 1 {
			t.Errorf("cancelled %d, want 1", cancelled)
		}
	})
}

func TestServerClose(t *testing.T) {
	s := New(Options{})
	var all []proxy.Replies
	for range 3 {
		all = append(all, begin(t, s, exchange(t, "tools/call", `"name":"slow","arguments":{"ms":600000}`, "")))
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	down := func(what string, err error) {
		t.Helper()
		var e *proxy.Error
		if !errors.As(err, &e) || e.Name != proxy.ShuttingDown.Name {
			t.Errorf("%s after Close: %v", what, err)
		}
	}
	for _, r := range all {
		_, err := r.Next(time.Time{})
		down("Next", err)
		_ = r.Close()
	}
	_, err := s.Do(exchange(t, "server/discover", "", ""))
	down("Do", err)
}

func TestTooManyCalls(t *testing.T) {
	s := newServer(t, Options{})
	var all []proxy.Replies
	for range calls.MaxRunning {
		all = append(all, begin(t, s, exchange(t, "tools/call", `"name":"slow","arguments":{"ms":600000}`, "")))
	}
	_, err := s.Do(exchange(t, "tools/call", `"name":"slow","arguments":{"ms":1}`, ""))
	var e *proxy.Error
	if !errors.As(err, &e) || e.Name != proxy.Overloaded.Name || !e.Retryable {
		t.Errorf("one call too many: %v", err)
	}
	for _, r := range all {
		_ = r.Close()
	}
	if _, resp := do(t, s, exchange(t, "tools/call", `"name":"slow","arguments":{"ms":1}`, "")); resp.Error != nil {
		t.Errorf("afterwards: %v", resp.Error)
	}
}

// Concurrent calls get only their own notifications.
func TestParallel(t *testing.T) {
	s := newServer(t, Options{})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if i%4 == 3 {
				ex := exchange(t, "tools/call", `"name":"slow","arguments":{"ms":600000}`, "")
				r, err := s.Do(ex)
				if err != nil {
					t.Error(err)
					return
				}
				go ex.Leave()
				if _, err := r.Next(time.Time{}); !errors.Is(err, proxy.ErrCancelled) {
					t.Error(err)
				}
				_ = r.Close()
				return
			}
			notes, _ := do(t, s, exchange(t, "tools/call", fmt.Sprintf(`"name":"progress","arguments":{"steps":%d,"delayMs":1}`, i), fmt.Sprintf(`"progressToken":%d`, i)))
			for n, note := range notes {
				if !strings.Contains(note, fmt.Sprintf(`"progressToken":%d,"progress":%d,"total":%d,`, i, n+1, i)) {
					t.Errorf("call %d, notification %d: %s", i, n, note)
				}
			}
			if len(notes) != i {
				t.Errorf("call %d: %d notifications", i, len(notes))
			}
		})
	}
	wg.Wait()
	if cancelled, _ := counters(t, s); cancelled != 10 {
		t.Errorf("cancelled %d, want 10", cancelled)
	}
}

func TestMediaAreReal(t *testing.T) {
	b, err := base64.StdEncoding.DecodeString(content.PNG())
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil || img.Bounds().Dx() != 8 {
		t.Errorf("picture: %v, %v", img, err)
	}
	if b, err = base64.StdEncoding.DecodeString(content.WAV()); err != nil || len(b) != 44+80 ||
		string(b[:4]) != "RIFF" || string(b[8:16]) != "WAVEfmt " || string(b[36:40]) != "data" || int(b[4]) != len(b)-8 || b[40] != 80 {
		t.Errorf("sound: %q, %v", b, err)
	}
}
