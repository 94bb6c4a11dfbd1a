package skills

import (
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"dragoman/proxy/wire"
)

// outline returns the kinds of the blocks, code spans, links and markup of a document, by a CommonMark parser with the extensions of GitHub.
func outline(source string) string {
	var b strings.Builder
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader([]byte(source)))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n.Kind() {
		case ast.KindText, ast.KindString:
			return ast.WalkContinue, nil
		}
		if !entering {
			b.WriteString(")")
			return ast.WalkContinue, nil
		}
		b.WriteString("(" + n.Kind().String())
		if link, ok := n.(*ast.Link); ok {
			b.WriteString(" to " + string(link.Destination))
		}
		if h, ok := n.(*ast.Heading); ok {
			b.WriteString(fmt.Sprint(" ", h.Level, " ", string(h.Lines().Value([]byte(source)))))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// about returns a server in which every text is the given one. Names of tools differ: their files have names that tell nothing.
func about(text string) Server {
	schema := func(required bool) []byte {
		prop := wire.Object([]wire.Change{{Key: "type", Value: []byte(`"string"`)}, {Key: "description", Value: wire.AppendText(nil, text)}, {Key: "default", Value: wire.AppendText(nil, text)}})
		named := append(append(wire.AppendText([]byte{'{'}, text), ':'), append(prop, '}')...)
		all := []wire.Change{{Key: "type", Value: []byte(`"object"`)}, {Key: "properties", Value: named}}
		if required {
			all = append(all, wire.Change{Key: "required", Value: append(wire.AppendText([]byte{'['}, text), ']')})
		}
		return wire.Object(all)
	}
	return Server{ID: "same", Title: text, Instructions: text, Budget: 5000,
		Tools:     []Tool{{Name: "a", Title: text, Description: text, InputSchema: schema(true), OutputSchema: schema(false)}, {Name: "b", Description: text, InputSchema: schema(false)}},
		Prompts:   []Prompt{{Name: text, Description: text}},
		Resources: []Resource{{URI: text, Description: text}},
		Call:      func(_ Tool, arguments []byte) string { return "call " + text + "\n" + string(arguments) },
	}
}

// hostile are texts that would be something else than text in Markdown, YAML or HTML.
var hostile = []string{"# Heading", "a\n\n# b", "- x\n1. y", "```\ncode", "`", "``` `` `", "~~~", "<b>", "<!-- x", "[a](http://b)", "https://a.example", "![x](y)", "a | b", "|---|", "\\`", "---\nname: x\n---",
	"> q", "\u2028# x", "\x00", "\r# x", "`\u200b`", "&#96;", "a`\n```\n# x", "<script>", "*a*", "[more](references/tools.md)", "===", "\u202ea\u2066", "\U000e0041"}

// structured fails unless the skill of a server with a text has the structure of one with harmless texts, and all its characters can be seen.
func structured(t *testing.T, plain *Skill, text string) {
	t.Helper()
	k, err := Generate(about(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(k.Files) != len(plain.Files) {
		t.Fatalf("%d files", len(k.Files))
	}
	for i, file := range k.Files {
		_, body, _ := Split(file.Data)
		_, wanted, _ := Split(plain.Files[i].Data)
		if i > 0 {
			body, wanted = file.Data, plain.Files[i].Data
		}
		if got, want := outline(string(body)), outline(string(wanted)); got != want {
			t.Errorf("%q in %s: %s\n%s\nwant %s", text, file.Path, file.Data, got, want)
		}
		for _, r := range string(file.Data) {
			if r != '\n' && hidden(r) {
				t.Errorf("%q in %s: U+%04X is not seen", text, file.Path, r)
			}
		}
	}
}

// No text of a server changes what is a heading, a list, a block, a link or markup, in any file.
func TestStructure(t *testing.T) {
	plain, err := Generate(about("plain"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range hostile {
		structured(t, &plain, text)
	}
}

// FuzzStructure is TestStructure for any text.
func FuzzStructure(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	plain, err := Generate(about("plain"))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) <= 1000 && strings.TrimFunc(text, unicode.IsSpace) != "" {
			structured(t, &plain, text)
		}
	})
}
