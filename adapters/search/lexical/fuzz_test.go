package lexical

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func FuzzParse(f *testing.F) {
	for _, raw := range []string{
		``, `null`, `{`, `{"title":1,"description":"d"}`, `{"inputSchema":{"properties":{"a":{"enum":["x",{}],"items":{"properties":{"b":{"const":"c"}}}}}}}`,
		`{"outputSchema":{"properties":{"r":{"description":"\ud800"}}}}`, strings.Repeat(`{"inputSchema":`, 200) + strings.Repeat(`}`, 200), "{\"title\":\"\xff\"}",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		d := Parse("s", "n", []byte(raw))
		if d.Server != "s" || d.Name != "n" || len(d.Description) > maxText || len(d.Title) > maxText || len(d.Parameters)+len(d.Outputs) > 2*maxProperties {
			t.Errorf("out of bounds: %+v", d)
		}
		if text := d.Text(); len(text) > maxModelText || utf8.ValidString(raw) && !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
		x := New()
		x.Put(d)
		if hits := x.Search("n", 1, nil); len(hits) != 1 {
			t.Errorf("%v", hits)
		}
		x.Delete("s", "n")
		if x.Len() != 0 || len(x.terms) != 0 || len(x.grams) != 0 {
			t.Errorf("%d documents, %v, %v", x.Len(), x.terms, x.grams)
		}
	})
}

func FuzzSearch(f *testing.F) {
	f.Add("create_issue", "creates an issue", "creating isues")
	f.Add("天気", "погода в городе", "天気予報. городов; погода")
	f.Add("\xff\x00", "'''", "$^$^")
	f.Add("HTTPServer2", "it's don’t", "what is it")
	f.Fuzz(func(t *testing.T, name, text, query string) {
		x := New()
		x.Put(Document{Server: "a", Name: name, Description: text, ServerText: query}, Document{Server: "b", Name: text, Title: name}, Document{Server: "c", Name: "other"})
		q := readQuery(query)
		if len(q.words) > maxQueryWords || len(q.parts) > maxParts {
			t.Errorf("%d words, %d parts", len(q.words), len(q.parts))
		}
		var before float64
		hits := x.Search(query, 10, nil)
		if len(hits) > 3 || len(q.words) == 0 && len(hits) > 0 {
			t.Errorf("%v", hits)
		}
		for i, hit := range hits {
			if hit.Score <= 0 || i > 0 && hit.Score > before || len(hit.Fields) == 0 || len(hit.Fields) > mostWhy {
				t.Errorf("%v", hits)
			}
			before = hit.Score
		}
		x.Delete("a")
		x.Delete("b")
		x.Delete("c")
		if len(x.terms)+len(x.grams)+len(x.servers) != 0 {
			t.Errorf("%v remain", x.terms)
		}
	})
}
