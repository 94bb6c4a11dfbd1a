package metatools

import (
	"math"
	"strconv"

	"dragoman/proxy/wire"
)

// Tool is a tool as results of find_tools and describe_tools show it.
type Tool struct {
	Public   string
	Server   string
	Status   string // of the server (seed 004); empty: not known
	ReadOnly bool   // call_read_only_tool takes it
	Raw      []byte // its definition, whose name is Hit.Name
	Hit
}

// schemaBytes bounds the definitions of a result of find_tools that have schemas. Further ones are described by describe_tools.
const schemaBytes = 32 << 10

// Found is the result of a search.
type Found struct {
	Tools []Tool
	Note  string // what a caller should know
	// Servers and Categories are what could be asked for, when nothing was found.
	Servers, Categories []Group
}

// Result renders the structured result of find_tools.
func (f *Found) Result() []byte {
	b := []byte(`{"tools":[`)
	for i := range f.Tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.Tools[i].append(b, len(b) < schemaBytes)
	}
	b = append(b, ']')
	if f.Note != "" {
		b = wire.AppendText(append(b, `,"note":`...), f.Note)
	}
	b = appendGroups(b, "servers", f.Servers)
	b = appendGroups(b, "categories", f.Categories)
	return append(b, '}')
}

func appendGroups(b []byte, key string, all []Group) []byte {
	if all == nil {
		return b
	}
	b = append(append(append(b, `,"`...), key...), `":[`...)
	for i, g := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendText(append(b, `{"name":`...), g.Name)
		b = append(strconv.AppendInt(append(b, `,"tools":`...), int64(g.Tools), 10), '}')
	}
	return append(b, ']')
}

// append appends the tool as a JSON object: its own members of a definition, and what is known of it. Schemas may be left out.
func (t *Tool) append(b []byte, schemas bool) []byte {
	b = wire.AppendText(append(b, `{"name":`...), t.Public)
	b = wire.AppendText(append(b, `,"original_name":`...), t.Name)
	b = wire.AppendText(append(b, `,"source_server":{"name":`...), t.Server)
	if t.Status != "" {
		b = wire.AppendText(append(b, `,"status":`...), t.Status)
	}
	b = append(b, '}')
	for _, key := range [...]string{"title", "description", "inputSchema", "outputSchema", "annotations"} {
		at := wire.Get(t.Raw, wire.Whole(t.Raw), key)
		if fits := at.IsObject(t.Raw) || at.IsString(t.Raw) && (key == "title" || key == "description"); !fits {
			continue
		}
		if schema := key == "inputSchema" || key == "outputSchema"; schema && !schemas {
			continue
		}
		b = append(append(append(b, `,"`...), key...), `":`...)
		b = append(b, at.Of(t.Raw)...)
	}
	if len(t.Categories) > 0 {
		b = appendTexts(b, "categories", t.Categories)
	}
	if t.ReadOnly {
		b = append(b, `,"read_only":true`...)
	}
	if t.Score > 0 {
		b = strconv.AppendFloat(append(b, `,"score":`...), math.Round(t.Score*1e4)/1e4, 'g', -1, 64)
	}
	if len(t.Why) > 0 {
		b = appendTexts(b, "why", t.Why)
	}
	if !schemas {
		b = append(b, `,"schemas_left_out":true`...)
	}
	return append(b, '}')
}

func appendTexts(b []byte, key string, all []string) []byte {
	b = append(append(append(b, `,"`...), key...), `":[`...)
	for i, text := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendText(b, text)
	}
	return append(b, ']')
}

// Unknown is a name that no tool has.
type Unknown struct {
	Name    string
	Nearest []string // public names
}

// Described renders the structured result of describe_tools.
func Described(tools []Tool, unknown []Unknown) []byte {
	b := []byte(`{"tools":[`)
	for i := range tools {
		if i > 0 {
			b = append(b, ',')
		}
		b = tools[i].append(b, true)
	}
	b = append(b, ']')
	for i, u := range unknown {
		if i == 0 {
			b = append(b, `,"unknown":[`...)
		} else {
			b = append(b, ',')
		}
		b = wire.AppendText(append(b, `{"name":`...), u.Name)
		b = append(appendTexts(b, "nearest", u.Nearest), '}')
	}
	if len(unknown) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// Answer renders the result of a call of a meta-tool: structured, and the same as text for clients that do not read that (2025-06-18 tools,
// Structured Content).
func Answer(structured []byte) []byte {
	b := wire.AppendText([]byte(`{"content":[{"type":"text","text":`), string(structured))
	b = append(append(b, `}],"structuredContent":`...), structured...)
	return append(b, `,"isError":false,"resultType":"complete"}`...)
}

// Refusal renders the result of a call that is wrong in a way that a model can mend (SEP-1303).
func Refusal(text string) []byte {
	b := wire.AppendText([]byte(`{"content":[{"type":"text","text":`), text)
	return append(b, `}],"isError":true,"resultType":"complete"}`...)
}
