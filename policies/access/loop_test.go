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

// A request with the mark of this process is refused, wherever it stands; the marks of others are kept, and nothing else of the field.
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
		{[]string{"1.1 edge"}, "", ""},
		{[]string{"evil", "1.1 dragoman-short, 1.1 dragoman-0123456789abcdefg", "2 dragoman-0123456789abcdef"}, "", ""},
		{[]string{"1.1 dragoman-0123456789abcdef"}, "", "1.1 dragoman-0123456789abcdef"},
		{[]string{"1.1 edge, 1.1 dragoman-0123456789abcdef (x), evil", "1.1 dragoman-fedcba9876543210,1.0 b"}, "", "1.1 dragoman-0123456789abcdef, 1.1 dragoman-fedcba9876543210"},
		{[]string{mark.Via()}, "leads back to it", ""},
		{[]string{"1.1 edge, " + mark.Via() + ", 1.1 x"}, "leads back to it", ""},
		{[]string{"1.1 edge", "1.1 x", mark.Via()}, "leads back to it", ""},
		{[]string{strings.TrimSuffix(strings.Repeat("1.1 dragoman-0123456789abcdef, ", 30), ", ")}, "", strings.TrimSuffix(strings.Repeat("1.1 dragoman-0123456789abcdef, ", 30), ", ")},
		{[]string{strings.Repeat("1.1 dragoman-0123456789abcdef, ", 31)}, "more than 30 Dragomans", ""},
		{[]string{strings.Repeat("x", 2000)}, "", ""},
		{[]string{"1.1 \xff\r\n"}, "", ""},
	} {
		h := proxy.Head{Fields: viaFields{http.Header{"Via": test.via}}}
		h.Arrived()
		err := gate(&h)
		if (err == nil) != (test.refused == "") || err != nil && (err.Name != proxy.LoopDetected.Name || !strings.Contains(err.Message, test.refused)) {
			t.Errorf("%q: %v", test.via, err)
		}
		if h.Arrival.Via != test.kept {
			t.Errorf("%q: kept %q", test.via, h.Arrival.Via)
		}
	}
	h := proxy.Head{Fields: viaFields{}}
	if n := testing.AllocsPerRun(100, func() { _ = gate(&h) }); n != 0 {
		t.Errorf("without the field it allocates %v times", n)
	}
}
