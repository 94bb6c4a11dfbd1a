package app

import (
	"strings"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/subregistry"
	"dragoman/internal/app/component"
	"dragoman/internal/app/target"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// subregistry serves the servers as an MCP registry, if that is on.
func (g *Generation) subregistry(s httpserver.Registrar) error {
	c := g.Cfg
	if !c.Subregistry.Enabled {
		return nil
	}
	changes, err := component.Get(g.components, "subregistry", nil, component.Spec[*subregistry.Changes]{Build: func(prometheus.Registerer) (*subregistry.Changes, error) {
		return new(subregistry.Changes), nil
	}})
	if err != nil {
		return err
	}
	subregistry.Register(s, subregistry.Options{Namespace: c.Subregistry.NamespaceOf(c.Service.Name), Service: c.Service.Name,
		Base: strings.TrimSuffix(c.Security.Auth.JWT.Resource, "/"), Servers: g.usable}, changes)
	return nil
}

// usable returns the servers that a caller may use, in any order. Those that an operator has disconnected are not among them.
func (g *Generation) usable(caller proxy.Caller) (all []subregistry.Server) {
	descriptions := g.registry.Descriptions()
	for _, t := range g.Targets.All {
		up := g.Cfg.Upstream(t.Name())
		if up.Disconnected || !g.admits(t, caller) {
			continue
		}
		var info struct{ Version string }
		_ = json.Unmarshal(t.ServerInfo(), &info) // invalid info has no version
		one := subregistry.Server{Name: t.Name(), Description: descriptions[t.Name()], Version: info.Version}
		if g.Targets.Catalogue != nil {
			if known := g.Targets.Catalogue.Snapshot().Server(t.Name()); known != nil {
				one.Since = known.Registered
			}
		}
		all = append(all, one)
	}
	return all
}

// admits reports whether the scopes of a caller let it ask a server what it is.
func (g *Generation) admits(t *target.Target, caller proxy.Caller) bool {
	shown := g.identity.scopes.Shown(t.Name())
	if shown == nil {
		return true
	}
	request, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":0,"method":"server/discover"}`))
	if err != nil {
		return false
	}
	replies, err := shown(func(*proxy.Exchange) (proxy.Replies, error) { return proxy.Reply(wire.Message{}), nil })(&proxy.Exchange{Msg: request, Caller: caller, Server: t.Name(), Target: t.Name(), Own: true})
	if err != nil {
		return false
	}
	_ = replies.Close()
	return true
}
