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

// A legacy server's cursor may be valid only in the session that issued it (2025-11-25 pagination), and the calls of a modern client
// may run in several sessions. So the client receives the cursor sealed together with the number of its session.

// cursorTime is how long a cursor is valid.
const cursorTime = 24 * time.Hour

// cursorBound returns the binding of a cursor: principal, server and method.
func cursorBound(ex *proxy.Exchange, server string) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "cursor %q %q %q", ex.Caller.Principal, server, ex.Msg.Text(ex.Msg.Method)))
}

// pages reports whether the method's result is paginated; elsewhere a member of that name belongs to the server.
func pages(method string) bool { return strings.HasSuffix(method, "/list") }

// turnPage replaces the client's cursor by the server's own and returns its session. A cursor that was not issued here
// passes unchanged to the server.
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

// pageMark seals the cursor of a result's next page together with the session.
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
