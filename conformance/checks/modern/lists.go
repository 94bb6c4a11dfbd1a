package modern

import (
	"slices"
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// discovered returns the result of server/discover.
func discovered(t *suite.Trial, c *peer.Conn) peer.Object {
	_, m := mustRequest(t, c, "server/discover", nil)
	if m.Result() == nil {
		t.Fatal("a result of server/discover", "%s", m.Raw)
	}
	return m.Result()
}

func discoverChecks() []*suite.Check {
	return []*suite.Check{
		{
			ID: "discover.answered", Title: "Implements server/discover", Level: suite.Must, Faces: faces, Page: "server/discover",
			Statement: "Servers must implement server/discover; its result has supportedVersions and capabilities.",
			Why:       "Clients that speak several revisions ask it first, and take a server without it for one of an earlier era.",
			Fix:       "Answer server/discover with supportedVersions, capabilities, ttlMs and cacheScope. It takes no parameters but _meta and needs no earlier request.",
			Run: func(t *suite.Trial) {
				d := discovered(t, t.Open(nil))
				if !slices.Contains(peer.List(d, "supportedVersions"), any(peer.R2607)) {
					t.Fail("supportedVersions with "+peer.R2607, "%s", checkutil.Excerpt(d["supportedVersions"]))
				}
				if _, ok := d["capabilities"].(peer.Object); !ok {
					t.Fail("an object capabilities", "%s", checkutil.Excerpt(d["capabilities"]))
				}
			},
		},
		{
			ID: "discover.versions-served", Title: "Serves the revisions that it lists", Level: suite.Must, Faces: faces, Page: "server/discover §DiscoverResult",
			Statement: "supportedVersions are those that the server supports; a client chooses one of them for its next requests.",
			Why:       "A client that chooses a version by the list is refused, and has no other way to find one.",
			Fix:       "Make the list from the table by which requests are accepted. Leave out versions that you only plan.",
			Run: func(t *suite.Trial) {
				k := newRawClient(t)
				first := k.request(`"d"`, "server/discover", nil, nil)
				if first.message == nil {
					t.Break("no answer to server/discover")
				}
				for _, v := range peer.List(first.message.Result(), "supportedVersions") {
					version, _ := v.(string)
					if version < peer.R2607 {
						continue // a legacy revision
					}
					r := k.request(`"`+version+`"`, "server/discover", nil, func(meta peer.Object) { meta[peer.MetaVersion] = version }, peer.Field{Name: "MCP-Protocol-Version", Value: version})
					k.accept(r, "a result for the supported version "+version)
				}
			},
		},
		{
			ID: "discover.declared", Title: "Serves the capabilities that it declares", Level: suite.Must, Faces: faces, Page: "server/tools §Capabilities",
			Statement: "A server that declares tools, prompts or resources must answer their list; completions that it declares must be answered.",
			Why:       "Clients show what is declared; what is behind it fails.",
			Fix:       "Declare only capabilities whose methods are implemented. A list may be empty, but has to be answered.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				capabilities := discovered(t, c)["capabilities"]
				for _, x := range checkutil.Lists[:3] {
					if peer.Get(capabilities, x.Capability) == nil {
						continue
					}
					if _, m := mustRequest(t, c, x.Method, nil); m.Failed() || peer.List(m.Result(), x.Member) == nil {
						t.Fail("a result of "+x.Method, "%s", m.Raw)
					}
				}
				if peer.Get(capabilities, "completions") == nil {
					return
				}
				_, m := mustRequest(t, c, "completion/complete", peer.Object{"ref": peer.Object{"type": "ref/prompt", "name": "none"}, "argument": peer.Object{"name": "a", "value": ""}})
				if code, message, _ := m.Error(); code == checkutil.MethodNotFound {
					t.Fail("completion/complete is there", "the error %d: %s", code, message)
				}
			},
		},
		{
			ID: "discover.undeclared", Title: "Declares the capabilities that it serves", Level: suite.Must, Faces: faces, Page: "server/tools §Capabilities",
			Statement: "Servers that support tools, prompts, resources or completions must declare them; methods of undeclared ones are not found (-32601).",
			Why:       "Clients do not ask for what is not declared: it is as if it were not there.",
			Fix:       "Declare each capability whose methods are implemented in the result of server/discover. Answer methods of the others with -32601.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				capabilities := discovered(t, c)["capabilities"]
				for _, x := range checkutil.Lists[:3] {
					if peer.Get(capabilities, x.Capability) != nil {
						continue
					}
					_, m := mustRequest(t, c, x.Method, nil)
					if code, _, _ := m.Error(); code != checkutil.MethodNotFound {
						t.Fail("the error -32601 for "+x.Method+", as "+x.Capability+" is not declared", "%s", m.Raw)
					}
				}
			},
		},
	}
}

