package config

// Keys of the admin listener that errors name.
const (
	PprofKey       = "admin.pprof"
	AllowRemoteKey = "admin.allow_remote"
)

func adminKeys() []setting[Config] {
	return []setting[Config]{
		{Key: PprofKey, std: "false", doc: "serve profiles of the process on the admin listener, below /debug/pprof",
			field: func(c *Config) field { return boolField{at: &c.Admin.Pprof} }},
		{Key: AllowRemoteKey, std: "false", doc: "serve /config, /loglevel and profiles although the admin listener is not loopback",
			field: func(c *Config) field { return boolField{at: &c.Admin.AllowRemote} }},
	}
}
