package work

import (
	"context"
	"time"

	"dragoman/adapters/transport"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// AnswerTime bounds how long a server that does not read can hold up an answer to its question.
const AnswerTime = 10 * time.Second

// Refuse returns a question of a server that cannot be put to any client: ping with an empty result, all others with "method not
// found". It does not wait. A server that asks before anything was sent to it (link is nil) gets no answer: it must not ask before the
// handshake.
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

// Answer sends an answer to a server's question.
func Answer(ctx context.Context, g *Group, link transport.Link, raw []byte) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTime)
	defer cancel()
	if err := link.Send(ctx, raw); err != nil {
		g.Note("debug", "an answer to the upstream's question could not be sent", err)
	}
}
