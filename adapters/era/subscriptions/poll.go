package subscriptions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"time"

	"dragoman/adapters/era/seal"
	"dragoman/adapters/era/sessions"
	"dragoman/adapters/rules"
	"dragoman/adapters/transport"
	"dragoman/proxy/wire"
)

// Some legacy HTTP servers declare change notices but offer no stream for them: they answer GET with 405. While a client
// listens at such a server, the lists and resources concerned are polled, and a difference makes a notice.

// maxPages bounds the pages read of one list.
const maxPages = 100

// pollUnless has the contents polled unless the server pushes in session s. While it is not known whether it does, it waits for that in
// the background: a server may refuse its stream late. The caller holds l.mu.
func (l *listenBridge) pollUnless(pushes bool, s *sessions.Session) {
	switch known := s.PushKnown(); {
	case l.polling || l.x.opt.Poll <= 0:
	case !pushes:
		l.polling = l.x.work.Spawn(l.poll)
	case known != nil:
		select {
		case <-known:
			return
		default:
		}
		l.x.work.Spawn(func() {
			select {
			case <-known:
				pushes := s.Pushes()
				l.mu.Lock()
				defer l.mu.Unlock()
				if l.session == s {
					l.pollUnless(pushes, s)
				}
			case <-l.stop:
			case <-l.x.work.Context().Done():
			}
		})
	}
}

// poll compares contents until the listen ends. What cannot be read counts as unchanged.
func (l *listenBridge) poll() {
	seen := map[string][32]byte{}
	tick := time.NewTicker(l.x.opt.Poll)
	defer tick.Stop()
	for {
		for _, n := range l.polled() {
			sum, ok := l.digest(n.Key)
			if before, known := seen[n.Key]; ok && known && before != sum {
				l.mu.Lock()
				l.add(n.Key, n.Msg)
				l.mu.Unlock()
			}
			if ok {
				seen[n.Key] = sum
			}
		}
		select {
		case <-tick.C:
		case <-l.stop:
			return
		case <-l.x.work.Context().Done():
			return
		}
	}
}

// polled returns the notices that polling may produce.
func (l *listenBridge) polled() []rules.Notice {
	l.mu.Lock()
	defer l.mu.Unlock()
	return rules.AllChanged(l.lists, l.subs)
}

// digest hashes the list or resource of a notice; ok is false if it cannot be read now.
func (l *listenBridge) digest(key string) (sum [32]byte, ok bool) {
	l.mu.Lock()
	s := l.session
	l.mu.Unlock()
	if s == nil {
		return sum, false
	}
	ctx, cancel := context.WithTimeout(l.ex, l.x.opt.Timeout)
	defer cancel()
	all := sha256.New()
	method, params := pollRequest(key)
	cursor := []byte(nil)
	for range maxPages {
		m, err := pollAsk(ctx, s.Link(), method, append(params, wire.Change{Key: "cursor", Value: cursor}))
		if err != nil || m.Kind != wire.Result {
			return sum, false
		}
		_, _ = all.Write(seal.Canonical(nil, m.Raw, m.Result, "_meta", "ttlMs"))
		next := wire.Get(m.Raw, m.Result, "nextCursor")
		if !next.IsString(m.Raw) || bytes.Equal(next.Of(m.Raw), cursor) {
			return [32]byte(all.Sum(nil)), true
		}
		cursor = bytes.Clone(next.Of(m.Raw))
	}
	return sum, false
}

// pollRequest returns the request that reads the list or resource of a notice.
func pollRequest(key string) (method string, params []wire.Change) {
	for _, list := range rules.NoticeLists {
		if key == rules.ListChanged(list) {
			return list + "/list", nil
		}
	}
	return "resources/read", []wire.Change{{Key: "uri", Value: wire.AppendText(nil, rules.NoticeURI(key))}}
}

func pollAsk(ctx context.Context, link transport.Link, method string, params []wire.Change) (wire.Message, error) {
	raw := append([]byte(`{"jsonrpc":"2.0","id":"poll","method":"`+method+`","params":`), wire.Object(params)...)
	return transport.AskLegacy(ctx, link, append(raw, '}'))
}
