package laws

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ruleTable is a document whose tables say of each rule which test shows it. Its rows are
//
//	| rule | what it says | tests | why |
//
// Tests are in backquotes: `TestName/subtest` of the packages below internal, `DIRECTORY TestName/subtest` of another, `FILE.txt remark` for a
// line of a transcript that begins with # and this remark, or `FILE.py name` and `FILE.ts name` for a test of a project in internal/scaffold. The beginning of a subtest's name is enough. why names what takes precedence over
// the rule, or the reason why it has no test.
type ruleTable struct {
	file string
	// named matches the rules that a test must have in its name, as "rule ID"; nil: none. A test with such a name must be in the table.
	named *regexp.Regexp
	tests []string // patterns of the files whose tests have the names of rules
}

// ruleTables lists the tables that are compared with the tests.
var ruleTables = []ruleTable{
	{file: "adapters/rest/RULES.md", named: regexp.MustCompile(`^[1-7SM]\.\d+$`),
		tests: []string{"adapters/rest/rules_*_test.go", "adapters/rest/upstream/rules_test.go", "internal/e2e/rules_*_test.go", "conformance/transcripts/rest_*.txt"}},
	{file: "adapters/merge/RULES.md"},
	{file: "adapters/aggregator/RULES.md"},
	{file: "adapters/classification/RULES.md"},
	{file: "adapters/grpc/RULES.md"},
	{file: "internal/generate/RULES.md"},
	{file: "internal/scaffold/RULES.md"},
}

// ruleRow is one row of a table.
type ruleRow struct {
	id, says, why string
	tests         []string
	line          int
}

var quotedTest = regexp.MustCompile("`([^`]+)`")

// readRules reads the rows of all tables of a document, without their heads.
func readRules(text string) (rows []ruleRow, problems []string) {
	for n, line := range strings.Split(text, "\n") {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|-") || strings.HasPrefix(line, "| rule |") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			problems = append(problems, fmt.Sprintf("line %d has %d cells, want 4: rule, what it says, tests, why", n+1, len(cells)))
			continue
		}
		r := ruleRow{id: strings.TrimSpace(cells[0]), says: strings.TrimSpace(cells[1]), why: strings.TrimSpace(cells[3]), line: n + 1}
		for _, m := range quotedTest.FindAllStringSubmatch(cells[2], -1) {
			r.tests = append(r.tests, m[1])
		}
		rows = append(rows, r)
	}
	return rows, problems
}

// judge returns the mistakes of a table. exists reports whether a test exists; named has the rules in the names of tests, each with its
// place.
func (table *ruleTable) judge(text string, exists func(test string) bool, named map[string]string) (problems []string) {
	rows, problems := readRules(text)
	wrong := func(r *ruleRow, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%s:%d: rule %s "+format, append([]any{table.file, r.line, r.id}, args...)...))
	}
	seen := map[string]bool{}
	for i := range rows {
		r := &rows[i]
		bears := false
		for _, test := range r.tests {
			if !exists(test) {
				wrong(r, "names %q, which does not exist", test)
			}
			bears = bears || containsWords(test, "rule "+r.id)
		}
		switch {
		case r.id == "" || r.says == "":
			wrong(r, "is empty")
		case seen[r.id]:
			wrong(r, "is there twice")
		case len(r.tests) == 0 && r.why == "":
			wrong(r, "has neither a test nor a reason")
		case len(r.tests) > 0 && table.named != nil && table.named.MatchString(r.id) && !bears:
			wrong(r, `has no test that bears its name, "rule %s"`, r.id)
		}
		seen[r.id] = true
	}
	for id, where := range named {
		if !seen[id] {
			problems = append(problems, fmt.Sprintf("%s: rule %s is no row of %s", where, id, table.file))
		}
	}
	if len(rows) == 0 {
		problems = append(problems, table.file+" has no rows")
	}
	return problems
}

// containsWords reports whether text has the words, not followed by a longer word: "rule 1.1" is not in "rule 1.10".
func containsWords(text, words string) bool {
	at := strings.Index(text, words)
	if at < 0 {
		return false
	}
	rest := text[at+len(words):]
	return rest == "" || rest[0] == ' ' || rest[0] == '/' || rest[0] == ':'
}

