package suite

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"dragoman/conformance/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// small is a modern server with tools in pages of one.
func small(t *testing.T) *peer.Target {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor *string }
		}
		if r.Method != http.MethodPost || json.Unmarshal(raw, &m) != nil || m.Method == "initialize" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		result := `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"resources":{"subscribe":false}},"ttlMs":0,"cacheScope":"private",` +
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"small","version":"3"}}}`
		if m.Method == "tools/list" {
			result = `{"tools":[{"name":"one"}],"nextCursor":""}`
			if m.Params.Cursor != nil {
				result = `{"tools":[{"name":"two"}]}`
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
	}))
	t.Cleanup(srv.Close)
	h := peer.NewHTTP(srv.URL, nil, nil)
	t.Cleanup(h.Close)
	return &peer.Target{HTTP: h}
}

func TestDiscover(t *testing.T) {
	target := small(t)
	offers, tried := Discover(t.Context(), target, nil, nil)
	if len(offers) != 1 || len(tried) != 3 {
		t.Fatalf("%d offers, tried %q", len(offers), tried)
	}
	o := offers[0]
	if o.Face != peer.ModernHTTP || o.Revision != peer.R2607 || o.Server != "small 3" || len(o.Tools) != 2 || o.Tool("two") == nil || o.Fixture() {
		t.Errorf("%+v", o)
	}
	for need, met := range map[Need]bool{NeedsTools: true, NeedsATool: true, NeedsPrompts: false, NeedsSubscribe: false, NeedsTool("one"): true, NeedsTool("x"): false, "prompt:x": false,
		"resource:x": false, NeedsSession: false, NeedsAResource: false} {
		if o.meets(need) != met {
			t.Errorf("%s: %v", need, !met)
		}
		if why := o.missing([]Need{NeedsTools, need}); (why == "") != met {
			t.Errorf("%s: %q", need, why)
		}
	}
	if offers, tried := Discover(t.Context(), target, []peer.Face{peer.LegacyHTTP}, nil); len(offers) != 0 || len(tried) != 1 || !strings.HasPrefix(tried[0], "legacy-http: ") {
		t.Errorf("%v %v", offers, tried)
	}
	if offers, _ := Discover(t.Context(), target, nil, []string{peer.R2511}); len(offers) != 0 {
		t.Errorf("%v", offers)
	}
}

func TestOutcomes(t *testing.T) {
	target := small(t)
	offers, _ := Discover(t.Context(), target, []peer.Face{peer.ModernHTTP}, nil)
	ends := 0
	check := func(id string, level Level, run func(t *Trial)) *Check {
		return &Check{ID: id, Level: level, Faces: []peer.Face{peer.ModernHTTP}, Run: run}
	}
	fails := func(t *Trial) { t.Fail("a", "%d", 1); t.Fatal("b", "2"); t.Fail("c", "3") }
	all := []*Check{
		check("passes", Must, func(t *Trial) {
			t.Cleanup(func() { ends++ })
			if _, err := t.Open(nil).Request("tools/list", ""); err != nil {
				t.Fatal("an answer", "%v", err)
			}
		}),
		check("must", Must, fails), check("should", Should, fails), check("may", May, fails),
		check("skips", Must, func(t *Trial) { t.Skip("no %s", "x"); t.Fail("", "") }),
		check("breaks", Must, func(t *Trial) { t.Break("y") }),
		check("breaks after failing", Must, func(t *Trial) { t.Fail("a", "1"); t.Break("y") }),
		check("cannot be begun", Must, func(t *Trial) { t.Open(func(s *peer.Settings) { s.Face = peer.LegacyHTTP }) }),
		check("talks", Must, func(t *Trial) {
			for range 2 * maxEvidence {
				t.Watch('>', "x", strings.Repeat("long", maxText))
			}
			for range 2 * maxProblems {
				t.Fail("", "")
			}
		}),
		{ID: "needs", Level: Must, Faces: []peer.Face{peer.ModernHTTP}, Needs: []Need{NeedsPrompts}, Run: fails},
		{ID: "elsewhere", Level: Must, Faces: []peer.Face{peer.LegacyHTTP}, Run: fails},
		{ID: "another revision", Level: Must, Faces: []peer.Face{peer.ModernHTTP}, Revisions: []string{peer.R2511}, Run: fails},
	}
	want := []Outcome{Passed, Failed, Warned, Noted, Skipped, Broken, Failed, Broken, Failed, Skipped}
	var mu sync.Mutex
	steps, over := 0, map[*Finding]bool{}
	findings := Run(t.Context(), target, offers, Options{Checks: all, Progress: func(s Step) {
		mu.Lock()
		defer mu.Unlock()
		if steps++; s.Done != steps || s.Total != len(want) {
			t.Errorf("%d of %d, want %d of %d", s.Done, s.Total, steps, len(want))
		}
		if over[s.Ended] = true; over[s.Running] || s.Done == s.Total && s.Running != nil {
			t.Errorf("after %d: %s runs", s.Done, s.Running.Key())
		}
	}})
	running := (*Finding)(nil)
	last := make(chan struct{})
	Run(t.Context(), target, offers, Options{Jobs: 2, Checks: []*Check{
		{ID: "long", Level: Must, Faces: []peer.Face{peer.ModernHTTP}, Run: func(*Trial) { <-last }},
		{ID: "short", Level: Must, Faces: []peer.Face{peer.ModernHTTP}, Run: func(*Trial) {}},
	}, Progress: func(s Step) {
		if s.Done == 1 {
			running = s.Running
			close(last)
		}
	}})
	if running == nil || running.Check.ID != "long" {
		t.Errorf("beside the short one runs %v", running)
	}
	if len(findings) != len(want) || steps != len(want) || ends != 1 {
		t.Fatalf("%d findings, %d steps, %d ends", len(findings), steps, ends)
	}
	for i, f := range findings {
		if f.Outcome != want[i] || f.Key() != all[i].ID+"@modern-http@2026-07-28" {
			t.Errorf("%s: %s, want %s: %+v", f.Key(), f.Outcome, want[i], f)
		}
	}
	if f := findings[1]; len(f.Problems) != 2 || f.Problems[0] != (Problem{"a", "1"}) {
		t.Errorf("%+v", f.Problems)
	}
	if f := findings[0]; f.Evidence != nil {
		t.Error("evidence of what has passed")
	}
	if f := findings[8]; len(f.Evidence) != maxEvidence || len(f.Problems) != maxProblems || len(f.Evidence[0].Text) > maxText+64 {
		t.Errorf("%d lines, %d problems", len(f.Evidence), len(f.Problems))
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, f := range Run(ended, target, offers, Options{Checks: all[:2], Jobs: 1}) {
		if f.Outcome != Broken {
			t.Errorf("%s: %s after the end", f.Key(), f.Outcome)
		}
	}
}

// Each kind of deviation is one problem, in whichever trial and at whichever index of an array.
func TestShapeProblemsOnce(t *testing.T) {
	target := small(t)
	offers, _ := Discover(t.Context(), target, []peer.Face{peer.ModernHTTP}, nil)
	lists := &Check{ID: "x.lists", Level: Must, Faces: []peer.Face{peer.ModernHTTP}, Run: func(t *Trial) {
		c := t.Open(nil)
		for range 2 {
			_, _ = c.Request("tools/list", "")
		}
		_, _ = c.Request("server/discover", "")
	}}
	findings := Run(t.Context(), target, offers, Options{Checks: []*Check{Shapes(), lists, lists}, Shape: func(revision string, raw []byte, answers string) []ShapeProblem {
		if revision != peer.R2607 || answers == "server/discover" {
			return nil
		}
		return []ShapeProblem{{"/result/tools/0/inputSchema", "an object", "nothing"}, {"/result/tools/1/inputSchema", "an object", "nothing"}, {"/result/ttlMs", "a number", "nothing"}}
	}})
	if len(findings) != 3 {
		t.Fatal(len(findings))
	}
	f := findings[2]
	if f.Outcome != Failed || len(f.Problems) != 2 || f.Problems[0].Expected != "answer to tools/list, /result/tools/0/inputSchema: an object" || len(f.Evidence) != 2 {
		t.Errorf("%+v", f)
	}
}

// An error without the id of a request is valid in every revision; a result is not, and other deviations count.
func TestErrorsWithoutAnId(t *testing.T) {
	for _, revision := range []string{peer.R2411, peer.R2506, peer.R2511, peer.R2607} {
		for _, sound := range []string{`{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}`} {
			if p := ServerShape(revision, []byte(sound), ""); len(p) != 0 {
				t.Errorf("%s: %s: %+v", revision, sound, p)
			}
		}
		for _, bad := range []string{`{"jsonrpc":"2.0","result":{}}`, `{"jsonrpc":"2.0","error":{"code":"x","message":"m"}}`, `{"jsonrpc":"2.0","id":1.5,"error":{"code":1,"message":"m"}}`} {
			if p := ServerShape(revision, []byte(bad), ""); len(p) == 0 {
				t.Errorf("%s: nothing is wrong with %s", revision, bad)
			}
		}
	}
	if p := ClientShape(peer.R2607, []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), ""); len(p) == 0 {
		t.Error("nothing is wrong with a request without params")
	}
}

// A server of one old revision is found.
func TestDiscoverOldRevision(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(raw), `"initialize"`) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-03-26","capabilities":{},"serverInfo":{"name":"old","version":"1"}}}`)
	}))
	t.Cleanup(srv.Close)
	h := peer.NewHTTP(srv.URL, nil, nil)
	t.Cleanup(h.Close)
	offers, tried := Discover(t.Context(), &peer.Target{HTTP: h}, []peer.Face{peer.LegacyHTTP}, nil)
	if len(offers) != 1 || offers[0].Revision != peer.R2503 {
		t.Errorf("%v %v", offers, tried)
	}
}
