package era

import (
	"bytes"
	"sync/atomic"

	"dragoman/adapters/era/translate"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// clientMeta is what _meta says of a legacy client to a modern server.
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

// recentMost bounds what is remembered of a client: most say a few hundred bytes of themselves.
const recentMost = 4 << 10

// metaCache remembers what was made of clients lately, as a member of params: they say the same of themselves in every request.
type metaCache struct {
	recent [16]atomic.Pointer[cachedMeta]
}

type cachedMeta struct {
	of     proxy.Client
	tasks  bool
	member []byte
}

// of gives the member _meta for a client, with the comma before it.
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

// capsCache remembers what modernCaps has made of clients' capabilities lately, likewise.
type capsCache struct {
	recent [16]atomic.Pointer[cachedCaps]
}

type cachedCaps struct {
	caps    []byte
	version string
	modern  []byte
}

// of is modernCaps; what it gives is not to be changed.
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

// edits is room for those of a message, as they were before a call, and for those that the call makes of them.
type edits struct{ kept, lent [4]wire.Edit }

// open lets a message that has no edits yet keep them here.
func (x *edits) open(m *wire.Message) {
	if len(m.Edits) == 0 {
		m.Edits = x.kept[:0]
	}
}

// lend copies edits for a call that adds its own. It lends once.
func (x *edits) lend(e []wire.Edit) []wire.Edit { return append(x.lent[:0], e...) }