// The rules of the seeds and the tests that show them: no rule is missing and no name is wrong.
func TestRuleTables(t *testing.T) {
	sources := testSources{}
	for _, table := range ruleTables {
		raw, err := os.ReadFile(table.file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, problem := range table.judge(string(raw), func(test string) bool { return sources.has(t, test) }, namedRules(t, table.tests)) {
			t.Error(problem)
		}
	}
}

// judge finds each kind of mistake.
func TestRuleTablesAreJudged(t *testing.T) {
	table := ruleTable{file: "x.md", named: regexp.MustCompile(`^\d`)}
	there := func(test string) bool { return strings.HasPrefix(test, "TestThere") }
	const head = "| rule | what it says | tests | why |\n|-|-|-|-|\n"
	for text, want := range map[string]string{
		head + "| 1.1 | a | `TestThere/rule 1.1` | |\n": "",
		head + "| A.1 | a | `TestThere` | |\n":          "",
		head + "| 1.1 | a | | because |\n":              "",
		head:                                            "no rows",
		head + "| 1.1 | a | | |\n":                      "neither a test nor a reason",
		head + "| 1.1 | a | `TestThere/rule 1.1`, `TestNot` | |\n":                     `names "TestNot"`,
		head + "| 1.1 | a | `TestThere/rule 1.10` | |\n":                               "bears its name",
		head + "| 1.1 | a | `TestThere/rule 1.1` |\n":                                  "has 3 cells",
		head + "| 1.1 | | `TestThere/rule 1.1` | |\n":                                  "is empty",
		head + "| 1.1 | a | | b |\n| 1.1 | a | | b |\n":                                "is there twice",
		head + "| 1.2 | a | | b |\n":                                                   "f.go: rule 1.1 is no row",
		"| 1.1 | a\\|b | `TestThere/rule 1.1` | |\n| 1.1 | `a` | `TestThere`, | b |\n": "has 5 cells",
	} {
		named := map[string]string{}
		if strings.Contains(want, "f.go") {
			named["1.1"] = "f.go"
		}
		problems := strings.Join(table.judge(text, there, named), "\n")
		if (want == "") != (problems == "") || !strings.Contains(problems, want) {
			t.Errorf("%s\ngives %q, want %q", text, problems, want)
		}
	}
}

// testSources has the parsed tests of directories.
type testSources map[string]map[string]*testFunc

// testFunc is the names of subtests in a function of a test file.
type testFunc struct {
	names map[string]bool // string literals that can name subtests
	calls map[string]bool // functions and variables of the package that it uses
}

// has reports whether a test exists, in the form of a table.
func (s testSources) has(t *testing.T, test string) bool {
	t.Helper()
	dir, path := "", test
	if first, rest, ok := strings.Cut(test, " "); ok && strings.HasSuffix(first, ".txt") {
		return hasRemark(t, first, rest)
	} else if ok && (strings.HasSuffix(first, ".py") || strings.HasSuffix(first, ".ts")) {
		return projectHas(first, rest)
	} else if ok && !strings.HasPrefix(first, "Test") {
		dir, path = first, rest
	}
	if dir == "" {
		return slices.ContainsFunc(wholeProgram, func(dir string) bool { return s.names(t, dir, path) })
	}
	return s.names(t, dir, path)
}

// wholeProgram lists the directories of tests that a table names without a directory.
var wholeProgram = []string{"internal/e2e", "internal/config", "internal/app", "internal/cli"}

// names reports whether a directory's tests have a name, with a subtest or without.
func (s testSources) names(t *testing.T, dir, path string) bool {
	t.Helper()
	name, subtests, _ := strings.Cut(path, "/")
	fs := s.of(t, dir)
	if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") || fs[name] == nil {
		return false
	}
	if subtests == "" {
		return true
	}
	names := map[string]bool{}
	fs.gather(name, names, map[string]bool{})
	for {
		found := ""
		for n := range names { // a literal may have slashes of its own
			if plain := spaced(n); plain == spaced(subtests) || strings.HasPrefix(plain, spaced(subtests)+" ") {
				return true
			} else if strings.HasPrefix(spaced(subtests), plain+"/") && len(n) > len(found) {
				found = n
			}
		}
		if found == "" {
			return false
		}
		subtests = subtests[len(found)+1:]
	}
}

// spaced returns a subtest's name with spaces, in case it is written as go test prints it.
func spaced(name string) string { return strings.ReplaceAll(name, "_", " ") }

type funcs map[string]*testFunc

// gather collects the names of a function and of what it uses.
func (fs funcs) gather(name string, into, visited map[string]bool) {
	f := fs[name]
	if f == nil || visited[name] {
		return
	}
	visited[name] = true
	for n := range f.names {
		into[n] = true
	}
	for c := range f.calls {
		if !strings.HasPrefix(c, "Test") {
			fs.gather(c, into, visited)
		}
	}
}

