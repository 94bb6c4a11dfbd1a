package access

import (
	"net/http"
	"strings"
	"testing"

	"dragoman/proxy"
)

// viaFields are header fields.
type viaFields struct{ http.Header }

func (f viaFields) Peek(name string) []byte {
	if all := f.Values(name); len(all) > 0 {
		return []byte(all[0])
	}
	return nil
}

func (f viaFields) PeekAll(name string) (all [][]byte) {
	for _, v := range f.Values(name) {
		all = append(all, []byte(v))
	}
	return all
}

// A request with the mark of this process is refused, wherever it stands; another Via field is kept.
func TestMark(t *testing.T) {
	mark := NewMark()
	if other := NewMark(); other == mark || !strings.HasPrefix(string(mark), "dragoman-") || len(mark) < 20 {
		t.Fatalf("%s, %s", mark, other)
	}
	gate := mark.Gate()
	for _, test := range []struct {
		via     []string
		refused string
		kept    string
	}{
		{nil, "", ""},
		{[]string{"1.1 edge"}, "", "1.1 edge"},
		{[]string{"1.1 edge", "1.0 a, 1.1 b (c)"}, "", "1.1 edge, 1.0 a, 1.1 b (c)"},
		{[]string{NewMark().Via()}, "", "1.1 dragoman-"},
		{[]string{mark.Via()}, "leads back to it", ""},
		{[]string{"1.1 edge, " + mark.Via() + ", 1.1 x"}, "leads back to it", ""},
		{[]string{"1.1 edge", "1.1 x", mark.Via()}, "leads back to it", ""},
		{[]string{strings.Repeat("x", maxVia+1)}, "too many intermediaries", ""},
		{[]string{"1.1 \xff"}, "", ""},
	} {
		h := proxy.Head{Fields: viaFields{http.Header{"Via": test.via}}}
		h.Arrived()
		err := gate(&h)
		if (err == nil) != (test.refused == "") || err != nil && (err.Name != proxy.LoopDetected.Name || !strings.Contains(err.Message, test.refused)) {
			t.Errorf("%q: %v", test.via, err)
		}
		if !strings.HasPrefix(h.Arrival.Via, test.kept) || test.kept == "" && h.Arrival.Via != "" {
			t.Errorf("%q: kept %q", test.via, h.Arrival.Via)
		}
	}
	h := proxy.Head{Fields: viaFields{}}
	if n := testing.AllocsPerRun(100, func() { _ = gate(&h) }); n != 0 {
		t.Errorf("without the field it allocates %v times", n)
	}
}
