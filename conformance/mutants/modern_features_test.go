package mutants

import (
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// paged splits each list of prompts into two pages and changes them by number (1 or 2).
func paged(name, caught string, change func(page int, r peer.Object, items []any)) mutant {
	return mutant{name: name, caught: caught, faces: modern,
		request: func(x *exchange) {
			if x.method == "prompts/list" {
				edit(x, func(_, params, _ peer.Object) { delete(params, "cursor") })
			}
		},
		message: results("prompts/list", func(x *exchange, r peer.Object) {
			items := peer.List(r, "prompts")
			half := len(items) / 2
			if peer.Text(x.asked.Object, "params", "cursor") == "" {
				r["prompts"], r["nextCursor"] = items[:half], "mutant"
				change(1, r, items)
				return
			}
			r["prompts"] = items[half:]
			change(2, r, items)
		})}
}

func modernListMutants() []mutant {
	cached := func(name, caught, method string, change func(r peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: results(method, func(_ *exchange, r peer.Object) { change(r) })}
	}
	discover := func(name, caught string, change func(r peer.Object)) mutant {
		return cached(name, caught, "server/discover", change)
	}
	return []mutant{
		discover("has no capabilities", "discover.answered", func(r peer.Object) { delete(r, "capabilities") }),
		discover("lists a revision that it does not serve", "discover.versions-served", func(r peer.Object) {
			r["supportedVersions"] = append(peer.List(r, "supportedVersions"), "2027-03-01")
		}),
		discover("hides that it has prompts", "discover.undeclared", func(r peer.Object) {
			capabilities, _ := r["capabilities"].(peer.Object)
			delete(capabilities, "prompts")
		}),
		{name: "declares prompts that it does not list", caught: "discover.declared", faces: modern, request: func(x *exchange) {
			if x.method == "prompts/list" {
				fails(x, 404, "-32601")
			}
		}},
		cached("leaves ttlMs out", "caching.hints", "prompts/list", func(r peer.Object) { delete(r, "ttlMs") }),
		cached("leaves cacheScope out of what is read", "caching.hints", "resources/read", func(r peer.Object) { delete(r, "cacheScope") }),
		cached("has a negative ttlMs", "caching.ttl", "server/discover", func(r peer.Object) { r["ttlMs"] = -1 }),
		cached("has a third scope", "caching.scope", "tools/list", func(r peer.Object) { r["cacheScope"] = "shared" }),
		paged("changes the scope on the second page", "caching.same-scope", func(page int, r peer.Object, _ []any) {
			r["cacheScope"] = map[int]string{1: "private", 2: "public"}[page]
		}),
		paged("gives an item on both pages", "pagination.whole", func(page int, r peer.Object, items []any) {
			if page == 2 {
				r["prompts"] = items[max(0, len(items)/2-1):]
			}
		}),
		{name: "takes any cursor", caught: "pagination.bad-cursor", faces: modern, request: func(x *exchange) {
			edit(x, func(_, params, _ peer.Object) { delete(params, "cursor") })
		}},
		{name: "lists as it comes", caught: "lists.order", faces: modern, message: results("tools/list", func(x *exchange, r peer.Object) {
			items := peer.List(r, "tools")
			n := x.state.count("lists") % len(items)
			r["tools"] = slices.Concat(items[n:], items[:n])
		})},
		{name: "lists more for some clients", caught: "lists.same-for-all", faces: modern, message: results("tools/list", func(x *exchange, r peer.Object) {
			if peer.Text(x.asked.Object, "params", "_meta", peer.MetaClient, "name") == "somebody-else" {
				r["tools"] = peer.List(r, "tools")[1:]
			}
		})},
	}
}

func modernFeatureMutants() []mutant {
	result := func(name, caught, tool string, change func(r peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: results("tools/call", func(x *exchange, r peer.Object) {
			if asksFor(x, tool) {
				change(r)
			}
		})}
	}
	listed := func(name, caught string, change func(tool peer.Object)) mutant {
		return mutant{name: name, caught: caught, faces: modern, message: results("tools/list", func(_ *exchange, r peer.Object) {
			if tool, ok := peer.List(r, "tools")[0].(peer.Object); ok {
				change(tool)
			}
		})}
	}
	const failed = `{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true}`
	return []mutant{
		{name: "answers an unknown tool with isError", caught: "tools.unknown", faces: modern, message: succeeds("tools/call", failed)},
		{name: "takes calls without a name", caught: "tools.malformed", faces: modern, message: succeeds("tools/call", failed)},
		listed("has a tool without inputSchema", "tools.schema", func(tool peer.Object) { tool["inputSchema"] = nil }),
		listed("has a tool with a blank in its name", "tools.names", func(tool peer.Object) { tool["name"] = "my tool" }),
		result("runs tools with any arguments", "tools.arguments", "json_schema_2020_12_tool", func(r peer.Object) { delete(r, "isError") }),
		{name: "answers a failed tool with an error", caught: "tools.error-result", faces: modern, request: func(x *exchange) {
			if asksFor(x, "test_error_handling") {
				fails(x, 200, "-32603")
			}
		}},
		result("leaves structured content out", "tools.structured", "add", func(r peer.Object) { delete(r, "structuredContent") }),
		result("gives data URLs", "tools.binary", "test_image_content", func(r peer.Object) {
			if block, ok := peer.List(r, "content")[0].(peer.Object); ok {
				block["data"] = "data:image/png;base64," + peer.Text(block, "data")
			}
		}),
		{name: "gives blobs as they are", caught: "tools.binary", faces: modern, message: results("resources/read", func(_ *exchange, r peer.Object) {
			if part, ok := peer.List(r, "contents")[0].(peer.Object); ok && part["blob"] != nil {
				part["blob"] = "\u0089PNG"
			}
		})},
		{name: "has empty contents for a missing resource", caught: "resources.not-found", faces: modern,
			message: succeeds("resources/read", `{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private"}`)},
		{name: "has another code for a missing resource", caught: "resources.not-found", faces: modern, message: failures("resources/read", func(_, e peer.Object) { e["code"] = -32002 })},
		{name: "does not say which resource is missing", caught: "resources.not-found-uri", faces: modern, message: failures("resources/read", func(_, e peer.Object) { delete(e, "data") })},
		{name: "has another code for an unknown prompt", caught: "prompts.unknown", faces: modern, message: failures("prompts/get", func(_, e peer.Object) { e["code"] = -32603 })},
		{name: "fills missing arguments with nothing", caught: "prompts.missing-argument", faces: modern, message: succeeds("prompts/get", `{"resultType":"complete","messages":[]}`)},
		{name: "completes with everything", caught: "completion.limit", faces: modern, message: results("completion/complete", func(_ *exchange, r peer.Object) {
			r["completion"] = peer.Object{"values": slices.Repeat([]string{"x"}, 101)}
		})},
		{name: "completes for what is not there", caught: "completion.unknown-ref", faces: modern, message: succeeds("completion/complete", `{"resultType":"complete","completion":{"values":[]}}`)},
	}
}

// modernParamMutants do not check Mcp-Param-*, or too strictly.
func modernParamMutants() []mutant {
	right := func(x *exchange) {
		if region, ok := argument(x, "region").(string); ok {
			x.Header.Set("Mcp-Param-Region", region)
		}
	}
	annotated := func(name string, change func(properties peer.Object)) mutant {
		return mutant{name: name, caught: "params.annotations", faces: modern, message: results("tools/list", func(_ *exchange, r peer.Object) {
			for _, tool := range peer.List(r, "tools") {
				if properties, ok := peer.Get(tool, "inputSchema", "properties").(peer.Object); ok && peer.Text(tool, "name") == "route" {
					change(properties)
				}
			}
		})}
	}
	refuses := func(name, caught string, when func(x *exchange, region string) bool) mutant {
		return mutant{name: name, caught: caught, request: func(x *exchange) {
			if when(x, x.Header.Get("Mcp-Param-Region")) {
				fails(x, 400, "-32020")
			}
		}}
	}
	header := func(property string, value any) func(properties peer.Object) {
		return func(properties peer.Object) {
			if p, ok := properties[property].(peer.Object); ok {
				p["x-mcp-header"] = value
			}
		}
	}
	return []mutant{
		{name: "needs no mirrored argument", caught: "params.missing", request: right},
		{name: "does not compare mirrored arguments", caught: "params.mismatch", request: right},
		{name: "lets a broken encoding of an argument pass", caught: "params.bad-base64", request: right},
		refuses("refuses mirrored arguments", "params.plain", func(_ *exchange, region string) bool { return region != "" }),
		refuses("compares mirrored arguments as they are encoded", "params.encoded", func(_ *exchange, region string) bool { return strings.HasPrefix(region, "=?base64?") }),
		refuses("compares numbers as texts", "params.number", func(x *exchange, _ string) bool { return x.Header.Get("Mcp-Param-Shard") == "42.0" }),
		refuses("expects headers for absent arguments", "params.absent", func(x *exchange, _ string) bool {
			return asksFor(x, "route") && x.Header.Get("Mcp-Param-Shard") == ""
		}),
		annotated("has a header name with a blank", header("region", "My Region")),
		annotated("has one header name twice", header("region", "shard")),
		annotated("mirrors what is no string, integer or boolean", func(properties peer.Object) {
			properties["more"] = peer.Object{"type": "number", "x-mcp-header": "More"}
		}),
		annotated("mirrors items of an array", func(properties peer.Object) {
			properties["more"] = peer.Object{"type": "array", "items": peer.Object{"type": "string", "x-mcp-header": "More"}}
		}),
	}
}
