package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dragoman/adapters/search/embedding"
	"dragoman/internal/testkit"
)

const key = "sk-secret-0123456789"

// asked is a request to the service.
type asked struct {
	Model  string
	Input  []string
	Format string `json:"encoding_format"`
}

// service starts one whose answers handle writes. n counts the requests from 1.
func service(t *testing.T, handle func(w http.ResponseWriter, n int64, q asked)) (url string) {
	t.Helper()
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q asked
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &q)
		}
		if err != nil || r.Method != "POST" || r.URL.Path != "/v1/embeddings" || r.Header.Get("Authorization") != "Bearer "+key || r.Header.Get("Content-Type") != "application/json" || q.Model != "m" || q.Format != "float" {
			t.Errorf("%s %s %v %s %v", r.Method, r.URL, r.Header, body, err)
		}
		handle(w, n.Add(1), q)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

func model(t *testing.T, opt Options) *Model {
	t.Helper()
	opt.Model, opt.Key, opt.retryFirst = "m", key, time.Millisecond
	m, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// vectorsOf answers each text with a vector in the direction of (its length, 1), the last text first.
func vectorsOf(w http.ResponseWriter, q asked) {
	var data []string
	for i := len(q.Input) - 1; i >= 0; i-- {
		data = append(data, fmt.Sprintf(`{"object":"embedding","index":%d,"embedding":[%d,1]}`, i, len(q.Input[i])))
	}
	_, _ = fmt.Fprintf(w, `{"object":"list","data":[%s],"model":"m","usage":{"prompt_tokens":1}}`, strings.Join(data, ","))
}

// Texts are sent in batches, and their vectors come back in order, of length one.
func TestBatches(t *testing.T) {
	var batches atomic.Int64
	m := model(t, Options{URL: service(t, func(w http.ResponseWriter, n int64, q asked) {
		batches.Store(n)
		if size := len(strings.Join(q.Input, "")); len(q.Input) > batchTexts || len(q.Input) > 1 && size > batchBytes {
			t.Errorf("a batch of %d texts, %d bytes", len(q.Input), size)
		}
		vectorsOf(w, q)
	})})
	var texts []string
	for i := range 2*batchTexts + 1 {
		texts = append(texts, strings.Repeat("x", i))
	}
	texts = append(texts, strings.Repeat("y", batchBytes+1), "", strings.Repeat("z", batchBytes-1), "zz")
	got, err := m.Embed(t.Context(), texts)
	if err != nil || len(got) != len(texts) {
		t.Fatal(len(got), err)
	}
	for i, v := range got {
		length := math.Hypot(float64(len(texts[i])), 1)
		if len(v) != 2 || math.Abs(float64(v[0])-float64(len(texts[i]))/length) > 1e-6 || math.Abs(float64(v[1])-1/length) > 1e-6 {
			t.Errorf("text %d: %v", i, v)
		}
	}
	if n := batches.Load(); n != 6 { // 64, 64, 1, the long one, "" and z, zz
		t.Errorf("%d batches", n)
	}
	if got, err := m.Embed(t.Context(), nil); err != nil || len(got) != 0 || batches.Load() != 6 {
		t.Errorf("no texts: %v %v", got, err)
	}
}

// What may pass is tried again, and what will not is not. Errors say what to do, and never the key.
func TestFailures(t *testing.T) {
	for _, c := range []struct {
		status   int
		body     string
		tries    int64  // 0: until the patience is over
		want     string // of the error; empty: the second try succeeds
		answered bool   // the body is that of a status 200
	}{
		{429, `{}`, 2, "", false}, {500, `{}`, 2, "", false}, {502, ``, 2, "", false}, {503, `{}`, 2, "", false}, {504, ``, 2, "", false}, {408, ``, 2, "", false},
		{503, `{"error":"loading the model"}`, 0, "HTTP 503 (loading the model); fix: see the log", false},
		{429, `{"error":{"message":"quota"}}`, 0, "HTTP 429 (quota); fix: raise the limit", false},
		{401, `{"error":{"message":"Incorrect API key provided: ` + key + `"}}`, 1, "HTTP 401 (Incorrect API key provided: (hidden)); fix: check its key", false},
		{403, `not JSON`, 1, "HTTP 403; fix: check its key", false},
		{404, `{"error":{"message":"model \"m\" not found\u202e"}}`, 1, `HTTP 404 (model "m" not found\u202e); fix: check that the URL ends`, false},
		{400, `{"message":"too long"}`, 1, "HTTP 400 (too long); fix: check the name of the model", false},
		{302, ``, 1, "HTTP 302", false},
		{200, `<html>`, 1, "is not that of OpenAI's API", true},
		{200, `{"data":[]}`, 1, "answered 0 vectors for 1 texts", true},
		{200, `{"data":[{"index":1,"embedding":[1]}]}`, 1, "indexes are not those", true},
		{200, `{"data":[{"index":-1,"embedding":[1]}]}`, 1, "indexes are not those", true},
		{200, `{"data":[{"index":0,"embedding":[]}]}`, 1, "a vector of 0 numbers", true},
		{200, `{"data":[{"index":0,"embedding":[1,2,3]}]}`, 1, "a vector of 3 numbers where 2 are expected", true},
		{200, `{"data":[{"index":0,"embedding":[0,0]}]}`, 1, "without a direction", true},
		{200, `{"data":[{"index":0,"embedding":[1,"a"]}]}`, 1, "is not that of OpenAI's API", true},
		{200, strings.Repeat(" ", maxOverhead+2*maxNumber+1), 1, "too large", true},
	} {
		var tries atomic.Int64
		m := model(t, Options{Dimension: 2, Patience: 200 * time.Millisecond, URL: service(t, func(w http.ResponseWriter, n int64, q asked) {
			if tries.Store(n); c.want == "" && n == 2 {
				vectorsOf(w, q)
				return
			}
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})})
		_, err := m.Embed(t.Context(), []string{"x"})
		if (c.want == "") != (err == nil) || err != nil && (!strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key)) {
			t.Errorf("%d %.60s: %v", c.status, c.body, err)
		}
		if n := tries.Load(); c.tries > 0 && n != c.tries || c.tries == 0 && n < 2 {
			t.Errorf("%d %.60s: %d tries", c.status, c.body, n)
		}
	}
}

