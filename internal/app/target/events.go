package target

import (
	"dragoman/adapters/events"
	"dragoman/adapters/merge/lists"
	"dragoman/policies/health"
	"dragoman/proxy/wire"
)

// Types of the events about servers.
const (
	stateChanged       = "dev.dragoman.server.state"
	definitionsChanged = "dev.dragoman.definitions.changed"
)

// reportState makes a change of a server's state an event, but for further attempts to reach one that is known to be down.
func reportState(to *events.Emitter, name string, c health.Change) {
	if c.Again {
		return
	}
	to.Report(events.Own{Type: stateChanged, Server: name, Data: func(b *wire.Builder) {
		b.Text("server", name)
		b.Text("from", string(c.From))
		b.Text("to", string(c.To))
		b.Text("reason", wire.ShownText(c.Reason))
	}})
}

// maxNamedThings bounds the names of things in an event about definitions, of each way in which they can change.
const maxNamedThings = 100

// reportDefinitions returns a function that makes a change of a list an event.
func reportDefinitions(to *events.Emitter) func(lists.Change) {
	return func(c lists.Change) {
		to.Report(events.Own{Type: definitionsChanged, Server: c.Server, Data: func(b *wire.Builder) {
			b.Text("server", c.Server)
			b.Text("kind", c.Kind.String())
			names := func(key string, all []string) {
				b.Key(key)
				b.Raw = append(b.Raw, '[')
				for i, name := range all[:min(len(all), maxNamedThings)] {
					if i > 0 {
						b.Raw = append(b.Raw, ',')
					}
					b.Raw = wire.AppendShown(b.Raw, name)
				}
				b.Raw = append(b.Raw, ']')
			}
			names("added", c.Added)
			names("changed", c.Changed)
			names("removed", c.Removed)
		}})
	}
}
