package telemetry

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccy/go-json"
	"github.com/rs/zerolog"

	"dragoman/policies"
	"dragoman/policies/internal/policytest"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// writes records each write.
type writes struct {
	mu    sync.Mutex
	all   []string
	block chan struct{} // not nil: writes wait for it
}

func (w *writes) Write(p []byte) (int, error) {
	if w.block != nil {
		<-w.block
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, string(p))
	return len(p), nil
}

func (w *writes) want(t *testing.T, all ...string) {
	t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := fmt.Sprintf("%q", w.all); got != fmt.Sprintf("%q", all) {
		t.Errorf("written is %s; want %q", got, all)
	}
}

// A line after a silence is written at once, and the lines after it together and soon. A warning is written at once with all lines before
// it, and so is a line after the end.
func TestLinesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w writes
		l := NewBatchWriter(&w)
		say := func(level zerolog.Level, text string) {
			if n, err := l.WriteLevel(level, []byte(text)); n != len(text) || err != nil {
				t.Errorf("%d %v", n, err)
			}
		}
		say(zerolog.InfoLevel, "a\n")
		w.want(t, "a\n")
		say(zerolog.InfoLevel, "b\n")
		say(zerolog.DebugLevel, "c\n")
		w.want(t, "a\n")
		time.Sleep(linesTime)
		w.want(t, "a\n", "b\nc\n")
		say(zerolog.InfoLevel, "d\n")
		say(zerolog.WarnLevel, "e\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n")
		time.Sleep(2 * linesTime)
		say(zerolog.InfoLevel, "f\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n")
		say(zerolog.InfoLevel, "g\n")
		_, _ = l.Write([]byte("h\n"))
		say(zerolog.InfoLevel, "i\n")
		l.Close()
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n", "g\nh\n", "i\n")
		say(zerolog.InfoLevel, "j\n")
		say(zerolog.InfoLevel, "k\n")
		w.want(t, "a\n", "b\nc\n", "d\ne\n", "f\n", "g\nh\n", "i\n", "j\n", "k\n")
	})
}

// Waiting lines are bounded: a line without room waits for the writer, and nothing is lost or reordered.
func TestLinesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := writes{block: make(chan struct{})}
		l := NewBatchWriter(&w)
		const lines, size = 1000, 1 << 10
		taken := 0
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range lines {
				_, _ = l.WriteLevel(zerolog.InfoLevel, fmt.Appendf(nil, "%0*d\n", size-1, i))
				taken++
			}
		}()
		synctest.Wait()
		if taken != 0 {
			t.Errorf("%d lines are taken while the first is being written", taken)
		}
		w.block <- struct{}{} // the first; the next is written by the timer
		time.Sleep(linesTime)
		synctest.Wait()
		if most := 1 + 2*linesRoom/size; taken == 0 || taken > most {
			t.Errorf("%d lines of %d bytes wait; want room for %d", taken, size, most)
		}
		close(w.block)
		<-done
		l.Close()
		for i, line := range strings.Split(strings.TrimSuffix(strings.Join(w.all, ""), "\n"), "\n") {
			if want := fmt.Sprintf("%0*d", size-1, i); line != want {
				t.Fatalf("line %d is %s", i, strings.TrimLeft(line, "0"))
			}
		}
		if n := strings.Count(strings.Join(w.all, ""), "\n"); n != lines {
			t.Errorf("%d of %d lines were written", n, lines)
		}
	})
}

// Concurrent lines are complete.
func TestLinesOfMany(t *testing.T) {
	var w writes
	l := NewBatchWriter(&w)
	var group sync.WaitGroup
	const many, each = 8, 2000
	for i := range many {
		group.Go(func() {
			for range each {
				_, _ = l.WriteLevel(zerolog.Level(i%2), []byte("0123456789\n"))
			}
		})
	}
	group.Wait()
	l.Close()
	if got := strings.Join(w.all, ""); got != strings.Repeat("0123456789\n", many*each) {
		t.Errorf("%d bytes of %d, or incomplete", len(got), many*each*11)
	}
	if len(w.all) > many*each/2 {
		t.Errorf("%d writes for %d lines", len(w.all), many*each)
	}
}

