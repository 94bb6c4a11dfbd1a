package rules

import (
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Envelope checks what every modern request carries in params._meta, whatever its transport (2026-07-28 basic, _meta):
// the revision, which must be one that is served, and the client's capabilities. clientInfo may be absent.
func Envelope(m *wire.Message) *proxy.Error {
	if err := EnvelopeVersion(m); err != nil {
		return err
	}
	if method := m.Text(m.Method); Removed(method) {
		return proxy.Errf(proxy.MethodNotFound, "method %s does not exist in revision %s", method, m.Text(m.Version))
	}
	return EnvelopeRest(m)
}

// EnvelopeVersion checks the revision.
func EnvelopeVersion(m *wire.Message) *proxy.Error {
	if !m.Version.IsString(m.Raw) {
		return proxy.Errf(proxy.InvalidEnvelope, "params._meta[%q] is missing", wire.MetaPrefix+"protocolVersion")
	}
	requested := m.Text(m.Version)
	if Supported(requested) {
		return nil
	}
	return Unsupported(string(requested))
}

// Unsupported returns the error that names the revisions a request may carry: the modern ones. Legacy ones are for
// initialize.
func Unsupported(requested string) *proxy.Error {
	e := proxy.Errf(proxy.BadVersion, "protocol revision %q is not supported for single requests", requested)
	return unsupported(e, modernVersions, requested)
}

// Named returns the revision that a request names, which must be one that is served.
func Named(m *wire.Message) string {
	if m.Version.Is(m.Raw, ModernVersion) {
		return ModernVersion
	}
	return string(m.Text(m.Version))
}

// EnvelopeRest checks the capabilities and the log level.
func EnvelopeRest(m *wire.Message) *proxy.Error {
	if !m.Caps.IsObject(m.Raw) {
		return proxy.Errf(proxy.InvalidEnvelope, "params._meta[%q] must be an object", wire.MetaPrefix+"clientCapabilities")
	}
	if m.LogLevel.Present() && !ValidLevel(m.Text(m.LogLevel)) {
		return proxy.Errf(proxy.InvalidEnvelope, "params._meta[%q] is no log level", wire.MetaPrefix+"logLevel")
	}
	return nil
}

// Classify returns the era of a message that came over HTTP: header is MCP-Protocol-Version (empty: absent), inSession says
// whether it named a session, and is called only if that counts. A message that fits neither belongs to the era whose error explains it best.
//
// An initialize request is legacy whatever it asks for, unless it carries a modern request's _meta. A version in _meta
// makes a request modern, also a legacy version, which cannot be served per request; so does a header at or behind the
// split, and one that is no revision at all.
func Classify(m *wire.Message, header string, inSession func() bool) proxy.Era {
	switch {
	case m.Kind == wire.Batch:
		return proxy.Legacy
	case m.Version.Present():
		return proxy.Modern
	case m.Is("initialize"):
		return proxy.Legacy
	case header != "" && IsModern(header):
		return proxy.Modern
	case header != "" && !KnownLegacy(header) && !inSession():
		return proxy.Modern
	case m.Method.Present() && ModernOnly(m.Text(m.Method)):
		return proxy.Modern
	}
	return proxy.Legacy
}
