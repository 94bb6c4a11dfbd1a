// Package shape knows what the messages of the Model Context Protocol look like in each of its five revisions, and says what
// is wrong with one: where, what is expected, what came, and where it stands in the specification.
//
//	for _, p := range shape.Message("2025-11-25", shape.Server, raw, "tools/list") {
//		fmt.Println(p) // /result/tools/0: inputSchema is required: an object; got nothing (2025-11-25 server/tools §Tool)
//	}
//
// It decodes JSON and shares nothing with what translates messages, so that it can judge that. It judges one message at a
// time: what the specification says of several (ids, order, negotiated capabilities) is for others to see. The world is open:
// members that no definition has are fine, also those that another revision defines, and so are methods that no revision has.
//
// # The definitions
//
// They are in definitions/*.shape, all revisions in one place, so that it can be read what changed when:
//
//	§ server/tools §Tool
//	Tool = {
//	    name: string
//	    title?: string              @2025-06-18..
//	    inputSchema: ObjectSchema
//	    outputSchema?: ObjectSchema @2025-06-18..2025-11-25 | { $schema?: string } @2026-07-28..
//	    annotations?: ToolAnnotations
//	}
//	ToolAnnotations = { readOnlyHint?: boolean   title?: string } @2025-03-26..
//
//	request tools/list from client { params: PageParams   result: { ...Cacheable   ...Page   tools: Tool[] } }
//	notification notifications/progress from server, client @..2025-11-25 { params: { progress: number } }
//	error -32022 UnsupportedProtocolVersion @2026-07-28.. { data: { supported: string[]   requested: string } }
//
// What is written how:
//
//	Name = type                 a definition; the order of definitions does not matter
//	name: type   name?: type    a member that has to be there, one that may
//	*: type                     what all other members of an object are
//	...Name                     the members of another object
//	needs a or b                one of the members has to be there; of a message: "needs params"
//	keys format                 what the names of all members are like
//	"text"   A | B   ( A | B )  this string, one or the other
//	T[]   T[..100]              an array, one of at most 100
//	number(0..1)  integer(0..)  within limits
//	any never null boolean number integer string object
//	uri file-uri uri-template base64 timestamp traceparent meta-key   strings of a form (format.go)
//	@2025-06-18..   @..2025-11-25   @2025-11-25             since, until, only in: of the alternative, or the definition, before it
//	§ page §Section             where it stands: alone on a line of what follows, behind a member of that member
//	# comment
//
// A name that is not defined for a revision is not there in that revision, with whatever refers to it: ToolAnnotations needs
// its range once. A member that is different in two revisions is written twice, or has alternatives with ranges. The params of
// a message may be left out if nothing in them has to be there. withdrawn and reserved are error codes, or ranges of them,
// that servers must not send (unless "error" defines them).
//
// # How they are tested
//
// testdata/cases.txt has messages, good and bad, at the edges of the revisions. Where the official JSON schemas are at hand
// (in the folder that the environment variable MCP_SPEC names), the verdicts on nearly forty thousand messages, made from the
// definitions and then broken, are compared with theirs; excuses_test.go has each kind of difference with its reason, and
// "-rounds 2" also shows that changed definitions are noticed.
package shape
