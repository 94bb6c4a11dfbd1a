package view

import (
	"fmt"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
)

// BenchmarkFirstPage makes a view of 50 servers with 200 tools each, and its first page.
func BenchmarkFirstPage(b *testing.B) {
	c, err := catalogue.Open(b.Context(), catalogue.Options{})
	if err != nil {
		b.Fatal(err)
	}
	opt, names := Options{Info: []byte(`{"name":"x","version":"1"}`)}, map[string]catalogue.Kept{}
	for i := range 50 {
		name := fmt.Sprintf("s%02d", i)
		names[name] = catalogue.Kept{Transport: "HTTP"}
		opt.Members = append(opt.Members, Member{Name: name})
	}
	c.Keep(names)
	for name := range names {
		var l catalogue.List
		for i := range 200 {
			l.Items = append(l.Items, catalogue.Item{Key: fmt.Sprintf("tool-%d", i), Raw: fmt.Appendf(nil, `{"name":"tool-%d","description":"A tool.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}`, i)})
		}
		c.SetList(name, catalogue.Tools, l)
	}
	snap := c.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pageOf(NewMaker(opt).Of(snap, proxy.Caller{}), catalogue.Tools, nil, ""); err != nil {
			b.Fatal(err)
		}
	}
}
