package work

import (
	"context"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// AnswerTime bounds the sending of an answer to a server that does not read.
const AnswerTime = 10 * time.Second

// Refuse answers a question of a server that no client can answer, in the background: ping with an empty result, all others with the
// error "method not found". A nil link, of a server that asks before the handshake, which it must not, gets no answer.
func Refuse(g *Group, link transport.Link, m *wire.Message) {
	if link == nil {
		return
	}
	id := m.Of(m.ID)
	var answer wire.Message
	if m.Is("ping") {
		answer = proxy.ResultMessage(id, []byte("{}"))
	} else {
		answer = proxy.ErrorMessage(id, proxy.Errf(proxy.MethodNotFound, "%s is not supported in this context: no call of a client that declared it is under way", m.Text(m.Method)))
	}
	g.Spawn(func() { Answer(g.Context(), g, link, answer.Raw) })
}

// Answer sends an answer to a server's question, for AnswerTime at most, and logs an error.
func Answer(ctx context.Context, g *Group, link transport.Link, raw []byte) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err := link.Send(ctx, raw); err != nil {
		g.Note("debug", "an answer to the upstream's question could not be sent", err)
	}
}
