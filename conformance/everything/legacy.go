package everything

import (
	"dragoman/adapters/rules"
	"dragoman/conformance/everything/changes"
	"dragoman/conformance/everything/content"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// askLegacy answers the methods that only legacy revisions have. The caller records the changes of the session (its
// revision, its log level).
func (s *Server) askLegacy(ex *proxy.Exchange, m *wire.Message) ([]byte, *proxy.Error) {
	switch method := string(m.Text(m.Method)); method {
	case "initialize":
		version := rules.Settle(string(m.Text(m.ParamsVersion)))
		return s.result(proxy.Legacy, content.Complete, `"protocolVersion":`+content.Quote(version)+`,"serverInfo":`+s.info+`,`+s.discovery), nil
	case "ping":
	case "logging/setLevel":
		if !rules.ValidLevel(m.Text(m.Level)) {
			return nil, proxy.Errf(proxy.InvalidParams, "params.level must be one of %v", rules.LogLevels)
		}
	case "resources/subscribe", "resources/unsubscribe":
		if refusal := s.subscribe(ex.Session, m, method == "resources/subscribe"); refusal != nil {
			return nil, refusal
		}
	default:
		return nil, proxy.Errf(proxy.MethodNotFound, "method not found: %s", method)
	}
	return []byte("{}"), nil
}

// subscribe adds a resource to the session's subscriptions, or removes it. Removing an unknown one does nothing.
func (s *Server) subscribe(to *proxy.Session, m *wire.Message, on bool) *proxy.Error {
	if !m.URI.IsString(m.Raw) {
		return proxy.Errf(proxy.InvalidParams, "params.uri must be a string")
	}
	uri := string(m.Text(m.URI))
	switch {
	case to == nil:
		return proxy.Errf(proxy.SessionMissing, "there is no session that could be told of updates")
	case !on:
		s.subscribers.Unwatch(to, uri)
	case !s.canWatch(uri):
		return notFound(proxy.Legacy, uri)
	case !s.subscribers.Watch(to, uri):
		return proxy.Errf(proxy.InvalidParams, "more than %d resources are watched in this session", changes.MaxWatched)
	}
	return nil
}
