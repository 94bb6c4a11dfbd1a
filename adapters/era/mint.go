package era

import (
	"bytes"
	"strconv"

	"dragoman/proxy/wire"
)

// Minted is an id, and a progress token, that stand for a client's own while a request is under way: a link gives one to
// each request where several clients, or several sessions, share what the server tells requests apart by.
type Minted struct {
	ID        []byte // what the server sees, raw JSON
	Token     []byte // likewise; no token: nil
	id, token []byte // the client's own, raw JSON; no token: nil
}

// Mint puts the number n in the place of a request's id, and of its progress token if it has one.
func Mint(m *wire.Message, n uint64) *Minted {
	x := &Minted{ID: strconv.AppendUint(nil, n, 10), id: bytes.Clone(m.Of(m.ID)), token: bytes.Clone(m.Of(m.Token))}
	m.Replace(m.ID, x.ID)
	if x.token != nil {
		x.Token = append(strconv.AppendUint([]byte(`"p`), n, 10), '"')
		m.Replace(m.Token, x.Token)
	}
	return x
}

// Restore gives a reply the client's own id or token, to the byte.
func (x *Minted) Restore(m *wire.Message) {
	switch {
	case m.IsResponse():
		if m.ID.Present() {
			m.Replace(m.ID, x.id)
		}
	case x.token != nil && m.ProgressToken.Present() && m.Is("notifications/progress"):
		m.Replace(m.ProgressToken, x.token)
	}
}
