package skills

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// Bounds of a frontmatter. Those of the fields are the format's, in characters.
const (
	maxDescription   = 1024
	maxCompatibility = 500
	maxFrontmatter   = 64 << 10 // bytes; the fields of the format have some two kilobytes
	maxNesting       = 16
)

// Frontmatter is the YAML at the head of a SKILL.md.
type Frontmatter struct {
	Name          string
	Description   string
	License       string
	Compatibility string
	Metadata      map[string]string
	// JSON is all that the author has written, as a JSON object. Split sets it, and Append does not write it.
	JSON []byte
}

// errFrontmatter begins the errors of Split.
var errFrontmatter = errors.New("skills: SKILL.md has no valid frontmatter")

// Check returns an error that names the first field that the Agent Skills format refuses.
func (f *Frontmatter) Check() error {
	bad := func(field, why string) error {
		return fmt.Errorf("%w: %s %s; fix: see https://agentskills.io/specification", errFrontmatter, field, why)
	}
	switch {
	case !ValidName(f.Name):
		return bad("name", "must have 1 to 64 lower-case letters, digits and single hyphens")
	case f.Description == "" || utf8.RuneCountInString(f.Description) > maxDescription:
		return bad("description", "must have 1 to 1024 characters")
	case utf8.RuneCountInString(f.Compatibility) > maxCompatibility:
		return bad("compatibility", "must have at most 500 characters")
	}
	return nil
}

// Append appends the frontmatter with its delimiters. Values are double-quoted scalars, which read the same in YAML 1.1 and 1.2, and whose
// characters can all be seen.
func (f *Frontmatter) Append(dst []byte) []byte {
	dst = append(dst, "---\n"...)
	field := func(indent, name, value string) {
		if value == "" {
			return
		}
		dst = append(append(append(dst, indent...), name...), ": "...)
		dst = append(append(dst, seenJSON(wire.AppendText(nil, value))...), '\n')
	}
	if readAsText(f.Name) { // simple readers want it without quotes
		dst = append(append(append(dst, "name: "...), f.Name...), '\n')
	} else {
		field("", "name", f.Name)
	}
	field("", "description", f.Description)
	field("", "license", f.License)
	field("", "compatibility", f.Compatibility)
	if len(f.Metadata) > 0 {
		dst = append(dst, "metadata:\n"...)
		for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
			name := key
			if !ValidName(key) {
				name = string(seenJSON(wire.AppendText(nil, key)))
			}
			field("  ", name, f.Metadata[key])
		}
	}
	return append(dst, "---\n"...)
}

// readAsText reports whether YAML reads a name without quotes as text: not as a number, a truth value or nothing (YAML 1.1 and 1.2).
func readAsText(name string) bool {
	return name != "" && !(name[0] >= '0' && name[0] <= '9') && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, name)
}

// Split reads the frontmatter of a SKILL.md, and returns what follows it. The YAML is one mapping without anchors, aliases, tags and merge
// keys, so that it cannot grow; at most 64 KiB of it are read, nested 16 deep at most. It fails if a field is not as the format has it.
func Split(doc []byte) (f Frontmatter, body []byte, err error) {
	text, body, err := cut(doc)
	if err != nil {
		return f, nil, err
	}
	if f.JSON, err = yamlToJSON(text); err != nil {
		return f, nil, err
	}
	all := wire.Whole(f.JSON)
	get := func(field string) string { return string(wire.Get(f.JSON, all, field).Text(f.JSON)) }
	f.Name, f.Description, f.License, f.Compatibility = get("name"), get("description"), get("license"), get("compatibility")
	for key, value := range wire.Members(f.JSON, wire.Get(f.JSON, all, "metadata")) {
		if value.IsString(f.JSON) {
			if f.Metadata == nil {
				f.Metadata = map[string]string{}
			}
			f.Metadata[string(key.Text(f.JSON))] = string(value.Text(f.JSON))
		}
	}
	return f, body, f.Check()
}

// cut returns the YAML between the first line, which must be ---, and the next such line, and what follows.
func cut(doc []byte) (text, body []byte, err error) {
	first, rest, _ := bytes.Cut(doc, []byte("\n"))
	if string(bytes.TrimRight(first, " \t\r")) != "---" {
		return nil, nil, fmt.Errorf("%w: its first line is not ---; fix: begin it with ---, name, description and ---", errFrontmatter)
	}
	for at := 0; at <= len(rest); {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if string(bytes.TrimRight(line, " \t\r")) == "---" {
			end := min(at+len(line)+1, len(rest))
			return rest[:at], rest[end:], nil
		}
		if at += len(line) + 1; !more || at > maxFrontmatter {
			break
		}
	}
	return nil, nil, fmt.Errorf("%w: it has no second line --- in the first %d KiB", errFrontmatter, maxFrontmatter>>10)
}
