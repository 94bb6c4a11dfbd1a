package legacy

import (
	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// listsChecks is about the lists of tools, prompts, resources and templates.
func listsChecks() []*suite.Check {
	const pagination = "server/utilities/pagination"
	return []*suite.Check{
		{
			ID: "legacy-lists.pages", Title: "Gives its lists whole, and nothing twice", Level: suite.Should, Faces: faces, Page: pagination + " §Pagination Model",
			Statement: "Following nextCursor leads through the whole list to a page without one; cursors are stable.",
			Why:       "Clients that read all pages never come to an end, or have a tool twice.",
			Fix:       "Leave nextCursor out of the last page, and let a cursor stand for a position that does not move.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, l := range checkutil.Lists {
					if declares(c, l.Capability) {
						pages(t, c, l)
					}
				}
			},
		},
		{
			ID: "legacy-lists.bad-cursor", Title: "Refuses a cursor that it never gave with -32602", Level: suite.Should, Faces: faces, Page: pagination + " §Error Handling",
			Statement: "Invalid cursors result in the error -32602.",
			Why:       "A client with a cursor of yesterday reads the first page again and again, or believes that there is nothing.",
			Fix:       "Answer -32602 to every cursor that you have not made, also where the list has one page only.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, l := range checkutil.Lists[:3] {
					if declares(c, l.Capability) {
						m := mustRequest(t, c, l.Method, `{"cursor":"dragoman-never-given"}`)
						checkutil.FailedWith(t, m, "the error -32602 to "+l.Method, -32602)
					}
				}
			},
		},
		{
			ID: "legacy-lists.tool-names", Title: "Gives each tool a name of its own", Level: suite.Should, Faces: faces, Needs: []suite.Need{suite.NeedsATool},
			Page:      "server/tools §Data Types",
			Statement: "The name of a tool identifies it: no two tools of a server have the same.",
			Why:       "Only one of them can be called; many models refuse such a list as a whole.",
			Fix:       "Refuse to register a second tool of a name.",
			Run: func(t *suite.Trial) {
				names := make(map[string]bool)
				for _, tool := range peer.List(mustResult(t, t.Open(nil), "tools/list", "", "a result"), "tools") {
					name := peer.Text(tool, "name")
					if names[name] {
						t.Fail("another name for each tool", "%q twice", name)
					}
					names[name] = true
				}
			},
		},
		{
			ID: "legacy-lists.changes-declared", Title: "Sends list_changed only if it has declared it", Level: suite.Must, Faces: faces,
			Page:      "basic/lifecycle §Operation; server/tools §Capabilities",
			Statement: "list_changed is sent by servers that have declared listChanged.",
			Why:       "Clients that went by the capabilities have no handler for it.",
			Fix:       "Declare listChanged for each list of whose changes you tell.",
			Run:       changesDeclared,
		},
		{
			ID: "legacy-lists.changes-told", Title: "Tells when a list has changed, if it has declared that", Level: suite.Should, Faces: faces,
			Page:      "server/tools §List Changed Notification",
			Statement: "When the list of tools changes, servers that have declared listChanged send a notification.",
			Why:       "Clients keep the list and never learn of the new tool.",
			Fix:       "Send notifications/tools/list_changed to every session when a tool is added or taken away, or do not declare listChanged.",
			Needs:     []suite.Need{suite.NeedsTool("test_trigger_tool_change")},
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if !declares(c, "tools", "listChanged") || t.Face == peer.LegacyHTTP && !c.Listens() {
					t.Skip("the server does not declare tools.listChanged, or opens no GET stream")
				}
				calls := changed(t, c)
				if len(checkutil.OfMethod(all(c, calls...), toolsChanged)) > 0 {
					return
				}
				if _, err := c.WaitOther(func(m peer.Message) bool { return m.Method == toolsChanged }); err != nil {
					t.Fail(toolsChanged, "%v", err)
				}
			},
		},
	}
}

const toolsChanged = "notifications/tools/list_changed"

// mostPages is the maximum number of pages of a list.
const mostPages = 1000

func pages(t *suite.Trial, c *peer.Conn, l checkutil.List) {
	items, cursors := make(map[string]bool), make(map[string]bool)
	params := ""
	for range mostPages {
		m := mustRequest(t, c, l.Method, params)
		if code, _, _ := m.Error(); m.Failed() {
			if code != -32601 || l.Member != "resourceTemplates" {
				t.Fail("a page of "+l.Method, "%s", checkutil.Failure(m))
			}
			return
		}
		for _, x := range peer.List(m.Result(), l.Member) {
			key := peer.Text(x, l.Key)
			if items[key] {
				t.Fail("each item of "+l.Method+" once", "%q twice", key)
			}
			items[key] = true
		}
		cursor, more := m.Result()["nextCursor"].(string)
		if !more {
			return
		}
		if cursors[cursor] {
			t.Fail("a last page of "+l.Method, "the cursor %q again", cursor)
			return
		}
		cursors[cursor] = true
		params = peer.Encode(peer.Object{"cursor": cursor})
	}
	t.Fail("a last page of "+l.Method, "%d pages", mostPages)
}

// changed changes all lists that the fixture can change, and back.
func changed(t *suite.Trial, c *peer.Conn) (calls []*peer.Call) {
	for _, tool := range []string{"test_trigger_tool_change", "test_trigger_prompt_change", "test_trigger_resource_change"} {
		for range 2 {
			if t.Offer.Tool(tool) != nil {
				call := mustStart(t, c, "tools/call", toolCall(tool, peer.Object{}, ""))
				_ = mustEnd(t, call)
				calls = append(calls, call)
			}
		}
	}
	return calls
}

func changesDeclared(t *suite.Trial) {
	c := t.Open(nil)
	calls := changed(t, c)
	waitSettled(t, c)
	for _, what := range []string{"tools", "prompts", "resources"} {
		if declares(c, what, "listChanged") {
			continue
		}
		for _, m := range checkutil.OfMethod(all(c, calls...), "notifications/"+what+"/list_changed") {
			t.Fail("none without the capability "+what+".listChanged", "%s", m.Raw)
		}
	}
}
