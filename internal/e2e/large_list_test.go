package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// A server with very many tools: its description comes in parts of bounded size, the list is not fetched for each of them, and
// repeated requests cost no body.
func TestDescriptionOfManyTools(t *testing.T) {
	const n, page = 20_000, 1000
	for _, era := range demoEras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			u := newUpstream(t, era)
			u.on("tools/list", func(c *call) {
				from := 0
				_, _ = fmt.Sscanf(textAfter(c.body, `"cursor":"p`), "%d", &from)
				var b strings.Builder
				b.WriteString(`{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[`)
				for i := from; i < from+page; i++ {
					fmt.Fprintf(&b, `{"name":"tool%d","description":"Finds part %d","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},`, i, i)
				}
				list := strings.TrimSuffix(b.String(), ",") + "]"
				if from+page < n {
					list += fmt.Sprintf(`,"nextCursor":"p%d"`, from+page)
				}
				c.result(list + "}")
			})
			u.on("tools/call", func(c *call) { c.result(`{"resultType":"complete","content":[]}`) })
			r := startRig(t, "public_prefix = \"/gw\"\n"+u.toml(""), true)
			tools, parts := 0, 0
			for path := "/openapi.json"; path != ""; parts++ {
				res := r.must("GET", path, "")
				if res.status != 200 || len(res.body) > 5<<20 {
					t.Fatalf("%s: %d, %d bytes", path, res.status, len(res.body))
				}
				tools += strings.Count(res.body, `"/tools/tool`)
				if same := r.must("GET", path, "", "If-None-Match", res.header.Get("ETag")); same.status != 304 || same.body != "" {
					t.Errorf("%s: %d, %d bytes", path, same.status, len(same.body))
				}
				link, more := strings.CutPrefix(res.header.Get("Link"), "<")
				if head := r.must("HEAD", path, ""); head.status != 200 || head.header.Get("Link") != res.header.Get("Link") || head.header.Get("ETag") != res.header.Get("ETag") {
					t.Errorf("HEAD %s: %d %v", path, head.status, head.header)
				}
				if path = ""; more {
					ref, err := url.Parse(strings.TrimSuffix(link, `>; rel="next"`))
					if err != nil || ref.Path != "openapi.json" {
						t.Fatalf("Link: %s", link)
					}
					path = "/" + ref.String()
				}
			}
			if lists := len(u.all("tools/list")); tools != n || parts != n/page || lists > 10*n/page {
				t.Errorf("%d tools in %d parts of %d pages", tools, parts, lists)
			}
			if res := r.must("GET", "/servers/default/tools?match=PART+19999", ""); strings.Count(res.body, `"name"`) != 1 {
				t.Errorf("%d %.300s", res.status, res.body)
			}
			r.call(200, "tool19999", `{"n":1}`)
		})
	}
}
