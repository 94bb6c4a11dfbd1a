package era

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// A legacy server's cursors need not count in another session than that which gave them (2025-11-25 pagination), and the
// calls of a modern client may run in several. So a cursor goes to the client together with its session, sealed.

// cursorTime is how long a cursor can be used.
const cursorTime = 24 * time.Hour

// cursorBound is what a cursor is bound to.
func cursorBound(ex *proxy.Exchange, server string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "cursor %q %q %q", ex.Caller.Principal, server, ex.Msg.Text(ex.Msg.Method)))
}

// pages reports whether the method's result comes in pages; a member of that name elsewhere is the server's own affair.
func pages(method string) bool { return strings.HasSuffix(method, "/list") }

// turnPage takes the server's own cursor out of the client's, and remembers the session. What is none that was given out
// here is for the server to judge.
func turnPage(ex *proxy.Exchange, method, server string, sealer *seal.Sealer) (session uint64) {
	m := &ex.Msg
	if !pages(method) || !m.Cursor.IsString(m.Raw) {
		return 0
	}
	kind, body, err := sealer.Open(string(m.Text(m.Cursor)), cursorBound(ex, server), time.Now())
	if err == nil && kind == seal.Page && len(body) > 8 {
		session = binary.BigEndian.Uint64(body)
		m.Replace(m.Cursor, body[8:])
	}
	return session
}

// pageMark puts the session beside the cursor of a result's next page.
func pageMark(m *wire.Message, ex *proxy.Exchange, method, server string, session uint64, sealer *seal.Sealer) {
	if !pages(method) {
		return
	}
	next := wire.Get(m.Raw, m.Result, "nextCursor")
	if !next.IsString(m.Raw) {
		return
	}
	body := append(binary.BigEndian.AppendUint64(nil, session), next.Of(m.Raw)...)
	sealed := sealer.Seal(seal.Page, body, cursorBound(ex, server), time.Now().Add(cursorTime))
	m.Replace(next, wire.AppendText(nil, sealed))
}
