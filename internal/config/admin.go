package config

import "net"

// AdminConfig is the admin listener.
type AdminConfig struct {
	// Listen is HOST:PORT (bounds as for the main listener) or "off"; default
	// "127.0.0.1:9090". Whether a user asked for it: Source("admin.listen").Set().
	Listen string
	// Pprof serves profiles of the process below /debug/pprof; default false.
	Pprof bool
	// AllowRemote lets whoever reaches a listener that is not loopback see profiles and configuration and change the level of the
	// log; default false.
	AllowRemote bool
}

// Keys of the admin listener that errors name.
const (
	PprofKey       = "admin.pprof"
	AllowRemoteKey = "admin.allow_remote"
)

// Loopback tells whether only this machine reaches the listener.
func (c *AdminConfig) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && Loopback(host)
}

func adminKeys() []setting[Config] {
	return []setting[Config]{
		{Key: PprofKey, std: "false", doc: "serve profiles of the process on the admin listener, below /debug/pprof",
			field: func(c *Config) field { return boolField{at: &c.Admin.Pprof} }},
		{Key: AllowRemoteKey, std: "false", doc: "serve /config, /loglevel and profiles although the admin listener is not loopback",
			field: func(c *Config) field { return boolField{at: &c.Admin.AllowRemote} }},
	}
}
