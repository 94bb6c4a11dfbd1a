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
	return []wire.Change{
		{Key: wire.MetaPrefix + "protocolVersion", Value: []byte(`"` + rules.ModernVersion + `"`)},
		{Key: wire.MetaPrefix + "clientInfo", Value: c.Info},
		{Key: wire.MetaPrefix + "clientCapabilities", Value: caps},
		{Key: wire.MetaPrefix + "logLevel", Value: level},
		{Key: wire.MetaPrefix + "subscriptionId"}, {Key: wire.MetaPrefix + "serverInfo"},
	}
}

// recentMost bounds the bytes cached for a client; most describe themselves in a few hundred.
const recentMost = 4 << 10

// metaCache caches the _meta member of recent clients, which describe themselves alike in every request.
type metaCache struct {
	recent [16]atomic.Pointer[cachedMeta]
}

type cachedMeta struct {
	of     proxy.Client
	tasks  bool
	member []byte
}

// of returns the _meta member for a client, with a leading comma.
func (x *metaCache) of(c *proxy.Client, tasks bool) []byte {
	size := len(c.Info) + len(c.Caps) + len(c.LogLevel)
	place := &x.recent[size%len(x.recent)]
	if s := place.Load(); s != nil && s.tasks == tasks && s.of.Version == c.Version && s.of.LogLevel == c.LogLevel &&
		bytes.Equal(s.of.Info, c.Info) && bytes.Equal(s.of.Caps, c.Caps) {
		return s.member
	}
	s := &cachedMeta{of: *c, tasks: tasks, member: append([]byte(`,"_meta":`), wire.Object(clientMeta(c, tasks))...)}
	if size <= recentMost {
		s.of.Info, s.of.Caps = bytes.Clone(c.Info), bytes.Clone(c.Caps)
		place.Store(s)
	}
	return s.member
}

// capsCache caches the results of translate.ModernCaps for recent clients.
type capsCache struct {
	recent [16]atomic.Pointer[cachedCaps]
}

type cachedCaps struct {
	caps    []byte
	version string
	modern  []byte
}

// of returns translate.ModernCaps(caps, version); the result must not be changed.
func (x *capsCache) of(caps []byte, version string) []byte {
	place := &x.recent[len(caps)%len(x.recent)]
	if d := place.Load(); d != nil && d.version == version && bytes.Equal(d.caps, caps) {
		return d.modern
	}
	d := &cachedCaps{bytes.Clone(caps), version, translate.ModernCaps(caps, version)}
	if len(caps) <= recentMost {
		place.Store(d)
	}
	return d.modern
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
