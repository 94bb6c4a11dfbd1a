package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/mcpcall"
	"dragoman/internal/testkit"
	"dragoman/proxy"
)

// described returns status, body and ETag of an answer.
func (r *rig) described(verb, path string, headers ...string) (status int, body, tag string) {
	r.t.Helper()
	res := r.send(verb, path, "", headers...)
	raw := readAll(r.t, res)
	return res.StatusCode, raw, res.Header.Get("ETag")
}

// A document is built once for a list of tools, however often the list is fetched, and again when the list changes. If-None-Match is
// answered with 304 (RFC 9110, 13.1.2).
func TestDocumentsAreKept(t *testing.T) {
	for _, path := range []string{"/openapi.json", "/tools"} {
		r := newRig(t, nil)
		all := map[*document]bool{}
		made := func() int {
			r.d.documents.mu.Lock()
			defer r.d.documents.mu.Unlock()
			for _, d := range r.d.documents.kept.Values() {
				all[d] = true
			}
			return len(all)
		}
		expect := func(verb string, status, builds int, headers ...string) (body, tag string) {
			t.Helper()
			got, body, tag := r.described(verb, path, headers...)
			if got != status || made() != builds || len(tag) < 10 || (body == "") != (status == 304 || verb == "HEAD") {
				t.Errorf("%s: %d, want %d; made %d times, want %d; tag %q; %d bytes", path, got, status, made(), builds, tag, len(body))
			}
			return body, tag
		}
		body, tag := expect("GET", 200, 1)
		expect("GET", 200, 1)
		expect("HEAD", 200, 1)
		r.advance(time.Hour) // the list is fetched again and is the same
		if again, same := expect("GET", 200, 1); again != body || same != tag {
			t.Error("it is another, though nothing has changed")
		}
		if n := len(r.s.all("tools/list")); n != 2 {
			t.Errorf("%d lists", n)
		}
		for _, has := range []string{tag, "W/" + tag, `"other", ` + tag, "*"} {
			expect("GET", 304, 1, "If-None-Match", has)
			expect("HEAD", 304, 1, "If-None-Match", has)
		}
		for _, has := range []string{`"other"`, strings.Trim(tag, `"`), ""} {
			expect("GET", 200, 1, "If-None-Match", has)
		}
		r.advance(time.Hour)
		r.s.result("tools/list", strings.Replace(demo, "Find all functions", "Find some", 1))
		if _, other := expect("GET", 200, 2, "If-None-Match", tag); other == tag {
			t.Error("another document has the same tag")
		}
		res := r.send("GET", path, "")
		if _ = readAll(t, res); res.Header.Get("Cache-Control") != "private, no-cache" {
			t.Error(res.Header)
		}
	}
}

