package openapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"dragoman/internal/testkit"
)

// The page loads nothing, and only the script that the policy names runs.
func TestPageIsClosed(t *testing.T) {
	kind, body := Page()
	if kind != "text/html; charset=utf-8" {
		t.Error(kind)
	}
	root, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	policy := CSP()
	count := map[string]int{}
	var walk func(n *html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			count[n.Data]++
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" || a.Key == "action" ||
					a.Key == "href" && a.Val != "data:," && a.Val != "openapi.json" {
					t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
				}
				if a.Key == "content" && strings.HasPrefix(a.Val, "default-src") && !strings.HasPrefix(policy, a.Val) {
					t.Errorf("the page's own policy is another: %s", a.Val)
				}
			}
			if n.Data == "script" || n.Data == "style" {
				sum := sha256.Sum256([]byte(n.FirstChild.Data))
				if !strings.Contains(policy, n.Data+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
					t.Errorf("the policy does not allow the page's %s", n.Data)
				}
			}
		}
		for kid := n.FirstChild; kid != nil; kid = kid.NextSibling {
			walk(kid)
		}
	}
	walk(root)
	if count["script"] != 1 || count["style"] != 1 || count["iframe"]+count["object"]+count["img"] > 0 {
		t.Error(count)
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
		t.Error(policy)
	}
	if found := regexp.MustCompile(`(?i:https?://|@import)|url\(`).FindString(script + style); found != "" {
		t.Errorf("the page names %s", found)
	}
}

// The script has no way to make markup or code of a string.
func TestScriptMakesNoMarkup(t *testing.T) {
	sinks := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(|setTimeout|srcdoc|DOMParser|createContextualFragment|setAttribute|setHTML|javascript:|\bimport\b`)
	if found := sinks.FindString(script); found != "" {
		t.Errorf("page.js uses %s", found)
	}
	for _, href := range regexp.MustCompile(`href: [^,}]*`).FindAllString(script, -1) {
		if href != `href: "openapi.json"` && href != `href: "#schema-" + encodeURIComponent(name)` {
			t.Errorf("a link to %s", href)
		}
	}
}

// The page asks for a key where one is needed, for a server where there are several, and for a part of many tools. The key is sent, and
// never copied.
func TestPageAsks(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: it runs the page's script")
	}
	doc, _, err := Build(Info{Title: "Title of the API"}, []Tool{{Name: "add"}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	testkit.PutFile(t, filepath.Join(dir, "page.js"), script)
	testkit.PutFile(t, filepath.Join(dir, "openapi.json"), string(doc))
	const other = "servers/t%22w%2Fo%20%3Cb%3E/docs" // the second server of page.mjs
	for scene, want := range map[string][]string{
		"/docs":             {"Title of the API", "curl -X POST 'http://127.0.0.1:1/tools/add' -H 'Accept: application/json'"},
		"/keys/docs":        {"before: API key or token", "This needs an API key or a token: a credential is needed", "Title of the API", `-H "Authorization: Bearer $KEY"`},
		"/several/docs":     {`servers: ["","one","t\"w/o <b>"] to http://127.0.0.1:1/several/` + other, "Several servers are behind this address"},
		"/servers/one/docs": {`servers: ["one*","t\"w/o <b>"] to http://127.0.0.1:1/` + other, "Title of the API", "'http://127.0.0.1:1/servers/one/tools/add'"},
		"/many/docs":        {"First tools false", "Next tools true", "1001 to 2000 of 2000", "Find tools", `parts: ["?offset=1000","?match=a%26b"]`, "none of 0"},
	} {
		out, err := exec.CommandContext(t.Context(), node, "testdata/page.mjs", dir, scene).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", scene, err, out)
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("%s: %q is not shown:\n%.3000s", scene, text, out)
			}
		}
	}
}

// The script shows hostile names and descriptions as text. The document tree of the test fails on everything that makes markup of
// strings.
func TestPageShowsHostileText(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: it runs the page's script")
	}
	evil := `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	doc, _, err := Build(Info{Title: evil, Version: evil, Description: evil}, []Tool{
		{Name: evil, Title: evil, Description: evil, InputSchema: []byte(`{"type":"object","properties":{"a":{"description":"<b>","default":"` + "</script>" + `"}},"required":["__proto__","a"]}`)},
		{Name: "javascript:alert(1)"}, {Name: "__proto__", InputSchema: []byte(`{"properties":{"__proto__":{"$ref":"#/$defs/__proto__"}},"$defs":{"__proto__":{"type":"string"}}}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"page.js": []byte(script), "openapi.json": doc} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.CommandContext(t.Context(), node, "testdata/page.mjs", dir).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{evil, "GET /tools 200", "POST /mcp/tools%2Flist 200", "HTTP+SSE of MCP", "POST /tools/javascript:alert%281%29"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not shown:\n%.3000s", want, out)
		}
	}
}
