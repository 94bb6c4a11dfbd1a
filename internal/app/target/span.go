package target

import (
	"net/url"
	"strconv"
	"strings"

	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/policies/telemetry"
	"dragoman/proxy"
)

// clientSpan returns the policy of an upstream's client span, or nil if tracing is off.
func clientSpan(tracing *telemetry.Tracing, up *config.Upstream, revision func() string) proxy.Policy {
	if tracing == nil {
		return nil
	}
	at := peer(up)
	at.Revision = revision
	return tracing.Ask(at)
}

// peer describes an upstream for its spans.
func peer(up *config.Upstream) telemetry.Peer {
	at := telemetry.Peer{Name: up.Name, Transport: "pipe"}
	if len(up.Command) > 0 {
		return at
	}
	if path, ok := strings.CutPrefix(up.URL, value.UnixScheme); ok {
		at.Transport, at.Address = "unix", path
		return at
	}
	u, err := url.Parse(up.URL)
	if err != nil {
		return at
	}
	at.Transport, at.Address = "tcp", u.Hostname()
	at.Port, _ = strconv.Atoi(u.Port())
	switch u.Scheme {
	case "http", "https":
		if at.Protocol = "http"; at.Port == 0 {
			at.Port = map[string]int{"http": 80, "https": 443}[u.Scheme]
		}
	}
	return at
}