// A service that says when to be asked again is asked then; if that is too late, at once no more.
func TestRetryAfter(t *testing.T) {
	for after, c := range map[string]struct {
		tries int64
		least time.Duration
	}{"1": {2, time.Second}, "3600": {1, 0}, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): {1, 0}} {
		var tries atomic.Int64
		m := model(t, Options{Patience: 20 * time.Second, URL: service(t, func(w http.ResponseWriter, n int64, q asked) {
			if tries.Store(n); n == 2 {
				vectorsOf(w, q)
				return
			}
			w.Header().Set("Retry-After", after)
			w.WriteHeader(429)
		})})
		start := time.Now()
		_, err := m.Embed(t.Context(), []string{"x"})
		if took := time.Since(start); (err == nil) != (c.tries == 2) || tries.Load() != c.tries || took < c.least {
			t.Errorf("%s: %d tries in %v, %v", after, tries.Load(), took, err)
		}
	}
}

// A call ends with its context, whatever it waits for, and with its cause; an answer that does not come in time is asked for again.
func TestTimes(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	free := make(chan struct{})
	m := model(t, Options{Timeout: 50 * time.Millisecond, URL: service(t, func(w http.ResponseWriter, n int64, q asked) {
		switch n {
		case 1:
			<-free
		case 3:
			cancel(why)
			<-free
		}
		vectorsOf(w, q)
	})})
	if _, err := m.Embed(t.Context(), []string{"x"}); err != nil {
		t.Errorf("after a late answer: %v", err)
	}
	if _, err := m.Embed(ctx, []string{"x"}); !errors.Is(err, why) {
		t.Errorf("while it waits for the answer: %v", err)
	}
	for range atATime {
		m.asked <- struct{}{}
	}
	if _, err := m.Embed(ctx, []string{"x"}); !errors.Is(err, why) {
		t.Errorf("while it waits for its turn: %v", err)
	}
	close(free)
	gone := testkit.Listen(t)
	_ = gone.Close()
	m = model(t, Options{URL: "http://" + gone.Addr().String() + "/v1", Patience: 50 * time.Millisecond})
	if _, err := m.Embed(t.Context(), []string{"x"}); err == nil || !strings.Contains(err.Error(), "gives no answer") || !strings.Contains(err.Error(), "fix: check that it runs") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for want, opt := range map[string]Options{
		"the name of the model is missing":      {URL: "http://x/v1"},
		"want http://host":                      {URL: "ftp://x", Model: "m"},
		"credentials in the URL":                {URL: "http://u:hunter2@x/v1", Model: "m"},
		"is no dimension":                       {URL: "http://x/v1", Model: "m", Dimension: embedding.MaxDimension + 1},
		"embedding: -1 is no dimension of vect": {URL: "http://x/v1", Model: "m", Dimension: -1},
	} {
		if _, err := New(opt); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for at, want := range map[string]string{"http://x/v1": "http://x/v1/embeddings", "http://x/v1/": "http://x/v1/embeddings", "https://x/v1?api-version=1&sig=secret": "https://x/v1/embeddings",
		"unix:/run/x.sock": "unix:/run/x.sock:/embeddings", "unix:/run/x.sock:/v1": "unix:/run/x.sock:/v1/embeddings"} {
		m, err := New(Options{URL: at, Model: "m"})
		if err != nil || m.Name() != "m@"+want {
			t.Errorf("%s: %v", at, err)
			continue
		}
		_ = m.Close()
	}
}

// The service may listen at a Unix socket, and a query of the URL is sent.
func TestPlaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan string, 2)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.RequestURI
		_, _ = w.Write([]byte(`{"data":[{"embedding":[3,4]}]}`))
	})
	unix, web := &http.Server{Handler: handler, ReadHeaderTimeout: testkit.Patient}, httptest.NewServer(handler)
	go func() { _ = unix.Serve(ln) }()
	t.Cleanup(func() { _ = unix.Close() })
	t.Cleanup(web.Close)
	for at, want := range map[string]string{"unix:" + path: "/embeddings", "unix:" + path + ":/v1": "/v1/embeddings", web.URL + "/v1/?a=b": "/v1/embeddings?a=b"} {
		m := model(t, Options{URL: at})
		if got, err := m.Embed(t.Context(), []string{"x"}); err != nil || len(got) != 1 || got[0][0] != .6 {
			t.Errorf("%s: %v, %v", at, got, err)
		}
		if got := testkit.Receive(t, "the request", asked); got != want {
			t.Errorf("%s: asked at %s", at, got)
		}
	}
}

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"data":[{"index":1,"embedding":[1,2]},{"index":0,"embedding":[1e300,2]}]}`, `{"data":[{},{}]}`, `[`, `{"data":[{"embedding":[1]},{"embedding":[1,1]}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, err := New(Options{URL: "http://x/v1", Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		vectors, err := m.read(body, 2)
		if err == nil && (len(vectors) != 2 || len(vectors[0]) == 0 || len(vectors[0]) != len(vectors[1])) {
			t.Errorf("%v", vectors)
		}
		_ = reason(body)
	})
}
