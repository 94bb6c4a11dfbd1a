package oauth

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// A token is found by all of its bytes, also where the end of others is the same; one that is in use keeps its place against one that comes once, and not against one that comes
// again; what is dropped, or too large, is not found.
func TestNear(t *testing.T) {
	n, one := newNear(), []byte(strings.Repeat("a", 700))
	of := &verified{gen: 1}
	_, sum := n.find(one)
	n.keep(one, sum, of)
	if got, _ := n.find(bytes.Clone(one)); got != of {
		t.Error("a token that was kept is not found")
	}
	for _, other := range [][]byte{one[:699], append(bytes.Clone(one), 'a'), append(bytes.Clone(one[:699]), 'b'), append([]byte("b"), one[1:]...), one[1:], nil} {
		if got, _ := n.find(other); got != nil {
			t.Errorf("%q is found as another token", other)
		}
	}
	// What has the place of another, by its sum.
	rival, second := []byte("rival"), &verified{gen: 2}
	var at uint64
	for i := 0; ; i++ {
		rival = fmt.Appendf(rival[:0], "rival %d", i)
		if _, at = n.find(rival); at%nearPlaces == sum%nearPlaces {
			break
		}
	}
	n.keep(rival, at, second)
	if got, _ := n.find(one); got != of {
		t.Error("a token in use has lost its place to one that came once")
	}
	n.keep(rival, at, second)
	n.keep(rival, at, second)
	if got, _ := n.find(rival); got != second {
		t.Error("a token that comes again finds no place")
	}
	n.drop(at, of)
	if got, _ := n.find(rival); got != second {
		t.Error("what was verified of another token was dropped")
	}
	n.drop(at, second)
	if got, _ := n.find(rival); got != nil {
		t.Error("a token that was dropped is found")
	}
	large := bytes.Repeat([]byte("a"), nearToken+1)
	_, sum = n.find(large)
	n.keep(large, sum, of)
	if got, _ := n.find(large); got != nil {
		t.Error("a token beyond the bound is kept")
	}
}
