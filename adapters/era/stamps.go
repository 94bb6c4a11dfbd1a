package era

import (
	"bytes"
	"sync/atomic"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// clientMeta returns the members of _meta that describe a legacy client to a modern server.
func clientMeta(c *proxy.Client, tasks bool) []wire.Change {
	var level []byte
	if c.LogLevel != "" {
		level = wire.AppendText(nil, c.LogLevel)
	}
	caps := translate.ModernCaps(c.Caps, c.Version)
	if tasks {
		caps = translate.WithTasksExtension(caps)
	}
	return append(rules.ModernMeta(c.Info, caps), wire.Change{Key: wire.MetaPrefix + "logLevel", Value: level},
		wire.Change{Key: wire.MetaPrefix + "subscriptionId"}, wire.Change{Key: wire.MetaPrefix + "serverInfo"})
}

// recentMost bounds the bytes cached for a client; most describe themselves in a few hundred.
const recentMost = 4 << 10

// metaMember returns the member _meta that describes a client, with a leading comma.
func metaMember(c *proxy.Client, tasks bool) []byte {
	return append([]byte(`,"_meta":`), wire.Object(clientMeta(c, tasks))...)
}

// modernCaps returns translate.ModernCaps of a client.
func modernCaps(c *proxy.Client, _ bool) []byte { return translate.ModernCaps(c.Caps, c.Version) }

// clientCache caches what is built from the descriptions of recent clients, which describe themselves alike in every request.
type clientCache struct {
	recent [16]atomic.Pointer[cachedClient]
}

type cachedClient struct {
	of    proxy.Client
	tasks bool
	built []byte
}

// of returns what build returns for a client; it must not be changed.
func (x *clientCache) of(c *proxy.Client, tasks bool, build func(c *proxy.Client, tasks bool) []byte) []byte {
	size := len(c.Info) + len(c.Caps) + len(c.LogLevel)
	place := &x.recent[size%len(x.recent)]
	if s := place.Load(); s != nil && s.tasks == tasks && s.of.Version == c.Version && s.of.LogLevel == c.LogLevel &&
		bytes.Equal(s.of.Info, c.Info) && bytes.Equal(s.of.Caps, c.Caps) {
		return s.built
	}
	s := &cachedClient{of: *c, tasks: tasks, built: build(c, tasks)}
	if size <= recentMost {
		s.of.Info, s.of.Caps = bytes.Clone(c.Info), bytes.Clone(c.Caps)
		place.Store(s)
	}
	return s.built
}

// edits is storage for the edits of a message before a call, and for the copy to which the call adds its own.
type edits struct{ own, copied [4]wire.Edit }

// open makes a message without edits use this storage.
func (x *edits) open(m *wire.Message) {
	if len(m.Edits) == 0 {
		m.Edits = x.own[:0]
	}
}

// lend copies edits for a call that adds its own. It may be called once.
func (x *edits) lend(e []wire.Edit) []wire.Edit { return append(x.copied[:0], e...) }
