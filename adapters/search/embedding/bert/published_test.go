package bert

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"os"
	"strings"
	"testing"

	"dragoman/internal/testkit"
)

// published opens the published files of all-MiniLM-L6-v2. Without them the test is skipped, but fails where CI is set.
func published(t testing.TB) *Model {
	t.Helper()
	const dir = "conformance/embedding/.venv/model"
	if _, err := os.Stat(dir); err != nil {
		const missing = "all-MiniLM-L6-v2 is missing; conformance/embedding/setup.sh installs it"
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(testkit.ReadText(t, path), "\n"), "\n")
}

// The vectors of the published model are those that its makers' library makes (conformance/embedding/reference.py), alone and among others.
func TestPublishedModel(t *testing.T) {
	m := published(t)
	texts, want := lines(t, "conformance/embedding/texts.txt"), lines(t, "conformance/embedding/vectors.txt")
	if len(texts) != 50 || len(want) != len(texts) {
		t.Fatalf("%d texts, %d vectors", len(texts), len(want))
	}
	together, err := m.Embed(t.Context(), texts)
	if err != nil {
		t.Fatal(err)
	}
	least := 1.0
	for i, text := range texts {
		raw, err := base64.StdEncoding.DecodeString(want[i])
		if err != nil || len(raw) != 4*384 {
			t.Fatal(len(raw), err)
		}
		alone, err := m.Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range [][]float32{alone[0], together[i]} {
			var dot float64
			for j, v := range got {
				dot += float64(v) * float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])))
			}
			if least = min(least, dot); !(dot > 0.9999) {
				t.Errorf("%.60q: cosine %.6f", text, dot)
			}
		}
	}
	t.Logf("the least cosine of %d texts is %.8f", len(texts), least)
}

func BenchmarkEmbed(b *testing.B) {
	query := "create an issue in the repository about a broken link" // 12 tokens
	tool := "create_issue. Create a new issue in a GitHub repository, with a title, a body, labels, assignees and a milestone. Parameters: owner: owner of the repository; repo: name of the repository; title: title of the issue; body: its text in Markdown; labels: names of labels; assignees: logins of users; milestone: number of a milestone."
	for name, texts := range map[string][]string{"query": {query}, "tool": {tool}, "tools": {tool, tool, tool, tool, tool, tool, tool, tool}} {
		b.Run(name, func(b *testing.B) {
			m := published(b)
			for b.Loop() {
				if _, err := m.Embed(b.Context(), texts); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N*len(texts)), "ms/text")
		})
	}
}