// of parses the tests of a directory, once.
func (s testSources) of(t *testing.T, dir string) funcs {
	t.Helper()
	if fs, ok := s[dir]; ok {
		return fs
	}
	fs := funcs{}
	s[dir] = fs
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				fs[d.Name.Name] = readTest(d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if v, ok := spec.(*ast.ValueSpec); ok {
						fs[v.Names[0].Name] = readTest(v)
					}
				}
			}
		}
	}
	return fs
}

// readTest collects the string literals of a declaration in the places of subtests' names: first argument of a call, key or element of a
// composite literal, operand of +.
func readTest(n ast.Node) *testFunc {
	f := &testFunc{names: map[string]bool{}, calls: map[string]bool{}}
	add := func(e ast.Expr) {
		for b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.ADD; b, ok = e.(*ast.BinaryExpr) { // "rule 1 " + kind: its beginning
			e = b.X
		}
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				f.names[strings.TrimSpace(s)] = true
			}
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if len(n.Args) > 0 {
				add(n.Args[0])
			}
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				if kv, ok := e.(*ast.KeyValueExpr); ok {
					add(kv.Key)
					e = kv.Value
				}
				add(e)
			}
		case *ast.Ident:
			f.calls[n.Name] = true
		}
		return true
	})
	return f
}

// projectHas reports whether a test file of a project in internal/scaffold has a test: a function in Python, the words of test() in TypeScript.
func projectHas(file, name string) bool {
	raw, err := os.ReadFile(filepath.Join("internal/scaffold/python/tests", file))
	form := `(?m)^(async )?def ` + regexp.QuoteMeta(name) + `\(`
	if strings.HasSuffix(file, ".ts") {
		raw, err = os.ReadFile(filepath.Join("internal/scaffold/typescript/test", file))
		form = `(?m)^\s*(test|it)(\.each)?\('` + regexp.QuoteMeta(name) + `'`
	}
	return err == nil && regexp.MustCompile(form).Match(raw)
}

// Tests of projects are found by their whole names.
func TestProjectsTests(t *testing.T) {
	for test, want := range map[string]bool{
		"test_server.py test_lifecycle": true, "test_server.py test_life": false, "test_server.py lifecycle": false, "none.py test_lifecycle": false,
		"test_config.py test_rules": true, "test_config.py test_.*": false,
		"server.test.ts no state is skipped": true, "server.test.ts no state": false, "none.test.ts no state is skipped": false,
	} {
		if got := (testSources{}).has(t, test); got != want {
			t.Errorf("%s: %v", test, got)
		}
	}
}

// hasRemark reports whether a transcript has a remark.
func hasRemark(t *testing.T, file, remark string) bool {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("conformance", "transcripts", file))
	if err != nil {
		return false
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		if text, ok := strings.CutPrefix(line, "# "); ok && (text == remark || strings.HasPrefix(text, remark+" ") || strings.HasPrefix(text, remark+":")) {
			return true
		}
	}
	return false
}

// ruleName matches a rule in the name of a test or in a transcript's remark.
var ruleName = regexp.MustCompile(`(?m)(?:"|^# )rule ([0-9A-Z]+\.\d+)\b`)

// namedRules returns the rules in the names of tests, with the file.
func namedRules(t *testing.T, patterns []string) map[string]string {
	t.Helper()
	named := map[string]string{}
	for _, pattern := range patterns {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no files, %v", pattern, err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range ruleName.FindAllStringSubmatch(string(raw), -1) {
				named[m[1]] = file
			}
		}
	}
	return named
}

// The tests that the table of policies names exist.
func TestPolicyTable(t *testing.T) {
	text, err := os.ReadFile("docs/design/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "| policy | what it says | source | tests |\n")
	section, _, ends := strings.Cut(section, "\n\n")
	if !found || !ends {
		t.Fatal("docs/design/policies.md has no table of the policies")
	}
	known := testNames(t)
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if strings.HasPrefix(line, "|--") {
			continue
		}
		tests := quotedTest.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) != 4 || len(tests) == 0 || strings.TrimSpace(cells[2]) == "" {
			t.Errorf("want policy, what it says, source and tests: %s", line)
		}
		for _, m := range tests {
			if !known[m[1]] {
				t.Errorf("%s: there is no %s", strings.TrimSpace(cells[0]), m[1])
			}
		}
	}
}
