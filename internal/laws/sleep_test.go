package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Tests do not sleep and hope: a call of time.Sleep runs in a bubble of package synctest, where time is virtual, or in a loop that polls, or
// says on its line why.
func TestSleepsHaveReasons(t *testing.T) {
	packages := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || len(d.Name()) > 1 && d.Name()[0] == '.'):
			return filepath.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil || len(packages) < 30 {
		t.Fatal(len(packages), err)
	}
	for _, files := range packages {
		set := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range files {
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		for _, at := range bareSleeps(set, parsed) {
			t.Errorf("%s: wait for what must happen, run in a bubble of synctest, or say on this line why the test sleeps", at)
		}
	}
}

// bareSleeps returns where the files of a package sleep in real time, outside of loops and without a reason.
func bareSleeps(set *token.FileSet, files []*ast.File) (bare []token.Position) {
	bubbles := bubbleMakers(files)
	for _, file := range files {
		remarks := map[int]bool{}
		for _, group := range file.Comments {
			remarks[set.Position(group.Pos()).Line] = true
		}
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || calledName(call) != "time.Sleep" || remarks[set.Position(call.Pos()).Line] {
				return true
			}
			for _, outer := range stack {
				switch outer := outer.(type) {
				case *ast.ForStmt:
					return true
				case *ast.CallExpr:
					if bubbles[calledName(outer)] {
						return true
					}
				}
			}
			bare = append(bare, set.Position(call.Pos()))
			return true
		})
	}
	return bare
}

// bubbleMakers returns the functions that run their arguments in a bubble: synctest.Test, and those that call a parameter of theirs in
// the argument of such a function.
func bubbleMakers(files []*ast.File) map[string]bool {
	makers := map[string]bool{"synctest.Test": true}
	for before := 0; before < len(makers); {
		before = len(makers)
		for _, file := range files {
			for _, decl := range file.Decls {
				fn, ok := decl.(*ast.FuncDecl)
				if ok && fn.Body != nil && makesBubbles(fn, makers) {
					makers[fn.Name.Name] = true
				}
			}
		}
	}
	return makers
}

func makesBubbles(fn *ast.FuncDecl, makers map[string]bool) (found bool) {
	ast.PreorderStack(fn.Body, nil, func(n ast.Node, stack []ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok || !isFunctionParameter(fn, id.Name) {
			return true
		}
		for _, outer := range stack {
			if call, ok := outer.(*ast.CallExpr); ok && makers[calledName(call)] {
				found = true
			}
		}
		return true
	})
	return found
}

func isFunctionParameter(fn *ast.FuncDecl, name string) bool {
	for _, field := range fn.Type.Params.List {
		if _, ok := field.Type.(*ast.FuncType); !ok {
			continue
		}
		for _, id := range field.Names {
			if id.Name == name {
				return true
			}
		}
	}
	return false
}

// calledName returns the called function as it is written; of a method its name alone.
func calledName(call *ast.CallExpr) string {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if id, ok := fun.X.(*ast.Ident); ok && (id.Name == "time" || id.Name == "synctest") {
			return id.Name + "." + fun.Sel.Name
		}
		return fun.Sel.Name
	}
	return ""
}

// The law sees a bare sleep, and none in a bubble or in a loop.
func TestSleepsAreSeen(t *testing.T) {
	const source = `package p
func bubble(t *testing.T, do func()) { synctest.Test(t, func(*testing.T) { do() }) }
func TestInBubble(t *testing.T) { bubble(t, func() { time.Sleep(1) }); synctest.Test(t, func(*testing.T) { time.Sleep(1) }) }
func TestPolls(t *testing.T) { for !done() { time.Sleep(1) } }
func TestSays(t *testing.T) {
	time.Sleep(1) // the delay is what is tested
}
func TestBare(t *testing.T) {
	time.Sleep(1)
	other(t, func() { time.Sleep(1) })
}
`
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "p_test.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if bare := bareSleeps(set, []*ast.File{file}); len(bare) != 2 || bare[0].Line != 9 || bare[1].Line != 10 {
		t.Errorf("found %v", bare)
	}
}
