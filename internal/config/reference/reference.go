// Package reference writes the reference and the JSON Schema of the configuration.
package reference

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"dragoman/internal/config"
)

// fixedMark marks the keys whose change needs a restart.
const fixedMark = "**restart**"

// referenceHead has ^ instead of backquotes, which would end the string.
const referenceHead = `# Configuration reference

<!-- Made by ^dragoman config reference^ from the tables in the code; ^make docs^ writes it anew. -->

Every key, its type, default and bounds. [config.toml](../config.toml) says the same in the form of a file, with more on what
each is for.

- **Precedence.** Flags, then ^DRAGOMAN_…^ variables, then ^MCP_…^ variables, then the file (^--config FILE^ or
  ^DRAGOMAN_CONFIG^), then defaults. ^dragoman config print^ shows each value and where it comes from, ^dragoman config check^
  everything that is wrong.
- **File.** TOML, YAML or JSON, told apart by the extension, at most 256 KiB. Unknown keys are errors.
- **Variables.** A key's variable is its name in capitals with underscores for dots. Of an upstream, ^NAME^ is its name,
  hyphens as underscores. Lists are separated by commas, but for ^command^, which is a JSON array. Empty variables count as
  not set.
- **Types.** *duration*: ^"500ms"^, ^"30s"^, ^"1h30m"^. *size*: ^"64KiB"^, ^"4MiB"^, ^"100MB"^ or a number of bytes. *secret*:
  ^"env:NAME"^ takes the value from a variable, ^"file:/path"^ from a file, at most 64 KiB; it is never printed. Values of
  headers and of ^env^ may also contain ^${NAME}^.
- **Changes** take effect when the file is read again, on SIGHUP or by ^reload.watch^; keys marked ` + fixedMark + ` need one.
- **Editors** complete and check the file with [config.schema.json](config.schema.json), which is also what
  ^dragoman config schema^ prints. In TOML (Even Better TOML, Taplo, Tombi) write ^#:schema ./config.schema.json^ as the first
  line, in YAML ^# yaml-language-server: $schema=./config.schema.json^. For JSON name it in the editor's settings: ^$schema^ in
  the file would be an unknown key.
`

// column is one column of the reference's tables.
type column struct {
	title string
	text  func(config.Described) string
}

var referenceColumns = []column{
	{"key", func(d config.Described) string { return code(shownKey(d)) }},
	{"type", func(d config.Described) string { return d.Kind }},
	{"default", func(d config.Described) string { return code(d.Std) }},
	{"bounds", func(d config.Described) string { return cell(d.Bounds) }},
	{"variable, flag", func(d config.Described) string {
		var names []string
		for _, name := range []string{d.Env, d.Mcp, d.Flag} {
			if name != "" {
				names = append(names, code(name))
			}
		}
		return strings.Join(names, "<br>")
	}},
	{"what it is for", func(d config.Described) string {
		text := cell(d.Doc)
		if d.Needs != "" {
			text += "; only with " + code(d.Needs)
		}
		if d.Fixed {
			text += " " + fixedMark
		}
		return text
	}},
}

// shownKey returns the key as it is written in its table.
func shownKey(d config.Described) string {
	if d.Key != config.AnyName {
		return d.Key
	}
	return d.Table[len(d.Table)-1] + "." + d.Key
}

// WriteReference writes docs/configuration.md.
func WriteReference(w io.Writer) error {
	keys := config.DescribeConfig()
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(referenceHead, "^", "`"))
	for _, name := range referenceTables(keys) {
		title := code(name)
		if name == "" {
			title = "Top level"
		}
		fmt.Fprintf(&b, "\n## %s\n%s\n\n", title, Tables[strings.TrimSuffix(name, entryOfTable)].Doc)
		referenceRows(&b, keys, func(d config.Described) bool { return d.Also == "" && tableOf(d) == name })
	}
	b.WriteString("\n## Names of server scaffolds\nOther names of keys above, as server scaffolds have them. Two spellings in one file must agree.\n\n")
	b.WriteString("| key | variable | the same as |\n|---|---|---|\n")
	for _, d := range keys {
		if d.Also != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", code(d.Key), code(d.Mcp), code(d.Also))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// entryOfTable ends the heading of a table whose entries users name.
const entryOfTable = "." + config.AnyName

// tableOf returns the heading below which a key stands. Tables of single values are shown with their parent.
func tableOf(d config.Described) string {
	if d.Key == config.AnyName {
		return strings.Join(d.Table[:len(d.Table)-1], ".")
	}
	return strings.Join(d.Table, ".")
}

// referenceTables returns the headings in their order: the top level, then the tables in the order of the code.
func referenceTables(keys []config.Described) []string {
	names := []string{""}
	for _, d := range keys {
		if name := tableOf(d); d.Kind != "table" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func referenceRows(b *strings.Builder, keys []config.Described, wanted func(config.Described) bool) {
	for _, c := range referenceColumns {
		fmt.Fprintf(b, "| %s ", c.title)
	}
	fmt.Fprintf(b, "|\n%s|\n", strings.Repeat("|---", len(referenceColumns)))
	for _, d := range keys {
		if d.Kind == "table" || !wanted(d) {
			continue
		}
		for _, c := range referenceColumns {
			b.WriteString(strings.TrimRight("| "+c.text(d), " ") + " ")
		}
		b.WriteString("|\n")
	}
}

// code returns text as code in a table.
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
}

// cell returns text for a table, escaped.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;").Replace(text)
}
