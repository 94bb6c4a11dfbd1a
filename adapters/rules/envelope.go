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

// Unsupported makes the error that names the revisions a request may carry: the modern ones. Legacy ones are for
// initialize.
func Unsupported(requested string) *proxy.Error {
	e := proxy.Errf(proxy.BadVersion, "protocol revision %q is not supported for single requests", requested)
	return unsupported(e, modernVersions, requested)
}

// Named gives the revision that a request names, which is one that is served.
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
