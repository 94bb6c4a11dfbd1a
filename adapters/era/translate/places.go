package translate

import "dragoman/proxy/wire"

// Edits at the positions that the scan found. They avoid parsing an object again, which for a large one takes as long as the scan.

// knownMember is a member of an object whose value the scan has located.
type knownMember struct {
	key   string
	value wire.Span // not present: the object has no such member
}

// drop removes members, given in any order, from an object. It returns false, without any change, if their positions
// alone do not suffice.
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
		if next := wire.SkipSpace(m.Raw, cut.To); m.Raw[next] == ',' {
			cut.To = wire.SkipSpace(m.Raw, next+1)
			continue
		}
		for j := i - 1; j >= 0 && cuts[j].To == cut.From; j-- { // at the end of the object: remove the comma before the dropped members
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

// keyAt returns the position of the key of a member, if it is written without escapes.
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

// skipSpacesBack returns the position after the last byte before i that is not a space.
func skipSpacesBack(raw []byte, i uint32) uint32 {
	for raw[i-1] <= ' ' {
		i--
	}
	return i
}

// Extend appends members, which begin with a comma, to an object from which none are dropped.
func Extend(m *wire.Message, obj wire.Span, members []byte) {
	end := wire.Span{From: obj.To - 1, To: obj.To - 1}
	if skipSpacesBack(m.Raw, end.From) == obj.From+1 {
		members = members[1:]
	}
	m.Replace(end, members)
}
