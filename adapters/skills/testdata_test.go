package skills

import (
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// real is a tool of testdata/real.jsonl.gz: what real servers listed, see conformance/servers/README.md for their versions.
type real struct {
	Server       string `json:"server"`
	Title        string `json:"title"`
	Instructions string `json:"instructions"`
	Tool         struct {
		Name         string          `json:"name"`
		Title        string          `json:"title"`
		Description  string          `json:"description"`
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema"`
		Annotations  struct {
			ReadOnly    bool `json:"readOnlyHint"`
			Destructive bool `json:"destructiveHint"`
		} `json:"annotations"`
	} `json:"tool"`
}

// realServers returns the servers of testdata, by their names in its order.
func realServers(t testing.TB) (all []Server) {
	t.Helper()
	f, err := os.Open("testdata/real.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for in := json.NewDecoder(z); in.More(); {
		var r real
		if err := in.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 || all[len(all)-1].ID != r.Server {
			all = append(all, Server{ID: r.Server, Title: r.Title, Instructions: r.Instructions})
		}
		s := &all[len(all)-1]
		s.Tools = append(s.Tools, Tool{Name: r.Tool.Name, Title: r.Tool.Title, Description: r.Tool.Description, InputSchema: r.Tool.InputSchema,
			OutputSchema: r.Tool.OutputSchema, ReadOnly: r.Tool.Annotations.ReadOnly, Destructive: r.Tool.Annotations.Destructive})
	}
	return all
}

// file returns a file of a skill.
func file(t testing.TB, s *Skill, path string) string {
	t.Helper()
	for _, f := range s.Files {
		if f.Path == path {
			return string(f.Data)
		}
	}
	t.Fatalf("%s has no %s", s.Name, path)
	return ""
}

// many returns tools with names of their own.
func many(n int) (all []Tool) {
	for i := range n {
		all = append(all, Tool{Name: fmt.Sprintf("tool_%d", i), Description: strings.Repeat("word ", 40), InputSchema: []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)})
	}
	return all
}