// The documents are bounded by number and by bytes.
func TestDocumentsBounded(t *testing.T) {
	c, o := newDocuments(), origin(t)
	size := func() (n int) {
		for _, d := range c.kept.Values() {
			n += d.Bytes()
		}
		return n
	}
	of := func(name string, n, bytes int) {
		t.Helper()
		key := documentKey{selection: selection{name: name}, server: fmt.Sprint(n)}
		if _, err := c.of(o, key, func() (*document, error) { return &document{body: make([]byte, bytes)}, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 * maxDocuments {
		of("x", i, 1<<10)
	}
	if n := c.kept.Len(); n != maxDocuments || size() != n<<10 {
		t.Errorf("%d, %d bytes", n, size())
	}
	for i := range 4 {
		of("large", i, catalog.MaxBytes/2)
	}
	if size() > catalog.MaxBytes || c.kept.Len() != 2 {
		t.Errorf("%d, %d bytes", c.kept.Len(), size())
	}
	if _, err := c.of(o, documentKey{}, func() (*document, error) { return nil, proxy.Errf(proxy.Internal, "no") }); err == nil || c.kept.Contains(documentKey{}) {
		t.Error("a failure is kept")
	}
}

// origin is a caller that does not leave.
func origin(t *testing.T) *mcpcall.Origin {
	return &mcpcall.Origin{Client: &mcpcall.Client{Cap: testkit.Patient}, Life: t.Context(), End: time.Now().Add(testkit.Patient)}
}

// While a document is built, those that are ready are served, another waits, and who leaves or is late does not wait.
func TestDocumentsDoNotBlock(t *testing.T) {
	c, o := newDocuments(), origin(t)
	ready, slow, other := documentKey{server: "ready"}, documentKey{server: "slow"}, documentKey{server: "other"}
	fail := func() (*document, error) { t.Error("it is built"); return nil, nil }
	if _, err := c.of(o, ready, func() (*document, error) { return &document{}, nil }); err != nil {
		t.Fatal(err)
	}
	began, release := make(chan struct{}), make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		_, _ = c.of(o, slow, func() (*document, error) { close(began); <-release; return &document{}, nil })
	})
	<-began
	if _, err := c.of(o, ready, fail); err != nil {
		t.Error(err)
	}
	gone := *o
	life, leave := context.WithCancelCause(t.Context())
	leave(proxy.ErrCancelled)
	gone.Life = life
	if _, err := c.of(&gone, other, fail); !errors.Is(err, proxy.ErrCancelled) {
		t.Error(err)
	}
	late := *o
	late.End = time.Now()
	if _, err := c.of(&late, other, fail); !proxy.IsFault(err, proxy.UpstreamTimeout) {
		t.Error(err)
	}
	for range 4 { // they share the build
		group.Go(func() {
			if _, err := c.of(o, slow, fail); err != nil {
				t.Error(err)
			}
		})
	}
	close(release)
	group.Wait()
	func() { // a build that panics ends for those that wait
		defer func() { _ = recover() }()
		_, _ = c.of(o, other, func() (*document, error) { panic("a test") })
	}()
	if _, err := c.of(o, other, func() (*document, error) { return &document{}, nil }); err != nil {
		t.Error(err)
	}
}

// The parts of a schema that are not checked, or not shown, are logged once for each list.
func TestNotes(t *testing.T) {
	r := newRig(t, func(o *Options) { o.CheckResults = true })
	const tools = `{"tools":[{"name":"odd","inputSchema":{"type":"object","properties":{"a":{"type":"string","pattern":"^(?!x)"},"b":{"type":"integer","default":"x"}}},` +
		`"outputSchema":{"type":"object","patternProperties":{"(?<=x)y":{"type":"integer"}}}},{"name":"plain"}]%s}`
	r.s.result("tools/list", fmt.Sprintf(tools, ""))
	r.s.result("tools/call", `{"content":[],"structuredContent":{}}`)
	all := func() {
		for range 3 {
			r.got("POST", "/tools/odd", `{"a":"x"}`)
			r.got("POST", "/tools/plain", `{}`)
			r.got("GET", "/openapi.json", "")
			r.advance(time.Minute)
		}
	}
	want := []string{
		`info the inputSchema of tool "odd" is not checked as a whole: #/properties/a: the pattern "^(?!x)" cannot be run`,
		`info the outputSchema of tool "odd" is not checked as a whole: the schema: the pattern "(?<=x)y" of properties`,
		`debug openapi.json does not show all of tool "odd": of its arguments default, which cannot be "x"`,
	}
	check := func(times int) {
		t.Helper()
		all()
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.logged) != times*len(want) {
			t.Errorf("%d were logged, want %d: %q", len(r.logged), times*len(want), r.logged)
		}
		for i, line := range r.logged {
			if !strings.HasPrefix(line, want[i%len(want)]) {
				t.Errorf("%s\nwant %s", line, want[i%len(want)])
			}
		}
	}
	check(1)
	r.s.result("tools/list", fmt.Sprintf(tools, `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"up","version":"2.0.0"}}`))
	check(2)
}
