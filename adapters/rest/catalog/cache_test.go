package catalog

import (
	"fmt"
	"testing"
	"time"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
)

// The cache is bounded by number and by size, and callers with different credentials share no list.
func TestListsBounded(t *testing.T) {
	c := newListCache()
	add := func(key string, size int) {
		f := &flight{done: make(chan struct{}), list: &List{at: time.Unix(0, 0), useFor: time.Minute, size: size}}
		c.endFlight(key, f)
	}
	for i := range 2 * maxLists {
		add(fmt.Sprint(i), 1)
	}
	if n := c.lists.Len(); n != maxLists || c.lists.size != maxLists {
		t.Errorf("%d lists, %d bytes", n, c.lists.size)
	}
	add("0", 1)
	add("0", 2) // in its own place
	if c.lists.size != maxLists+1 {
		t.Errorf("%d bytes", c.lists.size)
	}
	add("large", MaxBytes-1)
	if n := c.lists.Len(); c.lists.size > MaxBytes || n > 2 {
		t.Errorf("%d lists, %d bytes", n, c.lists.size)
	}
	add("larger", MaxBytes+1)
	if c.lists.Contains("larger") {
		t.Error("a list beyond the bound is kept")
	}
	seen := map[string]bool{}
	for _, caller := range []proxy.Caller{{Principal: "a"}, {Principal: "b"}, {Principal: "a", Rights: &proxy.Rights{Scopes: []string{"x"}}}, {Principal: "a", Rights: &proxy.Rights{Scopes: []string{"y"}}}} {
		seen[cacheKey(&mcpcall.Origin{Server: "s", Caller: caller})] = true
	}
	if len(seen) != 4 {
		t.Errorf("callers share a list: %v", seen)
	}
}
