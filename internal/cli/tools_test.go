package cli

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// startTools serves two servers of the configuration, whose tools are sorted into two categories.
func startTools(t *testing.T) *served {
	t.Helper()
	s := serveAggregator(t, fmt.Sprintf("[context]\nmode = \"search\"\n[categories.green]\ndescription = \"Lawns\"\nkeywords = [\"lawn\"]\n[categories.hedges]\nkeywords = [\"hedge\"]\n"+
		"[upstreams.one]\nurl = %q\n[upstreams.two]\nurl = %q\n", toolsServer(t, "mow_lawn"), toolsServer(t, "cut_hedge", "sing")))
	s.command = "tools"
	return s
}

// A user finds tools, and sees what the lists of tools spare clients.
func TestToolsAreFound(t *testing.T) {
	s := startTools(t)
	testkit.Eventually(t, "the tools are found", func() bool {
		_, hedge, _ := s.run("search", "cut", "a", "hedge")
		_, lawn, _ := s.run("search", "lawn")
		return strings.Contains(hedge, "two.cut_hedge  CONNECTED") && strings.Contains(lawn, "one.mow_lawn  CONNECTED")
	})
	s.want(ExitOK, "TOOL", "search", "mow the lawn")
	if out := s.want(ExitOK, "one.mow_lawn", "search", "mow the lawn", "--server", "one"); strings.Contains(out, "two.") || strings.Contains(out, "\x1b") || strings.Contains(out, "More") {
		t.Errorf("%q", out)
	}
	testkit.Eventually(t, "the tools have categories", func() bool {
		_, out, _ := s.run("search", "tool", "--category", "hedges")
		return strings.Contains(out, "two.cut_hedge") && !strings.Contains(out, "one.")
	})
	s.want(ExitOK, "no tool is near this", "search", "lawn", "--server", "three")
	s.want(ExitOK, `"original_name": "mow_lawn"`, "search", "lawn", "--json", "--limit", "1")
	s.want(ExitUsage, "is missing", "search", " ")
	s.want(ExitUsage, "--limit: 101", "search", "x", "--limit", "101")
	s.want(ExitOK, "/mcp  all others  search  3", "stats")
	s.want(ExitOK, `"spared_tokens_estimate"`, "stats", "--json")
	s.want(ExitUsage, "unknown command", "stats", "x")
}

// A user lists and changes categories, says which ones a tool has, and has tools classified again.
func TestCategories(t *testing.T) {
	s := startTools(t)
	shows := func(parts ...string) {
		t.Helper()
		testkit.Eventually(t, strings.Join(parts, " and "), func() bool {
			_, out, _ := s.run("categories")
			for _, part := range parts {
				if !strings.Contains(out, part) {
					return false
				}
			}
			return !strings.Contains(out, "\x1b")
		})
	}
	shows("CATEGORY  TOOLS  FIRST  SOURCE         DESCRIPTION", "green     1      1      configuration  Lawns", "hedges    1      1      configuration")
	s.want(ExitOK, `"keywords": [`, "categories", "--json")
	s.want(ExitOK, "set music; tools are classified again", "categories", "set", "music", "--description", "Songs\x1b", "--keyword", "sing", "--keyword", "high, low")
	shows("music     1      1      changed        Songs\\u001b")
	s.want(ExitOK, `"high, low"`, "categories", "--json")
	s.want(ExitOK, "one.mow_lawn: music, green", "classify", "one.mow_lawn", "music", "green")
	s.want(ExitOK, "cut_hedge: music", "classify", "--server", "two", "cut_hedge", "music")
	shows("music     3      3 ", "green     1      0 ", "hedges    0      0 ")
	s.want(ExitOK, "1 tool will be classified again", "reclassify")
	s.want(ExitOK, "0 tools will be classified again", "reclassify", "--server", "one")
	s.want(ExitOK, "1 tool will be classified again", "reclassify", "two.sing")
	s.want(ExitOK, "one.mow_lawn is classified again", "classify", "one.mow_lawn")
	shows("green     1      1 ")
	s.want(ExitOK, "removed music", "categories", "remove", "music")
	s.want(ExitOK, "removed green", "categories", "remove", "green")
	s.want(ExitOK, "reset green", "categories", "reset", "green")
	s.want(ExitOK, "cut_hedge is classified again", "classify", "--server", "two", "cut_hedge")
	shows("green     1      1      configuration", "hedges    1      1 ")

	s.command = "servers"
	if out := s.want(ExitOK, "two.cut_hedge  two     yes      hedges", "tools", "--category", "hedges"); strings.Contains(out, "mow") {
		t.Errorf("%s", out)
	}
	if out := s.want(ExitOK, "two.sing       two     yes      -", "tools", "two"); !strings.Contains(out, "CATEGORIES") {
		t.Errorf("%s", out)
	}
	s.command = "tools"

	s.want(ExitFailed, "Category not found: music", "categories", "remove", "music")
	s.want(ExitFailed, "Category not found: music", "classify", "two.sing", "music")
	s.want(ExitUsage, `there is no tool "sing"; fix:`, "classify", "sing", "green")
	s.want(ExitUsage, "is no name of a category", "categories", "remove", "../servers/one")
	s.want(ExitUsage, "the NAME of a category is missing", "categories", "reset")
	s.want(ExitUsage, `unexpected argument "b"`, "categories", "remove", "a", "b")
	s.want(ExitUsage, "would say nothing", "categories", "set", "music")
	s.want(ExitUsage, "the TOOL is missing", "classify")
	s.want(ExitUsage, "at most 3 categories", "classify", "a", "b", "c", "d", "e")
	s.want(ExitUsage, `unexpected argument "b"`, "reclassify", "a", "b")
}

// Where nothing sorts tools into categories a user is told what that needs.
func TestNoCategories(t *testing.T) {
	s := serveAggregator(t, "[classification]\nmode = \"off\"\n")
	s.command = "tools"
	s.want(ExitOK, "there are no categories: that needs several servers", "categories")
	s.want(ExitFailed, "classification.mode", "reclassify")
}
