//go:build unix

package e2e

import (
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// Tools are sorted into the user's categories beside everything else. find_tools tells of them once they are known, and finds by them.
func TestCategories(t *testing.T) {
	t.Parallel()
	r := startRig(t, searching(t, "[categories.arithmetic]\nkeywords = [\"add\", \"sum\", \"numbers\"]\n[categories.echoing]\nkeywords = [\"echo\"]\n"), true)
	ask := func(tool, arguments string) string {
		return r.must("POST", "/mcp", modernAsk("tools/call", `"name":"`+tool+`","arguments":`+arguments), modernHeaders("tools/call", tool)...).body
	}
	testkit.Eventually(t, "categories in find_tools", func() bool {
		listed := r.must("POST", "/mcp", modernAsk("tools/list", ""), modernHeaders("tools/list", "")...).body
		return strings.Contains(listed, "Categories: arithmetic (3), echoing (3).")
	})
	found := ask("find_tools", `{"query":"echo add","category":"arithmetic"}`)
	mentions(t, found, "a.add", "b.add", "c.add", "arithmetic")
	if strings.Contains(found, "a.echo") {
		t.Errorf("a tool of another category: %s", found)
	}
	if got := ask("find_tools", `{"query":"add","category":"gardening"}`); !strings.Contains(got, "nothing is found with these filters") {
		t.Errorf("a category that there is not: %s", got)
	}
}
