package otlp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"dragoman/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector counts posts, and answers as the test says.
type collector struct {
	srv    *httptest.Server
	posts  atomic.Int32
	status atomic.Int32
	hold   chan struct{}
	paths  sync.Map
	answer func(post int32, w http.ResponseWriter) // nil: by status
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	k := &collector{}
	k.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		post := k.posts.Add(1)
		k.paths.Store(r.URL.Path+" "+r.Header.Get("X-Key"), true)
		_, _ = io.Copy(io.Discard, r.Body)
		if k.hold != nil {
			select {
			case <-k.hold:
			case <-r.Context().Done():
			}
		}
		if k.answer != nil {
			k.answer(post, w)
		} else if status := k.status.Load(); status != 0 {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(int(status))
		}
	}))
	t.Cleanup(func() { k.srv.CloseClientConnections(); k.srv.Close() })
	return k
}

func (k *collector) options() Options {
	return Options{URL: k.srv.URL + "/in/v1/traces", Headers: map[string]string{"X-Key": "k"}, Timeout: time.Second, Ratio: 1, Queue: 8, Batch: 4, Wait: time.Millisecond, Service: "s", Version: "1", Instance: "i"}
}

func start(t *testing.T, opt Options) *Exporter {
	t.Helper()
	e, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func span(e *Exporter, n int) {
	for range n {
		_, s := e.Tracer().Start(context.Background(), "x")
		s.End()
	}
}

func (e *Exporter) is(exported, dropped, failed uint64, waiting int) bool {
	a, b, c, w := e.Stats()
	return a == exported && b == dropped && c == failed && w == waiting
}

func TestExport(t *testing.T) {
	k := newCollector(t)
	e := start(t, k.options())
	span(e, 3)
	testkit.Eventually(t, "three spans are taken", func() bool { return e.is(3, 0, 0, 0) })
	if _, ok := k.paths.Load("/in/v1/traces k"); !ok {
		t.Error("not at the configured URL")
	}
	_, late := e.Tracer().Start(context.Background(), "late")
	e.Close()
	late.End()
	span(e, 1)
	if _, _, _, waiting := e.Stats(); waiting != 0 || k.posts.Load() > 3 {
		t.Errorf("after the end: %d waiting, %d posts", waiting, k.posts.Load())
	}
}

// Spans that end after Close go to the successor, and to its successor.
func TestHandOver(t *testing.T) {
	k := newCollector(t)
	one, two, three := start(t, k.options()), start(t, k.options()), start(t, k.options())
	_, late := one.Tracer().Start(context.Background(), "late")
	one.HandOver(two)
	one.Close()
	two.HandOver(three)
	two.Close()
	late.End()
	span(one, 1)
	testkit.Eventually(t, "both are taken", func() bool { return three.is(2, 0, 0, 0) })
	if !one.is(0, 0, 0, 0) || !two.is(0, 0, 0, 0) {
		t.Error("they count at the exporter that did not send them")
	}
}

// The queue is bounded, including spans that are being sent; spans without room are counted.
func TestQueueIsBounded(t *testing.T) {
	k := newCollector(t)
	k.hold = make(chan struct{})
	opt := k.options()
	opt.Timeout = testkit.Patient
	e := start(t, opt)
	span(e, 20)
	if !e.is(0, 12, 0, 8) {
		a, b, c, w := e.Stats()
		t.Errorf("%d exported, %d dropped, %d failed, %d waiting", a, b, c, w)
	}
	close(k.hold)
	testkit.Eventually(t, "the rest is sent", func() bool { return e.is(8, 12, 0, 0) })
}

// A failure is reported once a minute, with the number of spans lost since.
func TestFailures(t *testing.T) {
	k := newCollector(t)
	k.status.Store(400)
	var mu sync.Mutex
	now, told := time.Unix(1_800_000_000, 0), []uint64(nil)
	opt := k.options()
	opt.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	opt.Failed = func(err error, lost uint64) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, lost)
		if !strings.HasPrefix(err.Error(), "otlp: ") {
			t.Errorf("%v", err)
		}
	}
	e := start(t, opt)
	lose := func(n uint64) {
		before := e.failed.Load()
		span(e, int(n))
		testkit.Eventually(t, "they are lost", func() bool { return e.failed.Load() == before+n && e.waiting.Load() == 0 })
	}
	lose(1)
	lose(1)
	lose(1)
	mu.Lock()
	now = now.Add(noteEvery)
	mu.Unlock()
	lose(1)
	k.status.Store(302) // no other host may see the headers
	lose(1)
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || told[0] != 1 || told[1] != 3 {
		t.Errorf("reported %v", told)
	}
	if _, ok := k.paths.Load("/elsewhere k"); ok {
		t.Error("a redirect was followed")
	}
}

