package rest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/rest/catalog"
	"dragoman/adapters/rest/openapi"
	"dragoman/proxy"
)

// manyTools is a list of n tools in one page that is stale at once, as those of legacy servers are.
func manyTools(n int) string {
	var b strings.Builder
	b.WriteString(`{"ttlMs":0,"tools":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%05d","title":"Title %d","description":"Finds the entries of part %d of the catalogue","inputSchema":{"type":"object","properties":{`+
			`"query":{"type":"string","description":"What to look for"},"limit":{"type":"integer","minimum":1}},"required":["query"]},"outputSchema":{"type":"object"}}`, i, i, i)
	}
	b.WriteString("]}")
	return b.String()
}

// aPart is what the tests read of a document.
type aPart struct {
	Info struct {
		Description string
		Place       *struct {
			Offset, Count, Total int
			Next                 string
		} `json:"x-tools"`
	}
	Paths map[string]json.RawMessage
	Tools []struct{ Name string }
}

// part gets a part of a list, and the reference to the next one.
func (r *rig) part(path string) (p aPart, bytes int, next string) {
	r.t.Helper()
	res := r.send("GET", path, "")
	body := readAll(r.t, res)
	if err := json.Unmarshal([]byte(body), &p); err != nil || res.StatusCode != 200 || res.Header.Get("ETag") == "" {
		r.t.Fatalf("%s: %d %v %.300s", path, res.StatusCode, err, body)
	}
	if link := res.Header.Get("Link"); link != "" {
		ref, found := strings.CutSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		if !found {
			r.t.Fatalf("Link: %s", link)
		}
		base, _ := url.Parse(path)
		to, err := base.Parse(ref)
		if err != nil {
			r.t.Fatal(err)
		}
		next = to.String()
	}
	return p, len(body), next
}

// A description of many tools comes in parts of bounded size, each of which says where the next is. Together they have each tool
// once, and they are made of one list.
func TestDescriptionInParts(t *testing.T) {
	const n = 2*openapi.MaxTools + 10
	r := newRig(t, nil)
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		r.advance(time.Second) // so long it takes
		return replied(ex, manyTools(n)), nil
	})
	for _, at := range []string{"/openapi.json", "/servers/some/openapi.json"} {
		seen, parts := map[string]bool{}, 0
		for path := at; path != ""; parts++ {
			p, bytes, next := r.part(path)
			if bytes > 4<<20 {
				t.Errorf("%s: %d bytes", path, bytes)
			}
			count := 0
			for name := range p.Paths {
				if strings.HasPrefix(name, "/tools/") {
					count++
					if seen[name] {
						t.Errorf("%s is there twice", name)
					}
					seen[name] = true
				}
			}
			place := p.Info.Place
			if place == nil || place.Count != count || place.Offset != len(seen)-count || place.Total != n || (place.Next == "") != (next == "") || !strings.HasSuffix(next, place.Next) {
				t.Errorf("%s has %d tools, next %q, and says %+v", path, count, next, place)
			}
			if says := fmt.Sprintf("tools %d to %d of the %d tools", len(seen)-count+1, len(seen), n); !strings.Contains(p.Info.Description, says) {
				t.Errorf("%s: %s", path, p.Info.Description)
			}
			if next != "" && !strings.HasPrefix(next, at+"?") {
				t.Errorf("from %s to %s", path, next)
			}
			path = next
		}
		if len(seen) != n || parts != 3 {
			t.Errorf("%s: %d tools in %d parts", at, len(seen), parts)
		}
	}
	if lists := len(r.s.all("tools/list")); lists != 2 { // one for each name of the server
		t.Errorf("%d lists", lists)
	}
}