func cachingChecks() []*suite.Check {
	const page = "server/utilities/caching §"
	check := func(id, title, section, statement, why, fix, expected string, wrong func(result peer.Object) bool) *suite.Check {
		return &suite.Check{ID: id, Title: title, Level: suite.Must, Faces: faces, Page: page + section, Statement: statement, Why: why, Fix: fix,
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, x := range plainRequests(t) {
					if x.method == "tools/call" || x.method == "prompts/get" {
						continue
					}
					_, m := mustRequest(t, c, x.method, x.params)
					if r := m.Result(); r != nil && r["resultType"] != "input_required" && wrong(r) {
						t.Fail(expected, "ttlMs %s, cacheScope %s in the result of %s", checkutil.Excerpt(r["ttlMs"]), checkutil.Excerpt(r["cacheScope"]), x.method)
					}
				}
			}}
	}
	return []*suite.Check{
		check("caching.hints", "Gives results their lifetime and cache scope", "Cacheable Results",
			"Complete results of server/discover, the lists and resources/read must carry ttlMs and cacheScope.",
			"Strict clients refuse the result, others keep nothing and ask again each time.",
			"Set ttlMs and cacheScope on these six results; {\"ttlMs\": 0, \"cacheScope\": \"private\"} is always safe. Do it where results are written, not in each handler.",
			"ttlMs and cacheScope", func(r peer.Object) bool { return r["ttlMs"] == nil || r["cacheScope"] == nil }),
		check("caching.ttl", "Gives a time to live that is a number of milliseconds", "Time-to-Live (TTL) Field",
			"ttlMs must be an integer of 0 or more.",
			"A negative or fractional time is taken for 0 by some and refused by others.",
			"Give ttlMs as a whole number of milliseconds, 0 for what must not be kept. Do not use -1 for \"for ever\".",
			"ttlMs is an integer of 0 or more", func(r peer.Object) bool {
				ttl := checkutil.Excerpt(r["ttlMs"])
				return r["ttlMs"] != nil && strings.Trim(ttl, "0123456789") != ""
			}),
		check("caching.scope", "Gives a scope that is public or private", "Cache Scope Field",
			"cacheScope is \"public\" or \"private\".",
			"A cache that does not know the word either shares what is private, or keeps nothing.",
			"Use \"private\" for everything that depends on the caller, and \"public\" only for what anybody may see. There is no third value.",
			"cacheScope is public or private", func(r peer.Object) bool {
				return r["cacheScope"] != nil && r["cacheScope"] != "public" && r["cacheScope"] != "private"
			}),
		{
			ID: "caching.same-scope", Title: "Gives all pages of a list the same scope", Level: suite.Must, Faces: faces, Page: page + "Interaction with Pagination",
			Statement: "All pages of a list must have the same cacheScope.",
			Why:       "A shared cache would serve part of a private list to others.",
			Fix:       "Choose the scope for the list, not for the page. If anything on any page is private, all pages are.",
			Run: func(t *suite.Trial) {
				eachList(t, t.Open(nil), func(l checkutil.List, pages []peer.Object) string {
					for _, p := range pages[1:] {
						if p["cacheScope"] != pages[0]["cacheScope"] {
							t.Fail("the same cacheScope on all pages of "+l.Method, "%s, then %s", checkutil.Excerpt(pages[0]["cacheScope"]), checkutil.Excerpt(p["cacheScope"]))
						}
					}
					return ""
				})
			},
		},
	}
}

// eachList reads all lists that the server declares and calls look with their pages. Lists may change while they are read, so a complaint
// counts only if look returns it three times.
func eachList(t *suite.Trial, c *peer.Conn, look func(l checkutil.List, pages []peer.Object) (complaint string)) {
	for _, x := range checkutil.Lists {
		if !t.Offer.Capability(x.Capability) {
			continue
		}
		for try := 1; ; try++ {
			found := pagesOf(t, c, x.Method)
			if len(found) == 0 {
				break // the server has no such list
			}
			complaint := look(x, found)
			if complaint == "" {
				break
			}
			if try == 3 {
				t.Fail(complaint, "%s", checkutil.Excerpt(names(x, found)))
				break
			}
		}
	}
}

// longestList is the maximum number of pages of a list that are read.
const longestList = 50

