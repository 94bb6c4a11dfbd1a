package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"time"
)

func reloadKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "reload.watch", std: "2s", doc: "how often to look whether the file of the configuration, or one that it refers to, has changed",
			field: func(c *Config) field {
				return durationField{at: &c.Reload.Watch, least: 500 * time.Millisecond, most: time.Hour, zero: "on SIGHUP only"}
			}},
	}
}

// fixedKey is a key, or a table of keys, that holds from the start of the process to its end: with it stand listeners, and what
// clients have in their hands.
type fixedKey struct {
	Key string
	at  func(*Config) any // pointer to where it is kept
}

func FixedKeys() []fixedKey {
	return []fixedKey{
		{hostKey, func(c *Config) any { return &c.Service.Host }},
		{portKey, func(c *Config) any { return &c.Service.Port }},
		{adminKey, func(c *Config) any { return &c.Admin.Listen }},
		{"log.format", func(c *Config) any { return &c.Log.Format }},
		{"keepalive", func(c *Config) any { return &c.Keepalive }},
		{"keep_awake", func(c *Config) any { return &c.KeepAwake }},
		{"tls", func(c *Config) any { return &c.TLS }},
		{"limits.request_body", func(c *Config) any { return &c.Limits.RequestBody }},
		{"limits.header", func(c *Config) any { return &c.Limits.Header }},
		{"limits.streams", func(c *Config) any { return &c.Limits.Streams }},
		{"limits.connections", func(c *Config) any { return &c.Limits.Connections }},
		{"limits.read_time", func(c *Config) any { return &c.Limits.ReadTime }},
		{"limits.in_flight_bytes", func(c *Config) any { return &c.Limits.InFlightBytes }},
		{"questions", func(c *Config) any { return &c.Questions }},
		{"resume", func(c *Config) any { return &c.Resume }},
		{"monitoring.metrics_enabled", func(c *Config) any { return &c.Monitoring.MetricsEnabled }},
	}
}

// Hold takes from the configuration before what cannot change while the process runs, and names the keys of which that would be
// something else.
func (c *Config) Hold(before *Config) (held []string) {
	for _, k := range FixedKeys() {
		now, then := reflect.ValueOf(k.at(c)).Elem(), reflect.ValueOf(k.at(before)).Elem()
		if !reflect.DeepEqual(now.Interface(), then.Interface()) {
			now.Set(then)
			held = append(held, k.Key)
		}
	}
	return held
}

// Again reads the configuration again from where it came: file, environment as it was at the start, flags. Secrets that files hold
// are read anew, too. The error is as of [LoadConfig] and [Config.CheckServe].
func (c *Config) Again() (*Config, error) {
	again, err := LoadConfig(c.Loaded)
	if err != nil {
		return nil, err
	}
	return again, again.CheckServe()
}

// Same tells whether two configurations say the same, wherever each says it.
func (c *Config) Same(other *Config) bool {
	a, b := *c, *other
	for _, x := range []*Config{&a, &b} {
		x.sources, x.Loaded, x.secretFiles, x.Seen, x.Warnings = nil, LoadOptions{}, nil, "", nil
	}
	return reflect.DeepEqual(a, b)
}

// Files are the files that the configuration was read from, in order: a change of one is a reason to read it again. What TLS and
// the keys of an issuer are read from is not among them: these are looked after where they are used.
func (c *Config) Files() []string {
	all := append([]string{c.Loaded.File, c.Security.Auth.KeysFile}, c.secretFiles...)
	for _, u := range c.Upstreams {
		all = append(all, u.EnvFile, u.CAFile)
	}
	for i, path := range all {
		if path != "" {
			all[i] = filepath.Clean(path)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(path string) bool { return path == "" })
}
