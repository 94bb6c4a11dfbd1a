package report

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func TestDocument(t *testing.T) {
	d := NewDocument("A <b>")
	d.Text("%d lines", 2)
	d.Heading("Targets")
	d.Table([]string{"what", "verdict"}, [][]string{{"a|b", "met"}, {"c", "missed <1"}})
	d.Bars("Costs", " µs", 15, []Bar{{Name: "ours & theirs", Value: 12, Min: 10, Max: 14}, {Name: "none", Colour: 99}})
	d.Bars("nothing to show", "", 0, nil)
	d.Memory("Memory", "a note", []Line{{Name: "x", Points: [][2]float64{{0, 1 << 20}, {10, 2 << 20}}}})
	d.Heading("End")
	var page, text strings.Builder
	if err := d.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := d.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A &lt;b&gt;", `<td class="good">met</td>`, `<td class="wrong">missed &lt;1</td>`, "ours &amp; theirs", "polyline", `class="plots"`} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page has no %s:\n%s", want, page.String())
		}
	}
	if strings.Contains(page.String(), "nothing to show") || strings.Contains(page.String(), "<script") {
		t.Error("the page has what it should not")
	}
	x := xml.NewDecoder(strings.NewReader(strings.NewReplacer("<!DOCTYPE html>", "", `<meta charset="utf-8">`, "").Replace(page.String())))
	x.Strict, x.AutoClose, x.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := x.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("elements are not closed: %v", err)
		}
	}
	if want := "# A <b>\n\n2 lines\n\n## Targets\n\n| what | verdict |\n|---|--:|\n| a\\|b | met |\n| c | missed <1 |\n\n## End\n"; text.String() != want {
		t.Errorf("%s\nwant\n%s", text.String(), want)
	}
}
