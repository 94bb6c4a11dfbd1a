package translate

import "dragoman/proxy/wire"

// What most messages need of a translation, in the places that the scan has found: an object need not be walked for it, which in a
// large one takes as long as reading it did.

// knownMember is a member of an object whose value's place is known.
type knownMember struct {
	key   string
	value wire.Span // not present: it has no such member
}

// drop drops members from an object; in any order. False if they cannot be dropped by their places alone, and nothing
// was done.
func drop(m *wire.Message, gone ...knownMember) bool {
	var cuts [4]wire.Edit // by place
	n := 0
	for _, k := range gone {
		if !k.value.Present() {
			continue
		}
		at, ok := keyAt(m.Raw, k)
		if !ok || n == len(cuts) {
			return false
		}
		i := n
		for ; i > 0 && cuts[i-1].From > at; i-- {
			cuts[i] = cuts[i-1]
		}
		cuts[i].Span = wire.Span{From: at, To: k.value.To}
		n++
	}
	for i := range n {
		cut := &cuts[i]
		if next := skipSpaces(m.Raw, cut.To); m.Raw[next] == ',' {
			cut.To = skipSpaces(m.Raw, next+1)
			continue
		}
		for j := i - 1; j >= 0 && cuts[j].To == cut.From; j-- { // the last one: the comma before all that go is one too many
			cut.From, cuts[j].To = cuts[j].From, cuts[j].From
		}
		if cut.From = skipSpacesBack(m.Raw, cut.From); m.Raw[cut.From-1] == ',' {
			cut.From = skipSpacesBack(m.Raw, cut.From-1)
		}
	}
	for _, cut := range cuts[:n] {
		if cut.From < cut.To {
			m.Replace(cut.Span, nil)
		}
	}
	return true
}

// keyAt finds where a member begins: at its key, if that is written as usual.
func keyAt(raw []byte, k knownMember) (uint32, bool) {
	i := skipSpacesBack(raw, k.value.From)
	if raw[i-1] != ':' {
		return 0, false
	}
	i = skipSpacesBack(raw, i-1)
	size := uint32(len(k.key)) + 2 //nolint:gosec // a few bytes
	if i < size || raw[i-1] != '"' || raw[i-size] != '"' || string(raw[i-size+1:i-1]) != k.key {
		return 0, false
	}
	return i - size, true
}

// skipSpaces is the place of the first byte from i on that is no space; behind is the one after the last before i. The bytes are part of an
// object that was scanned.
func skipSpaces(raw []byte, i uint32) uint32 {
	for raw[i] <= ' ' {
		i++
	}
	return i
}

func skipSpacesBack(raw []byte, i uint32) uint32 {
	for raw[i-1] <= ' ' {
		i--
	}
	return i
}

// Extend adds members to the end of an object from which none are dropped: they begin with a comma.
func Extend(m *wire.Message, obj wire.Span, members []byte) {
	end := wire.Span{From: obj.To - 1, To: obj.To - 1}
	if skipSpacesBack(m.Raw, end.From) == obj.From+1 {
		members = members[1:]
	}
	m.Replace(end, members)
}
