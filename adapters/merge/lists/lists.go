// Package lists reads what servers list, and keeps it in the catalogue. It asks them in sessions of Dragoman's own, or of a client.
package lists

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/work"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/session"
	"dragoman/proxy/wire"
)

// Bounds of what a server may list.
const (
	maxPages = 1000
	maxItems = 10_000
	maxBytes = 64 << 20
)

// Asker sends requests in a session.
type Asker interface {
	Ask(ctx context.Context, method string, params []wire.Change) (wire.Message, error)
}

// Ask sends a request of Dragoman's own in a legacy session at a server, on behalf of a caller, and waits for its response until ctx ends.
// What the server asks meanwhile is refused.
func Ask(ctx context.Context, s *proxy.Session, do proxy.Handler, caller proxy.Caller, method string, params []wire.Change) (wire.Message, error) {
	m, err := wire.Scan(Request(method, params))
	if err != nil {
		return m, proxy.Errf(proxy.Internal, "a request to a server is no message: %w", err)
	}
	inner := &proxy.Exchange{Msg: m, Caller: caller, Target: s.Server, Own: true}
	defer inner.Release()
	defer inner.Follow(ctx)()
	replies, err := session.Run(s, inner, do)
	if err == nil {
		until, _ := ctx.Deadline()
		m, err = proxy.Response(asked{replies, s, do}, until)
	}
	if err != nil {
		return m, inner.Why(err)
	}
	return m, nil
}

// asked are the replies to a request of Dragoman's own.
type asked struct {
	proxy.Replies
	session *proxy.Session
	do      proxy.Handler
}

// Next implements proxy.Replies. It refuses questions.
func (a asked) Next(until time.Time) (*wire.Message, error) {
	m, err := a.Replies.Next(until)
	if err == nil && m.Kind == wire.Request {
		refuse(a.session, m, a.do)
	}
	return m, err
}

// refuse answers a question that a server asks Dragoman's own session: nobody is there who could answer it.
func refuse(s *proxy.Session, m *wire.Message, do proxy.Handler) {
	session.Deliver(s, &proxy.Exchange{Msg: work.Refusal(m), Caller: s.Caller, Target: s.Server, Own: true}, do)
}

// Request returns a request of Dragoman's own. Its id is unlike all others, since several may be under way in one session.
func Request(method string, params []wire.Change) []byte {
	raw := append([]byte(`{"jsonrpc":"2.0","id":"dragoman-`+proxy.NewRequestID()+`","method":"`+method+`","params":`), wire.Object(params)...)
	return append(raw, '}')
}

// errTooMuch means that a server lists more than is kept.
var errTooMuch = errors.New("the server lists too much")

// refusedError is the error of a server that answers, but with an error.
type refusedError struct{ error }

// Unwrap returns the error that clients may see.
func (e *refusedError) Unwrap() error { return e.error }

// Fetch reads all pages of a list.
func Fetch(ctx context.Context, own Asker, kind catalogue.Kind) (l catalogue.List, err error) {
	var cursor []byte
	size := 0
	l.TTL = -1
	for range maxPages {
		m, err := own.Ask(ctx, kind.Method(), []wire.Change{{Key: "cursor", Value: cursor}})
		if err != nil {
			return l, err
		}
		if m.Kind == wire.Failure && m.ErrorCode == proxy.CodeMethodNotFound && cursor == nil {
			return catalogue.List{}, nil // such as templates, which not all servers of resources have
		}
		if m.Kind == wire.Failure {
			why := proxy.Errf(proxy.BadAnswer, "the server answers %s with the error %d %s", kind.Method(), m.ErrorCode, m.Text(m.ErrorText))
			return l, &refusedError{why}
		}
		if size += len(m.Raw); size > maxBytes {
			return l, errTooMuch
		}
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, kind.Member())) {
			key := wire.Get(m.Raw, item, kind.Key())
			if !item.IsObject(m.Raw) || !key.IsString(m.Raw) {
				continue
			}
			l.Items = append(l.Items, catalogue.Item{Key: string(key.Text(m.Raw)), Raw: bytes.Clone(item.Of(m.Raw))})
		}
		if len(l.Items) > maxItems {
			return l, errTooMuch
		}
		hints(&l, &m)
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return l, nil
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return l, errTooMuch
}

// hints notes how a page may be cached (2026-07-28 caching): a list as its strictest page.
func hints(l *catalogue.List, page *wire.Message) {
	ms, err := strconv.ParseInt(string(wire.Get(page.Raw, page.Result, "ttlMs").Of(page.Raw)), 10, 64)
	ttl := time.Duration(ms) * time.Millisecond
	if err != nil || ms < 0 || ms > 1<<40 {
		ttl = 0
	}
	if l.TTL < 0 || ttl < l.TTL {
		l.TTL = ttl
	}
	l.Private = l.Private || wire.Get(page.Raw, page.Result, "cacheScope").Is(page.Raw, "private") && ttl > 0
}

// Changed returns the kinds whose lists a notification says have changed.
func Changed(m *wire.Message) []catalogue.Kind {
	switch {
	case m.Is(rules.ListChanged("tools")):
		return []catalogue.Kind{catalogue.Tools}
	case m.Is(rules.ListChanged("prompts")):
		return []catalogue.Kind{catalogue.Prompts}
	case m.Is(rules.ListChanged("resources")):
		return []catalogue.Kind{catalogue.Resources, catalogue.Templates}
	}
	return nil
}