// A post is retried if the collector allows it, not before the time it names; all other failures are final.
func TestRetries(t *testing.T) {
	for _, x := range []struct {
		status int
		after  string
		again  bool
	}{{429, "", true}, {502, "", true}, {503, "1", true}, {504, "", true}, {503, time.Unix(0, 0).UTC().Format(http.TimeFormat), true}, {400, "0", false}, {500, "", false}, {307, "", false}} {
		t.Run(fmt.Sprint(x.status, x.after), func(t *testing.T) {
			t.Parallel()
			k := newCollector(t)
			var first atomic.Int64
			var waited atomic.Int64
			k.answer = func(post int32, w http.ResponseWriter) {
				if post == 1 {
					first.Store(time.Now().UnixNano())
					w.Header().Set("Retry-After", x.after)
					w.WriteHeader(x.status)
					return
				}
				waited.Store(time.Now().UnixNano() - first.Load())
			}
			opt := k.options()
			opt.Timeout = testkit.Patient
			e := start(t, opt)
			span(e, 1)
			want := [2]uint64{0, 1}
			if x.again {
				want = [2]uint64{1, 0}
			}
			testkit.Eventually(t, "it is settled", func() bool { return e.is(want[0], 0, want[1], 0) })
			if posts := k.posts.Load(); x.again != (posts == 2) {
				t.Errorf("%d posts", posts)
			}
			if x.after == "1" && time.Duration(waited.Load()) < time.Second {
				t.Errorf("retried after %s", time.Duration(waited.Load()))
			}
		})
	}
}

// Spans that the collector refuses count as lost; after any other answer all spans are accepted.
func TestPartialSuccess(t *testing.T) {
	for name, x := range map[string]struct {
		answer string
		failed uint64
		told   string
	}{
		"two refused":       {"\x0a\x0b\x08\x02\x12\x07too big", 2, `otlp: traces export: the collector has refused 2 of the spans: "too big"`},
		"more than were":    {"\x0a\x03\x08\xe8\x07", 3, `otlp: traces export: the collector has refused 1000 of the spans: ""`},
		"warned":            {"\x0a\x06\x12\x04slow", 0, ""},
		"nothing":           {"", 0, ""},
		"no such message":   {"{\"partialSuccess\":{}}", 0, ""},
		"more than is read": {strings.Repeat("\x10\x01", maxAnswer), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCollector(t)
			k.answer = func(_ int32, w http.ResponseWriter) { _, _ = io.WriteString(w, x.answer) }
			opt := k.options()
			opt.Wait, opt.Batch = testkit.Patient, 3
			told := make(chan string, 8)
			opt.Failed = func(err error, lost uint64) { told <- err.Error() }
			e := start(t, opt)
			span(e, 3)
			testkit.Eventually(t, "it is settled", func() bool { return e.is(3-x.failed, 0, x.failed, 0) })
			e.Close()
			close(told)
			if got := <-told; got != x.told {
				t.Errorf("reported %q, want %q", got, x.told)
			}
		})
	}
}

// Close returns in time although the collector is silent or asks for retries.
func TestCloseInTime(t *testing.T) {
	for name, status := range map[string]int32{"silent": 0, "busy": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newCollector(t)
			k.status.Store(status)
			if status == 0 {
				k.hold = make(chan struct{})
				defer close(k.hold)
			}
			opt := k.options()
			opt.Timeout, opt.Wait = time.Minute, time.Minute
			e := start(t, opt)
			span(e, 8)
			began := time.Now()
			e.Close()
			if took := time.Since(began); took > closeTime+abortTime+time.Second {
				t.Errorf("the end took %s", took)
			}
			if _, _, failed, _ := e.Stats(); failed == 0 {
				t.Error("no span was dropped")
			}
		})
	}
}

// OTEL_ variables of other programs change nothing, except for OTEL_RESOURCE_ATTRIBUTES.
func TestEnvironment(t *testing.T) {
	other := newCollector(t)
	for name, value := range map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": other.srv.URL, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": other.srv.URL, "OTEL_EXPORTER_OTLP_HEADERS": "X-Key=theirs",
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_TIMEOUT": "1", "OTEL_TRACES_SAMPLER": "always_off", "OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_BSP_SCHEDULE_DELAY": "60000",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0", "OTEL_SERVICE_NAME": "theirs", "OTEL_SDK_DISABLED": "true"} {
		t.Setenv(name, value)
	}
	k := newCollector(t)
	e := start(t, k.options())
	span(e, 3)
	testkit.Eventually(t, "the spans are taken", func() bool { return e.is(3, 0, 0, 0) })
	if _, ok := k.paths.Load("/in/v1/traces k"); !ok || other.posts.Load() != 0 {
		t.Errorf("%v, %d elsewhere", ok, other.posts.Load())
	}
}

func TestRoots(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{bad, bad + ".not"} {
		if _, err := New(Options{URL: "https://x.example", CAFile: file}); err == nil || !strings.HasPrefix(err.Error(), "otlp: ") {
			t.Errorf("%s: %v", file, err)
		}
	}
}
