package cli

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-json"

	"dragoman/proxy"
)

// templatesFile is the file that errorTemplates embeds.
const templatesFile = "internal/cli/error_templates.json"

var updateTemplates = flag.Bool("update-templates", false, "rewrite error_templates.json")

// chosen lists the messages whose row is chosen where they are made, with the possible rows.
var chosen = map[string][]string{
	"the upstream server answered %w%s":                             {"HTTPStatus", "Refused", "Overloaded"},
	"the upstream server refused the subscription: %s (code %d)":    {"BadAnswer", "InvalidParams", "MethodNotFound"},
	"the service answered %s with HTTP %d %s and no envelope: %s%s": {"HTTPStatus", "Refused", "Overloaded"},
	"the gRPC server answered %s%s":                                 {"ArgumentsInvalid", "GRPCStatus", "InvalidParams", "Lost", "MethodNotFound", "Refused", "Unreachable", "UpstreamFailed", "UpstreamLimited", "UpstreamTimeout"},
	"%s: %s (%s)":                                                   {"UpstreamTimeout", "UpstreamLimited", "Overloaded", "UpstreamFailed"},
	"the body is no JSON-RPC message: %s":                           {"Parse", "InvalidRequest"},
	"the line is no JSON-RPC message: %w":                           {"Parse", "InvalidRequest"},
}

// `dragoman errors` prints the message templates of the code. A changed message fails this test, because people search for messages and
// programs match them.
func TestErrorTemplates(t *testing.T) {
	names := faultNames(t)
	found := map[string]map[string]bool{}
	add := func(row, template string) {
		name, ok := names[row]
		if !ok {
			t.Errorf("%q is made from %q, which is no row of the error table; add it to chosen", template, row)
			return
		}
		if found[name] == nil {
			found[name] = map[string]bool{}
		}
		found[name][placeholders(template)] = true
	}
	for _, file := range sources(t) {
		collectTemplates(t, file, add)
	}
	got := map[string][]string{}
	for _, f := range proxy.Faults() {
		got[f.Name] = slices.Sorted(maps.Keys(found[f.Name]))
		if len(got[f.Name]) == 0 {
			t.Errorf("no message has the row %s: remove it", f.Name)
		}
	}
	text, err := json.MarshalIndentWithOption(got, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *updateTemplates {
		if err := os.WriteFile(templatesFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != errorTemplates {
		t.Errorf("%s differs from the code; see the difference with: go test ./internal/cli -run TestErrorTemplates -update-templates && git diff %s", templatesFile, templatesFile)
	}
}

var formatVerb = regexp.MustCompile(`%[+#]?[a-z]`)

// placeholders makes a template of a format: every verb becomes {…}.
func placeholders(format string) string {
	return strings.ReplaceAll(formatVerb.ReplaceAllString(format, "{…}"), "%%", "%")
}

// faultNames maps the rows' names in the code to those in error.data.
func faultNames(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "proxy/error_table.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.CompositeLit); ok && identifier(lit.Type) == "Fault" {
			names[spec.Names[0].Name], _ = strconv.Unquote(lit.Elts[0].(*ast.BasicLit).Value)
		}
		return true
	})
	listed := map[string]bool{}
	for _, f := range proxy.Faults() {
		listed[f.Name] = true
	}
	for _, name := range names {
		if !listed[name] {
			t.Errorf("%s is not in proxy.Faults", name)
		}
	}
	if len(names) != len(proxy.Faults()) {
		t.Errorf("%d rows in the source, %d in proxy.Faults", len(names), len(proxy.Faults()))
	}
	return names
}

// sources returns the files of Dragoman without tests and tools.
func sources(t *testing.T) (files []string) {
	t.Helper()
	for _, root := range []string{"proxy", "policies", "adapters", "internal", "conformance/everything"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "testdata" || strings.Contains(path, "/internal/")): // shared by tests
				return filepath.SkipDir
			case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
				files = append(files, path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// collectTemplates finds the calls of Errf and NewError in a file, and Errors that are composed by hand.
func collectTemplates(t *testing.T, name string, add func(row, template string)) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name := identifier(n.Fun); name == "NewError" && len(n.Args) == 2 {
				add(identifier(n.Args[0]), "%s")
				return true
			} else if name != "Errf" || len(n.Args) < 2 {
				return true
			}
			template, row := formatOf(n.Args[1]), identifier(n.Args[0])
			for _, row := range orChosen(row, template) {
				add(row, template)
			}
		case *ast.CompositeLit:
			if identifier(n.Type) == "Error" {
				byHand(n, add)
			}
		}
		return true
	})
}

func orChosen(row, template string) []string {
	if rows := chosen[template]; rows != nil {
		return rows
	}
	return []string{row}
}

func byHand(lit *ast.CompositeLit, add func(row, template string)) {
	row, template := "", ""
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			switch identifier(kv.Key) {
			case "Fault":
				row = identifier(kv.Value)
			case "Message":
				template = formatOf(kv.Value)
			}
		}
	}
	if row != "" && row != "f" { // Errf itself
		add(row, template)
	}
}

// identifier returns the last name of an expression like proxy.Lost, *proxy.Error or Errf; empty for others.
func identifier(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// formatOf returns a string expression as a format. Parts that are not literal become %s.
func formatOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err == nil {
			return s
		}
	case *ast.BinaryExpr:
		return formatOf(e.X) + formatOf(e.Y)
	}
	return "%s"
}