func pagesOf(t *suite.Trial, c *peer.Conn, method string) (pages []peer.Object) {
	params := peer.Object(nil)
	for len(pages) < longestList {
		_, m := mustRequest(t, c, method, params)
		if m.Failed() || m.Result() == nil {
			if len(pages) > 0 {
				t.Fail("the page of "+method+" to which nextCursor points", "%s", m.Raw)
			}
			return pages
		}
		pages = append(pages, m.Result())
		cursor, more := m.Result()["nextCursor"].(string)
		if !more {
			return pages
		}
		params = peer.Object{"cursor": cursor}
	}
	t.Fail("an end of "+method, "%d pages, and a nextCursor still", len(pages))
	return pages
}

// names returns the names or URIs of the items.
func names(l checkutil.List, pages []peer.Object) (out []string) {
	for _, p := range pages {
		for _, item := range peer.List(p, l.Member) {
			out = append(out, peer.Text(item, l.Key))
		}
	}
	return out
}

func pagesChecks() []*suite.Check {
	const page = "server/utilities/pagination §"
	return []*suite.Check{
		{
			ID: "pagination.whole", Title: "Gives each item once, page by page", Level: suite.Should, Faces: faces, Page: page + "Implementation Guidelines",
			Statement: "Cursors should be stable: following nextCursor gives the whole list, each item once, and comes to an end.",
			Why:       "Clients miss what is between two pages, or read for ever.",
			Fix:       "Let the cursor name the place after the last item that was given. Leave nextCursor out of the last page; null and \"\" are no end.",
			Run: func(t *suite.Trial) {
				eachList(t, t.Open(nil), func(l checkutil.List, pages []peer.Object) string {
					all := names(l, pages)
					slices.Sort(all)
					if len(slices.Compact(slices.Clone(all))) != len(all) {
						return "each item of " + l.Method + " once"
					}
					return ""
				})
			},
		},
		{
			ID: "pagination.bad-cursor", Title: "Refuses a cursor that it has not given", Level: suite.Should, Faces: faces, Page: page + "Error Handling",
			Statement: "Invalid cursors should result in -32602.",
			Why:       "A client with an old cursor reads the first page again and takes it for the next.",
			Fix:       "Check the cursor and answer -32602 if you cannot have given it. Do so also where the list has only one page.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				for _, x := range checkutil.Lists[:3] {
					if !t.Offer.Capability(x.Capability) {
						continue
					}
					_, m := mustRequest(t, c, x.Method, peer.Object{"cursor": "dragoman-conformance-no-such-cursor"})
					if code, _, _ := m.Error(); code != checkutil.InvalidParams {
						t.Fail("the error -32602 for an unknown cursor of "+x.Method, "%s", checkutil.Excerpt(m.Object))
					}
				}
			},
		},
		{
			ID: "lists.order", Title: "Lists in the same order each time", Level: suite.Should, Faces: faces, Page: "server/tools §Capabilities", Needs: []suite.Need{suite.NeedsTools},
			Statement: "Tools should be listed in a deterministic order.",
			Why:       "Models are given the list: each new order spoils the cache of their prompts.",
			Fix:       "Keep tools in the order in which they were registered, or sort them. Do not list the keys of a hash map.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				eachList(t, c, func(l checkutil.List, pages []peer.Object) string {
					before := names(l, pages)
					for range 4 {
						if now := names(l, pagesOf(t, c, l.Method)); !slices.Equal(now, before) {
							return "the same order of " + l.Method + " each time"
						}
					}
					return ""
				})
			},
		},
		{
			ID: "lists.same-for-all", Title: "Lists the same on every connection", Level: suite.Must, Faces: faces, Page: "server/tools §Capabilities",
			Statement: "Lists must not vary by connection or by earlier requests on it; only by authorization.",
			Why:       "Load balancers and pools send each request over another connection: tools would come and go.",
			Fix:       "Make lists from what the server has and from the credentials of the request, nothing else. What a client may do once goes into an explicit handle.",
			Run: func(t *suite.Trial) {
				one := t.Open(nil)
				other := t.Open(func(s *peer.Settings) { s.Client = peer.Object{"name": "somebody-else", "version": "2"} })
				if t.Offer.Tool("test_simple_text") != nil {
					mustCallTool(t, one, peer.Object{"name": "test_simple_text", "arguments": peer.Object{}})
				}
				eachList(t, one, func(l checkutil.List, pages []peer.Object) string {
					here, there := names(l, pages), names(l, pagesOf(t, other, l.Method))
					slices.Sort(here)
					slices.Sort(there)
					if !slices.Equal(here, there) {
						return "the same items of " + l.Method + " on every connection"
					}
					return ""
				})
			},
		},
	}
}
