package app

import (
	"strings"

	"github.com/goccy/go-json"
	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/adapters/subregistry"
	"dragoman/internal/app/component"
	"dragoman/internal/app/target"
	"dragoman/internal/config"
	"dragoman/policies/access"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// listing is what the list of servers is made of.
type listing struct {
	cfg       *config.Config
	targets   *target.Set
	scopes    *access.ScopePolicy      // nil: nothing needs scopes
	described func() map[string]string // what operators say of servers, by name
}

// listServers serves the servers as an MCP registry.
func listServers(s httpserver.Registrar, set *component.Set, l *listing) error {
	changes, err := component.Get(set, "subregistry", nil, component.Spec[*subregistry.Changes]{Build: func(prometheus.Registerer) (*subregistry.Changes, error) {
		return new(subregistry.Changes), nil
	}})
	if err != nil {
		return err
	}
	service := l.cfg.Service.Name
	subregistry.Register(s, subregistry.Options{Namespace: l.cfg.Subregistry.NamespaceOf(service), Service: service, Base: strings.TrimSuffix(l.cfg.Security.Auth.JWT.Resource, "/"), Servers: l.usable}, changes)
	return nil
}

// usable returns the servers that a caller may use, in any order. Those that an operator has disconnected are not among them.
func (l *listing) usable(caller proxy.Caller) (all []subregistry.Server) {
	descriptions := l.described()
	for _, t := range l.targets.All {
		up := l.cfg.Upstream(t.Name())
		if up.Disconnected || !l.admits(t, caller) {
			continue
		}
		var info struct{ Version string }
		_ = json.Unmarshal(t.ServerInfo(), &info) // invalid info has no version
		one := subregistry.Server{Name: t.Name(), Description: descriptions[t.Name()], Version: info.Version}
		if l.targets.Catalogue != nil {
			if known := l.targets.Catalogue.Snapshot().Server(t.Name()); known != nil {
				one.Since = known.Registered
			}
		}
		all = append(all, one)
	}
	return all
}

// admits reports whether the scopes of a caller let it ask a server what it is.
func (l *listing) admits(t *target.Target, caller proxy.Caller) bool {
	shown := l.scopes.Shown(t.Name())
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