// GET /tools has all tools, or a part of them if the request asks for one.
func TestToolsInParts(t *testing.T) {
	const n = openapi.MaxTools + 5
	r := newRig(t, nil)
	r.s.result("tools/list", manyTools(n))
	if p, _, next := r.part("/tools"); len(p.Tools) != n || next != "" {
		t.Errorf("%d tools, next %q", len(p.Tools), next)
	}
	for path, want := range map[string]struct {
		first string
		count int
		next  string
	}{
		"/tools?offset=0":             {"tool_00000", openapi.MaxTools, "/tools?offset=1000"},
		"/tools?offset=5":             {"tool_00005", openapi.MaxTools, ""},
		"/tools?offset=1000":          {"tool_01000", 5, ""},
		"/tools?offset=1005":          {"", 0, ""},
		"/tools?offset=2147483647":    {"", 0, ""},
		"/tools?match=TOOL_0100":      {"tool_01000", 5, ""},
		"/tools?match=title+99":       {"tool_00099", 11, ""},
		"/tools?match=Part+7+OF":      {"tool_00007", 1, ""},
		"/tools?match=nothing":        {"", 0, ""},
		"/tools?match=":               {"tool_00000", openapi.MaxTools, "/tools?offset=1000"},
		"/tools?match=%6Fl_&offset=1": {"tool_00001", openapi.MaxTools, "/tools?offset=1001&match=ol_"},
		"/tools?other=1":              {"tool_00000", n, ""},
		"/servers/x/tools?offset=0":   {"tool_00000", openapi.MaxTools, "/servers/x/tools?offset=1000"},
	} {
		p, _, next := r.part(path)
		first := ""
		if len(p.Tools) > 0 {
			first = p.Tools[0].Name
		}
		if first != want.first || len(p.Tools) != want.count || next != want.next {
			t.Errorf("%s: %d tools, the first %q, next %q; want %+v", path, len(p.Tools), first, next, want)
		}
	}
	if p, _, _ := r.part("/openapi.json?match=title+99"); p.Info.Place == nil || p.Info.Place.Total != 11 || !strings.Contains(p.Info.Description, "1 to 11 of the 11 tools that match") {
		t.Errorf("%+v", p.Info)
	}
	if p, _, _ := r.part("/openapi.json?offset=5000"); p.Info.Place == nil || p.Info.Place.Count != 0 || !strings.Contains(p.Info.Description, "none of the 1005 tools") {
		t.Errorf("%+v", p.Info)
	}
}

// The document of a few tools says nothing of parts.
func TestWholeDescription(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"/openapi.json", "/openapi.json?offset=0", "/openapi.json?match="} {
		if p, _, next := r.part(path); p.Info.Place != nil || p.Info.Description != "" || next != "" {
			t.Errorf("%s: %+v, next %q", path, p.Info, next)
		}
	}
	if p, _, _ := r.part("/openapi.json?offset=1"); p.Info.Place == nil || p.Info.Place.Total != 2 || p.Info.Place.Count != 1 {
		t.Errorf("%+v", p.Info)
	}
}

// A selection that cannot be is refused.
func TestSelections(t *testing.T) {
	r := newRig(t, nil)
	for query, want := range map[string]string{
		"offset=":                                "offset must be an integer from 0 to 2147483647",
		"offset=-1":                              "offset must be",
		"offset=%2B1":                            "offset must be",
		"offset=1.0":                             "offset must be",
		"offset=2147483648":                      "offset must be",
		"offset=1&offset=2":                      "may be given once each",
		"match=a&match=a":                        "may be given once each",
		"match=" + strings.Repeat("%C3%A9", 257): "match must have at most 256 characters",
	} {
		for _, path := range []string{"/tools", "/openapi.json"} {
			if status, got := r.got("GET", path+"?"+query, ""); status != 400 || !strings.Contains(got, want) || !strings.Contains(got, "INVALID_ARGUMENTS") {
				t.Errorf("%s: %d %s", query, status, got)
			}
		}
	}
	if status, got := r.got("GET", "/tools?match="+strings.Repeat("%C3%A9", 256), ""); status != 200 {
		t.Errorf("%d %s", status, got)
	}
	if n := len(r.s.all("tools/list")); n != 1 {
		t.Errorf("%d lists", n)
	}
}

// Short tools without end are refused.
func TestTooManyTools(t *testing.T) {
	r := newRig(t, nil)
	r.http.Timeout = time.Minute // the answer takes several seconds under the race detector
	n := 0
	r.s.set("tools/list", func(ex *proxy.Exchange) (proxy.Replies, error) {
		var b strings.Builder
		b.WriteString(`{"tools":[{"name":"x"}`)
		for range 50_000 {
			n++
			fmt.Fprintf(&b, `,{"name":"%x"}`, n)
		}
		fmt.Fprintf(&b, `],"nextCursor":"%d"}`, n)
		return replied(ex, b.String()), nil
	})
	if status, got := r.got("GET", "/tools", ""); status != 500 || !strings.Contains(got, "more than 250000 tools") || n != 250_000 {
		t.Errorf("%d %.300s after %d", status, got, n)
	}
}

// An answer of all tools is at most as large as what is kept of them; a part of them is there all the same.
func TestToolsTooLarge(t *testing.T) {
	r := newRig(t, nil)
	wide := []byte(`{"a":"` + strings.Repeat("x", 64<<10) + `"}`)
	l := &catalog.List{Tools: make([]catalog.Tool, catalog.MaxBytes/len(wide)+1)}
	for i := range l.Tools {
		l.Tools[i].InputSchema = wide
	}
	if _, err := r.d.toolsResponse(l, selection{name: "tools"}); !proxy.IsFault(err, proxy.ResponseTooLarge) || !strings.Contains(err.Error(), "/tools?offset=0") {
		t.Error(err)
	}
	if d, err := r.d.toolsResponse(l, selection{name: "tools", some: true, offset: 100}); err != nil || d.Bytes() < len(wide)*(len(l.Tools)-100) {
		t.Error(err)
	}
}
