package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

var (
	metricName = regexp.MustCompile(`\bdragoman_[a-z_]+`)
	shortName  = regexp.MustCompile("`…(_[a-z_]+)`")
	makeTarget = regexp.MustCompile("`make ([a-z]+(?:-[a-z]+)*)")
	testName   = regexp.MustCompile("`((?:Test|Fuzz)[A-Z]\\w*)")
	conflict   = regexp.MustCompile(`(?m)^(<<<<<<<|>>>>>>>) `)
	ownPath    = regexp.MustCompile("`((?:proxy|adapters|policies|conformance|bench|deploy|docs|internal)/[\\w./-]+)`")
)

// The names in documents exist: metrics, make targets, tests, and paths of this repository.
func TestDocumentedNames(t *testing.T) {
	metrics, tests, targets := listedMetrics(t), testNames(t), map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(testkit.ReadText(t, "Makefile"), -1) {
		targets[m[1]] = true
	}
	seen := 0
	for _, file := range testkit.Documents(t) {
		text := testkit.ReadText(t, file)
		if conflict.MatchString(text) {
			t.Errorf("%s has conflict markers", file)
		}
		check := func(kind string, names *regexp.Regexp, exists func(name string) bool) {
			for _, m := range names.FindAllStringSubmatch(text, -1) {
				if seen++; !exists(m[len(m)-1]) {
					t.Errorf("%s names %s, but no such %s exists", file, m[len(m)-1], kind)
				}
			}
		}
		check("metric", metricName, func(name string) bool { return metrics[name] || metrics[seriesEnd.ReplaceAllString(name, "")] })
		check("target of make", makeTarget, func(name string) bool { return targets[name] })
		check("test", testName, func(name string) bool { return tests[name] })
		check("path", ownPath, func(path string) bool {
			_, here := os.Stat(path)
			_, beside := os.Stat(filepath.Join(filepath.Dir(file), path))
			return here == nil || beside == nil || strings.Contains(path, "/.tmp") || strings.HasPrefix(path, "bench/results")
		})
	}
	if seen < 300 {
		t.Errorf("only %d names were found", seen)
	}
}

// Every metric is documented.
func TestMetricsAreDocumented(t *testing.T) {
	const page = "docs/observability.md"
	text := testkit.ReadText(t, page)
	for name := range listedMetrics(t) {
		documented := strings.Contains(text, name)
		for _, m := range shortName.FindAllStringSubmatch(text, -1) {
			documented = documented || strings.HasSuffix(name, m[1])
		}
		if !documented {
			t.Errorf("%s has no row for %s", page, name)
		}
	}
}

// The map of ARCHITECTURE.md has every package of the product and only existing ones.
func TestMap(t *testing.T) {
	_, text, found := strings.Cut(testkit.ReadText(t, "ARCHITECTURE.md"), "## Map\n```\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("ARCHITECTURE.md has no map")
	}
	mapped, above := map[string]bool{}, make([]string, 10)
	for line := range strings.Lines(text) {
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		for _, name := range strings.Fields(line) {
			dir, ok := strings.CutSuffix(name, "/")
			if !ok {
				break
			}
			above[depth] = dir
			path := filepath.Join(above[:depth+1]...)
			if _, err := os.Stat(path); err != nil {
				t.Errorf("the map of ARCHITECTURE.md names %s: %v", path, err)
			}
			mapped[path] = true
		}
	}
	for dir := range packages(t) {
		top, _, _ := strings.Cut(dir, string(filepath.Separator))
		if slices.Contains([]string{"proxy", "adapters", "policies", "internal"}, top) && !strings.Contains(dir, "/internal/") && !mapped[dir] {
			t.Errorf("the map of ARCHITECTURE.md has no %s", dir)
		}
	}
}

var goFiles = regexp.MustCompile("`([a-z_/]*)(?:\\{([a-z_,]+)\\})?([a-z_/]*\\.go)`")

// ARCHITECTURE.md and the design pages name only files that exist, by their path or by the end of it.
func TestDocumentedFiles(t *testing.T) {
	var files []string
	for dir := range packages(t) {
		in, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, in...)
	}
	pages, err := filepath.Glob("docs/design/*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, page := range append(pages, "ARCHITECTURE.md", "CONTRIBUTING.md") {
		for _, m := range goFiles.FindAllStringSubmatch(testkit.ReadText(t, page), -1) {
			for middle := range strings.SplitSeq(m[2], ",") {
				path := m[1] + middle + m[3]
				named++
				if !slices.ContainsFunc(files, func(file string) bool { return strings.HasSuffix("/"+filepath.ToSlash(file), "/"+path) }) {
					t.Errorf("%s names %s, which does not exist", page, path)
				}
			}
		}
	}
	if named == 0 {
		t.Error("no file is named")
	}
}

// Every fuzz target that `make test` runs exists: make would skip a name that does not.
func TestFuzzedTargets(t *testing.T) {
	list := regexp.MustCompile(`FUZZ='\^Fuzz\(([A-Za-z|]+)\)\$\$'`).FindStringSubmatch(testkit.ReadText(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no list of fuzz targets")
	}
	var tests strings.Builder
	for dir := range packages(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			tests.WriteString(testkit.ReadText(t, file))
		}
	}
	for name := range strings.SplitSeq(list[1], "|") {
		if !strings.Contains(tests.String(), "\nfunc Fuzz"+name+"(") {
			t.Errorf("the Makefile fuzzes Fuzz%s, which does not exist", name)
		}
	}
}

var seriesEnd = regexp.MustCompile(`_(bucket|sum|count)$`)

// listedMetrics returns the names of Dragoman's own metrics.
func listedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(testkit.ReadText(t, "deploy/prometheus/metrics.tsv")) {
		if name, _, _ := strings.Cut(line, "\t"); strings.HasPrefix(name, "dragoman_") {
			all[name] = true
		}
	}
	if len(all) < 50 {
		t.Fatalf("%d metrics", len(all))
	}
	return all
}

// testNames returns the names of all tests and fuzz targets of the repository, in all modules.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (d.Name()[0] == '.' || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range function.FindAllStringSubmatch(testkit.ReadText(t, path), -1) {
				all[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
