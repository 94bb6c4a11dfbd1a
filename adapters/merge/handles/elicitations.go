package handles

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// PublicElicitations replaces the ids by which a server tells a legacy client of questions that are answered on a page (2025-11-25
// elicitation, URL mode): in the question, in the error that lists such questions, and in the notification that one is answered. The client
// compares them, and sends none back.
func PublicElicitations(m *wire.Message, server string) {
	replace := func(at wire.Span) {
		if at.IsString(m.Raw) {
			m.Replace(at, wire.AppendText(nil, Join(server, string(at.Text(m.Raw)))))
		}
	}
	switch {
	case m.Kind == wire.Failure && m.ErrorCode == proxy.CodeURLElicitation:
		for _, at := range wire.Items(m.Raw, wire.Get(m.Raw, m.ErrorData, "elicitations")) {
			replace(wire.Get(m.Raw, at, "elicitationId"))
		}
	case m.Is("elicitation/create"), m.Is("notifications/elicitation/complete"):
		replace(wire.Get(m.Raw, m.Params, "elicitationId"))
	}
}
