package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// namePatterns are the forms of names that people choose, by the table whose entries they name.
var namePatterns = map[string]string{
	upstreamsKey:                           upstreamName.String(),
	"security.api_keys":                    keyName.String(),
	upstreamsKey + ".NAME." + headersKey:   headerName.String(),
	upstreamsKey + ".NAME." + forwardKey:   headerName.String(),
	upstreamsKey + ".NAME." + scopesKey:    `^(tool|prompt|resource|method):[^*]*\*?$`,
	upstreamsKey + ".NAME." + toolsKey:     `^[^*]+\*?$|^\*$`,
	upstreamsKey + ".NAME." + promptsKey:   `^[^*]+\*?$|^\*$`,
	upstreamsKey + ".NAME." + resourcesKey: `^[^*]+\*?$|^\*$`,
	upstreamsKey + ".NAME." + accessKey:    `.`,
	upstreamsKey + ".NAME." + envKey:       variableName.String(),
	dependenciesKey:                        `.`,
}

const dependenciesKey = "dependencies"

// Schema is a JSON Schema of the file, for editors that complete and check as one writes. It knows tables, types and
// bounds of numbers; what concerns several keys, and the bounds of durations, `dragoman config check` knows.
func Schema() ([]byte, error) {
	keys, err := DescribeConfig()
	if err != nil {
		return nil, err
	}
	root := table("")
	root.Schema, root.Title = "http://json-schema.org/draft-07/schema#", "Configuration of Dragoman"
	for _, d := range keys {
		if d.kind == "table" {
			if at := root.at(d.Path()); at.Description == "" {
				at.Description = sentence(d.doc)
			}
			continue
		}
		root.put(d)
	}
	text, err := json.MarshalIndentWithOption(root, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		return nil, fmt.Errorf("config: schema: %w", err)
	}
	return append(text, '\n'), nil
}

// table is a schema for a table of known keys.
func table(doc string) *shape {
	return &shape{Description: doc, Type: jsonTypes{"object"}, Properties: map[string]*shape{}, Others: &others{}}
}

// put enters a key.
func (s *shape) put(d described) {
	at, own := s.at(d.table), d.shape
	own.Description, own.Default = d.describe(), json.RawMessage(d.std)
	if d.null {
		own = orNull(own)
	}
	if d.key == anyName {
		at.Others.of = &own
		return
	}
	at.Properties[d.key] = &own
}

// orNull lets a key be null, too.
func orNull(s shape) shape {
	either := orElse(s, shape{Type: jsonTypes{"null"}})
	either.Description, either.Default = s.Description, s.Default
	for i := range either.AnyOf {
		either.AnyOf[i].Description, either.AnyOf[i].Default = "", nil
	}
	return either
}

// at is the table of a path, made if it is not there.
func (s *shape) at(path []string) *shape {
	here := s
	for i, name := range path {
		if name == anyName {
			if here.Others.of == nil {
				here.Others.of = table(tableDocs[strings.Join(path[:i+1], ".")])
				here.Others.of.Others.any = path[0] == dependenciesKey // what else stands there is not ours
			}
			here = here.Others.of
			continue
		}
		next := here.Properties[name]
		if next == nil {
			whole := strings.Join(path[:i+1], ".")
			next = table(tableDocs[whole])
			if pattern := namePatterns[whole]; pattern != "" {
				next.Names = &shape{Pattern: pattern}
			}
			here.Properties[name] = next
		}
		here = next
	}
	return here
}

// describe is what an editor shows of a key.
func (d described) describe() string {
	text := sentence(d.doc)
	for _, more := range [][2]string{{"Allowed: %s.", d.bounds}, {"Only with %s.", d.needs}, {"Variable: %s.", strings.Join(slices.DeleteFunc([]string{d.env, d.mcp}, isEmpty), ", ")}, {"Flag: %s.", d.flag}} {
		if more[1] != "" {
			text += " " + fmt.Sprintf(more[0], more[1])
		}
	}
	if d.fixed {
		text += " A change needs a restart."
	}
	return text
}

func isEmpty(text string) bool { return text == "" }

// sentence begins with a capital and ends with a full stop.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if !strings.HasSuffix(text, ".") {
		text += "."
	}
	if first, _, _ := strings.Cut(text, " "); strings.ContainsAny(first, "._:/") && !strings.HasSuffix(first, ":") {
		return text // a key, or a name
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
