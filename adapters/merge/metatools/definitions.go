package metatools

import (
	"fmt"
	"strconv"
	"strings"

	"dragoman/proxy/wire"
)

// Group is a server, or a category, with the number of its tools that a caller may use.
type Group struct {
	Name  string
	Tools int
}

// Behind describes what is found with the tools: what one caller may use.
type Behind struct {
	Tools      int
	Servers    []Group // those with tools, by name
	Categories []Group // those with tools, by name
	Tasks      bool    // a tool may run as a task
	ReadOnly   bool    // there are tools that call_read_only_tool takes
}

// maxNamed bounds the servers, and the categories, that a description names. The rest is counted.
const maxNamed = 40

// Bounds of the arguments of find_tools and describe_tools.
const (
	DefaultLimit = 5
	MaxLimit     = 50
	MaxDescribed = 20
	MaxQuery     = 2000 // characters of a query that count
)

// Definitions returns the definitions of the tools, each a JSON object, for a caller. They are the same while what is behind them is.
//
// Descriptions name servers and categories, which operators have named, and nothing that servers say.
func Definitions(of *Behind) [][]byte {
	all := [][]byte{
		tool(Find, "Find tools", findText(of), findInput(len(of.Categories) > 0), findOutput, `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`, false),
		tool(Describe, "Describe tools", "Returns the full definitions, with input schemas, of tools that find_tools has returned.",
			describeInput, describeOutput, `{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}`, false),
		tool(Call, "Call a tool", "Calls a tool that find_tools has returned, by its name, with the arguments that its input schema describes. "+
			"The result is that of the tool. The tool may do anything, so treat a call as one that changes things.",
			callInput, "", `{"readOnlyHint":false,"destructiveHint":true,"idempotentHint":false,"openWorldHint":true}`, of.Tasks),
	}
	if of.ReadOnly {
		all = append(all, tool(CallReadOnly, "Call a read-only tool", "Calls a tool that find_tools has returned with \"read_only\": true. "+
			"It takes only tools that a trusted server declares to change nothing; call_tool takes the others.",
			callInput, "", `{"readOnlyHint":true,"destructiveHint":false,"openWorldHint":true}`, of.Tasks))
	}
	return all
}

// findText is the description of find_tools.
func findText(of *Behind) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Searches the %s of %s that can be called here, most of which are not listed. Use it first whenever a task needs a tool that you do not see: "+
		"say in plain words what is to be done, such as \"create an issue in a repository\". Call what it returns with call_tool, or by its name.",
		counted(of.Tools, "tool", "tools"), counted(len(of.Servers), "server", "servers"))
	groups(&b, " Servers: ", of.Servers)
	groups(&b, " Categories: ", of.Categories)
	return b.String()
}

// groups appends names with the number of their tools.
func groups(b *strings.Builder, head string, all []Group) {
	if len(all) == 0 {
		return
	}
	b.WriteString(head)
	for i, g := range all[:min(len(all), maxNamed)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(g.Name + " (" + strconv.Itoa(g.Tools) + ")")
	}
	if more := len(all) - maxNamed; more > 0 {
		fmt.Fprintf(b, " and %d more", more)
	}
	b.WriteString(".")
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// tool renders a definition. task means that a call may be a task (2025-11-25 tasks); clients of other revisions are not told.
func tool(name, title, text, input, output, annotations string, task bool) []byte {
	members := []wire.Change{
		{Key: "name", Value: wire.AppendText(nil, name)},
		{Key: "title", Value: wire.AppendText(nil, title)},
		{Key: "description", Value: wire.AppendText(nil, text)},
		{Key: "inputSchema", Value: []byte(input)},
	}
	if output != "" {
		members = append(members, wire.Change{Key: "outputSchema", Value: []byte(output)})
	}
	members = append(members, wire.Change{Key: "annotations", Value: []byte(annotations)})
	if task {
		members = append(members, wire.Change{Key: "execution", Value: []byte(`{"taskSupport":"optional"}`)})
	}
	return wire.Object(members)
}

// findInput returns the schema of the arguments of find_tools; categories says whether there are any.
func findInput(categories bool) string {
	if categories {
		return findHead + findCategory + findTail
	}
	return findHead + findTail
}

// The schemas (JSON Schema 2020-12).
const (
	findHead = `{"type":"object","properties":{` +
		`"query":{"type":"string","description":"what is to be done, in plain words"},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"default":5,"description":"the most tools to return"},` +
		`"server":{"type":"string","description":"only tools of this server"},`
	findCategory = `"category":{"type":"string","description":"only tools of this category"},`
	findTail     = `"read_only":{"type":"boolean","description":"only tools that declare to change nothing"}},` +
		`"required":["query"]}`
	describeInput = `{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20,"description":"names of tools, as find_tools returned them"}},"required":["names"]}`
	callInput     = `{"type":"object","properties":{"name":{"type":"string","description":"the name of the tool, as find_tools returned it"},` +
		`"arguments":{"type":"object","description":"what the tool takes, as its input schema says","additionalProperties":true}},"required":["name"]}`
	findOutput     = `{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}},"note":{"type":"string"}},"required":["tools"]}`
	describeOutput = `{"type":"object","properties":{"tools":{"type":"array","items":{"type":"object"}},"unknown":{"type":"array","items":{"type":"object"}}},"required":["tools"]}`
)
