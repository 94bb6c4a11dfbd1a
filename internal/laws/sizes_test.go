package laws

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// maxFiles is how many files a package may have, tests not counted.
	maxFiles = 25
	// maxCycle is how many files of a package may refer to each other in a circle. A reader of one of them has to read all of them.
	maxCycle = 8
)

func TestPackagesAreSmall(t *testing.T) {
	for dir := range packages(t) {
		files, cycle := measure(t, dir)
		if files > maxFiles {
			t.Errorf("%s has %d files, %d allowed: split it by what belongs together", dir, files, maxFiles)
		}
		if len(cycle) > maxCycle {
			t.Errorf("%s: %d files refer to each other in a circle, %d allowed: %s", dir, len(cycle), maxCycle, strings.Join(cycle, " "))
		}
	}
}

// measure finds an existing circle, and no other.
func TestCyclesAreMeasured(t *testing.T) {
	edges := map[string]map[string]bool{"a": {"b": true}, "b": {"c": true}, "c": {"a": true, "d": true}, "d": {"e": true}, "e": {}}
	if got := largestCycle(edges); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("the largest cycle is %v", got)
	}
	files, cycle := measure(t, "internal/testkit")
	if files < 5 || len(cycle) != 0 {
		t.Errorf("internal/testkit: %d files, cycle %v", files, cycle)
	}
}

// measure counts the files of a package and finds its largest cycle of references: from a file that uses an identifier of the package's
// scope, or a method, to the file that declares it.
func measure(t *testing.T, dir string) (files int, cycle []string) {
	t.Helper()
	p, err := build.ImportDir(dir, 0)
	if err != nil {
		return 0, nil // tests alone, or files for other systems
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: emptyImporter{}, Error: func(error) {}} // types of other packages are not needed
	pkg, _ := conf.Check(dir, fset, parsed, info)
	edges := map[string]map[string]bool{}
	for _, name := range p.GoFiles {
		edges[name] = map[string]bool{}
	}
	for id, o := range info.Uses {
		fn, isFunc := o.(*types.Func)
		method := isFunc && fn.Signature().Recv() != nil
		if o.Pkg() != pkg || !method && o.Parent() != pkg.Scope() {
			continue
		}
		from, to := filepath.Base(fset.Position(id.Pos()).Filename), filepath.Base(fset.Position(o.Pos()).Filename)
		if from != to {
			edges[from][to] = true
		}
	}
	return len(p.GoFiles), largestCycle(edges)
}

// emptyImporter returns empty packages.
type emptyImporter struct{}

// Import implements types.Importer.
func (emptyImporter) Import(name string) (*types.Package, error) {
	p := types.NewPackage(name, path.Base(name))
	p.MarkComplete()
	return p, nil
}

// largestCycle returns the largest strongly connected component of a graph, sorted; nil if no node is in a cycle. The graphs are small: it
// compares what each pair of nodes reaches.
func largestCycle(edges map[string]map[string]bool) (largest []string) {
	reached := map[string]map[string]bool{}
	for start := range edges {
		seen := map[string]bool{}
		for next := []string{start}; len(next) > 0; {
			node := next[0]
			next = next[1:]
			for to := range edges[node] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		reached[start] = seen
	}
	for a := range edges {
		var cycle []string
		for b := range edges {
			if reached[a][b] && reached[b][a] {
				cycle = append(cycle, b)
			}
		}
		if len(cycle) > len(largest) {
			largest = cycle
		}
	}
	slices.Sort(largest)
	return largest
}