// The direct encoder writes what the logger does, byte for byte except for the clock and the form of escapes, and follows the same level.
func TestDirectLines(t *testing.T) {
	session := &proxy.Session{ID: "abcdefghijkl"}
	for _, c := range []struct {
		method, name, id string
		who, target      string
		session          *proxy.Session
		era              proxy.Era
	}{
		{method: "tools/call", name: "echo", id: "r-1", who: "https://issuer#bench", target: "up"},
		{method: "tools/list", id: "r-2", session: session},
		{method: "tools/call", name: "echo", id: "r-3", target: "up", era: proxy.Modern},
		{method: "prompts/get", name: "hi", id: "r-4", target: "up", era: proxy.Modern},
		{method: "tools/call", name: `a\"b\u0000\ud83d\ude00` + strings.Repeat("ä", policies.MaxText), id: "<\x7f\x01ä\">", who: "a\\b\n" + strings.Repeat("c", policies.MaxText)},
	} {
		m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{"name":"` + c.name + `","arguments":{"a":"secret"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		ask := func(log zerolog.Logger, direct *FastLine, what string) {
			ex := &proxy.Exchange{Msg: m, Target: c.target, RequestID: c.id, Session: c.session, Client: proxy.Client{Era: c.era}}
			ex.Caller.Principal = c.who
			replies, err := AccessLog(log, what, direct)(func(*proxy.Exchange) (proxy.Replies, error) {
				return &policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}}, nil
			})(ex)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = replies.Next(time.Time{})
			_ = replies.Close()
		}
		for _, what := range []string{LogErrors, LogAll, LogNone} {
			var usual, short bytes.Buffer
			level, lines := NewLevel(zerolog.InfoLevel), NewBatchWriter(&short)
			ask(level.Logger(zerolog.New(&usual)), nil, what)
			ask(level.Logger(zerolog.New(lines)), &FastLine{Out: lines, Level: level}, what)
			level.Set(zerolog.DebugLevel)
			ask(level.Logger(zerolog.New(&usual)), nil, what)
			ask(level.Logger(zerolog.New(lines)), &FastLine{Out: lines, Level: level}, what)
			lines.Close()
			if a, b := timeless(t, usual.Bytes()), timeless(t, short.Bytes()); a != b {
				t.Errorf("%s: the logger writes\n%sthe direct encoder\n%s", what, a, b)
			}
		}
	}
}

// timeless removes the times and normalises lines of the log.
func timeless(t *testing.T, lines []byte) (all string) {
	t.Helper()
	for line := range bytes.Lines(lines) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if ms, ok := fields["ms"].(float64); !ok || ms < 0 {
			t.Errorf("%s", line)
		}
		delete(fields, "ms")
		delete(fields, "time")
		out, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		all += string(out) + "\n"
	}
	return all
}

// Cached fields of one request are not written for another, however similar, and do not point to the request's memory.
func TestDirectLinesOfSeveral(t *testing.T) {
	var usual, short bytes.Buffer
	level, lines := NewLevel(zerolog.InfoLevel), NewBatchWriter(&short)
	direct := &FastLine{Out: lines, Level: level}
	for range 2 {
		for _, c := range []struct{ name, who, target string }{
			{}, {"echo", "ann", "up"}, {"echo", "bob", "up"}, {"echo", "bob", "to"}, {"hoec", "bob", "to"}, {"ech", "bobo", "to"}, {"e", "", ""}, {"", "e", ""},
			{`e\"`, "", ""}, {"echo", `an"`, "up"},
		} {
			raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + c.name + `","arguments":{}}}`)
			m, err := wire.Scan(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range []*FastLine{nil, direct} {
				log := zerolog.New(&usual)
				if d != nil {
					log = zerolog.New(lines)
				}
				ex := &proxy.Exchange{Msg: m, Target: c.target, RequestID: "r", Caller: proxy.Caller{Principal: c.who}}
				replies, err := AccessLog(level.Logger(log), LogAll, d)(func(*proxy.Exchange) (proxy.Replies, error) {
					return &policytest.Script{Messages: []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}}, nil
				})(ex)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = replies.Next(time.Time{})
				_ = replies.Close()
			}
			clear(raw)
		}
	}
	lines.Close()
	if a, b := timeless(t, usual.Bytes()), timeless(t, short.Bytes()); a != b {
		t.Errorf("the direct encoder writes\n%s\nthe logger\n%s", b, a)
	}
}

// Times and durations are formatted as by the logger.
func TestDirectTimes(t *testing.T) {
	var s stamp
	at := time.Date(2026, 11, 22, 23, 59, 58, 0, time.FixedZone("x", 3600))
	for range 100 {
		at = at.Add(37*time.Millisecond + 999*time.Microsecond)
		if got, want := string(s.append(nil, at.UnixNano())), at.UTC().Format("2006-01-02T15:04:05.000Z07:00"); got != want {
			t.Errorf("%s; want %s", got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 999, 1000, 47504427, time.Millisecond, 1500 * time.Microsecond, time.Hour + 1} {
		var log bytes.Buffer
		logger := zerolog.New(&log)
		logger.Log().Dur("ms", d).Send()
		if got := `{"ms":` + string(appendMillis(nil, d)) + "}\n"; got != log.String() {
			t.Errorf("%s; want %s", got, log.String())
		}
	}
}

// plain finds bytes that need an escape at every position of a text.
func TestPlain(t *testing.T) {
	for c := range 256 {
		for length := 1; length < 20; length++ {
			for at := range length {
				text := bytes.Repeat([]byte{'a'}, length)
				text[at] = byte(c)
				if want := c >= ' ' && c < 0x7f && c != '"' && c != '\\'; plain(text) != want {
					t.Fatalf("%q: %v", text, !want)
				}
			}
		}
	}
}
