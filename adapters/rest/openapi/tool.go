package openapi

import (
	"bytes"
	"cmp"
	"net/url"
	"strconv"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

// tool appends the path of a tool and the schemas that its operation needs.
func (b *builder) tool(paths, schemas []byte, t *Tool, names *namer, note func(what string)) (newPaths, newSchemas []byte) {
	stem := camel(t.Name)
	arguments := names.free(stem + "Arguments")
	schemas = b.embed(schemas, t.InputSchema, arguments, names, true, func(what string) { note("of its arguments " + what) })
	called := `{"$ref":"#/components/responses/ToolCalled"}`
	if _, err := object(t.OutputSchema); err == nil {
		output, result := names.free(stem+"Output"), names.free(stem+"Result")
		answer := names.free(stem + "Response")
		schemas = b.embed(schemas, t.OutputSchema, output, names, false, func(what string) { note("of its results " + what) })
		schemas = component(schemas, result, strings.Replace(b.result, `{"description":"The structured result."}`, ref(output), 1))
		schemas = component(schemas, answer, strings.Replace(b.response, ref("ToolResult"), ref(result), 1))
		called = strings.Replace(b.called, ref("CallToolResponse"), ref(answer), 1)
	}
	op := wire.AppendText([]byte(`{"operationId":`), names.free("call_"+snake(t.Name)))
	op = wire.AppendText(append(op, `,"summary":`...), cmp.Or(t.Title, "Call "+t.Name))
	op = wire.AppendText(append(op, `,"description":`...), cmp.Or(t.Description, "Tool "+t.Name))
	if raw, err := object(t.Annotations); err == nil {
		op = append(append(op, `,"x-mcp-annotations":`...), raw...)
	}
	members := strings.Replace(b.operation, ref("$arguments"), ref(arguments), 1)
	members = strings.Replace(members, `{"$ref":"#/components/responses/ToolCalled"}`, called, 1)
	op = append(append(append(op, ','), members...), '}')
	paths = wire.AppendText(append(paths, ','), "/tools/"+url.PathEscape(t.Name))
	paths = append(append(append(paths, `:{"post":`...), op...), '}')
	return paths, schemas
}

func ref(name string) string { return `{"$ref":"#/components/schemas/` + name + `"}` }

func component(dst []byte, name, schema string) []byte {
	return append(append(wire.AppendText(append(dst, ','), name), ':'), schema...)
}

// object checks that raw is a JSON object, and removes its white space.
func object(raw []byte) ([]byte, error) {
	all, err := wire.ScanValue(raw)
	if err != nil {
		return nil, err
	}
	if !all.IsObject(raw) {
		return nil, errNoObject
	}
	var out bytes.Buffer
	err = json.Compact(&out, all.Of(raw))
	return out.Bytes(), err
}

// namer keeps names different, also for generators that change their case or drop the separators of words.
type namer struct{ known map[string]bool }

func (n *namer) take(name string) bool {
	key := strings.ToLower(strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r == '.' {
			return -1
		}
		return r
	}, name))
	if n.known[key] {
		return false
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[key] = true
	return true
}

// free returns name, or name with a number if it is taken.
func (n *namer) free(name string) string {
	got := name
	for i := 2; !n.take(got); i++ {
		got = name + "_" + strconv.Itoa(i)
	}
	return got
}

// words splits a name at capitals and at everything but ASCII letters and digits.
func words(name string) []string {
	var out []string
	begin := true
	for i := range len(name) {
		c := name[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		switch {
		case !letter && (c < '0' || c > '9'):
			begin = true
			continue
		case begin || letter && c < 'a' && i > 0 && name[i-1] >= 'a' && name[i-1] <= 'z':
			out = append(out, "")
		}
		begin = false
		out[len(out)-1] += string(c)
	}
	return out
}

// nameLimit bounds a name made of a tool's: generated clients have files of that name.
const nameLimit = 64

// snake spells a name as generators expect an operationId.
func snake(name string) string {
	return cmp.Or(cut(strings.ToLower(strings.Join(words(name), "_"))), "tool")
}

// camel spells a name as generators expect that of a schema: it begins with a letter.
func camel(name string) string {
	var out strings.Builder
	for _, w := range words(name) {
		out.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	s := cut(out.String())
	if s == "" || s[0] <= '9' {
		return "Tool" + s
	}
	return s
}

func cut(s string) string { return s[:min(len(s), nameLimit)] }
