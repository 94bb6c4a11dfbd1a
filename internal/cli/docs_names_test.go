package cli

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// The keys that documents name exist.
func TestDocumentedKeys(t *testing.T) {
	known, first := map[string]bool{}, map[string]bool{}
	for _, d := range config.DescribeConfig() {
		parts := d.Path()
		first[parts[0]] = len(parts) > 1 || first[parts[0]]
		for i := range parts {
			known[strings.Join(parts[:i+1], ".")] = true
		}
	}
	dotted := regexp.MustCompile(`^[a-z_]+(\.([a-z_]+|[A-Z_]+))+$`) // and no Go name
	chosen := regexp.MustCompile(`\.[A-Z]+`)
	seen := 0
	for _, file := range testkit.Documents(t) {
		for _, m := range testkit.CodeSpan.FindAllStringSubmatch(testkit.ReadText(t, file), -1) {
			table, _, _ := strings.Cut(m[1], ".")
			if !dotted.MatchString(m[1]) || !first[table] || slices.Contains([]string{".go", ".md", ".mjs", ".py", ".ts"}, path.Ext(m[1])) {
				continue
			}
			seen++
			if key := chosen.ReplaceAllString(m[1], ".NAME"); !known[strings.TrimSuffix(key, ".NAME")] && !known[key] {
				t.Errorf("%s names %s, which is no key", file, m[1])
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d keys were found", seen)
	}
}

// The flags that docs/migrating.md names exist.
func TestMigrationFlags(t *testing.T) {
	root := newRoot(&program{})
	var flags []string
	for _, c := range root.Commands() {
		if slices.Contains([]string{"serve", "stdio", "probe"}, c.Name()) {
			flags = append(flags, strings.Fields(c.Flags().FlagUsages())...)
		}
	}
	data, err := os.ReadFile("docs/migrating.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) < 2 || !strings.HasPrefix(line, "| ") {
			continue
		}
		for _, m := range testkit.CodeSpan.FindAllStringSubmatch(cells[1], -1) {
			if name, _, _ := strings.Cut(m[1], " "); len(name) > 2 && strings.HasPrefix(name, "--") {
				if seen++; !slices.Contains(flags, name) {
					t.Errorf("docs/migrating.md names %s, which is no flag: %s", name, line)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d flags were found", seen)
	}
}
