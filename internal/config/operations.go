package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
	"dragoman/policies/telemetry"
)

// auditFileKey is the key of the audit trail's file.
const auditFileKey = "audit.file"

// secretNames are parts of names whose values are likely to be secrets.
const secretNames = "password,passwd,passphrase,pwd,secret,token,authorization,credential,api_key,private_key,access_key,cookie,session_id,otp,cvv"

func logKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "log.access", std: telemetry.LogErrors, doc: "requests that get a line in the log: none, failed ones (at level debug all), or all",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Log.Access, Values: []string{telemetry.LogNone, telemetry.LogErrors, telemetry.LogAll}}
			}},
		{Key: "audit.enabled", std: "false", doc: "write an audit trail: a JSON line for each call, with caller and outcome",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Audit.Enabled} }},
		{Key: auditFileKey, std: "", doc: "file of the audit trail, which is appended to and reopened on SIGHUP; empty: standard error",
			field: func(c *Config) field.Field { return field.Text{At: &c.Audit.File, What: "a file", Empty: true} }},
		{Key: "audit.methods", std: "tools/call", doc: "methods whose requests are audited; * is all",
			field: func(c *Config) field.Field {
				return field.List{At: &c.Audit.Methods, Check: checkMethod, What: "a list of methods such as tools/call, or *", Least: 1, Most: maxList, Commas: true}
			}},
		{Key: "audit.arguments", std: telemetry.ArgumentsNone, doc: "what a line holds of arguments: nothing, the outermost names, all but secrets, or all",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Audit.Arguments, Values: []string{telemetry.ArgumentsNone, telemetry.ArgumentsKeys, telemetry.ArgumentsRedacted, telemetry.ArgumentsFull}}
			}},
		{Key: "audit.redact", std: secretNames, doc: "parts of names, in any case, whose values are redacted",
			field: func(c *Config) field.Field {
				return field.List{At: &c.Audit.Redact, Check: field.CheckArgument, What: "a list of parts of names", Most: maxList, Commas: true}
			}},
		{Key: "audit.value_bytes", std: "256B", doc: "most bytes of each text in arguments; longer ones are cut",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Audit.ValueBytes, Least: 16, Most: 64 * field.Kib}
			}},
		{Key: "audit.argument_bytes", std: "8KiB", doc: "most bytes of a call's arguments; the rest is left out",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Audit.ArgumentBytes, Least: 256, Most: field.Mib}
			}},
		{Key: "audit.queue", std: "4MiB", doc: "most bytes of lines that wait to be written",
			field: func(c *Config) field.Field {
				return field.Size{At: &c.Audit.Queue, Least: 64 * field.Kib, Most: field.Gib}
			}},
		{Key: "audit.on_full", std: "drop", doc: "what happens to a line when the queue is full: it is dropped and counted, or its request waits",
			field: func(c *Config) field.Field { return field.Enum{At: &c.Audit.OnFull, Values: []string{"drop", "block"}} }},
	}
}

func checkMethod(entry string) error {
	if entry == "" || len(entry) > maxName || value.HasControl(entry) {
		return value.Problemf("%q is no method", value.Shorten(entry))
	}
	return nil
}

// checkAudit reports an audit.file that cannot exist.
func (l *loader) checkAudit() {
	c := &l.cfg.Audit
	from := l.cfg.sources[auditFileKey]
	if c.File == "" || !c.Enabled {
		return
	}
	if info, err := os.Stat(c.File); err == nil && info.IsDir() {
		l.fail(&value.Problem{What: fmt.Sprintf("%q is a directory", value.Shorten(c.File)), Fix: "name a file in it"}, auditFileKey, from, "")
		return
	}
	if info, err := os.Stat(filepath.Dir(c.File)); err != nil || !info.IsDir() {
		l.fail(&value.Problem{What: fmt.Sprintf("%q is in no directory that there is", value.Shorten(c.File)), Fix: "create the directory"}, auditFileKey, from, "")
	}
}

// Keys of the admin listener that errors name.
const (
	PprofKey       = "admin.pprof"
	AllowRemoteKey = "admin.allow_remote"
)

func adminKeys() []setting[Config] {
	return []setting[Config]{
		{Key: PprofKey, std: "false", doc: "serve profiles of the process on the admin listener, below /debug/pprof",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Admin.Pprof} }},
		{Key: AllowRemoteKey, std: "false", doc: "serve /config, /loglevel and profiles although the admin listener is not loopback",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Admin.AllowRemote} }},
	}
}

func reloadKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "reload.watch", std: "2s", doc: "interval at which the configuration file and the files that it names are checked for changes",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Reload.Watch, Least: 500 * time.Millisecond, Most: time.Hour, Zero: "on SIGHUP only"}
			}},
	}
}

// fixedKey is a key, or a table of keys, that cannot change while the process runs: listeners, and state that clients
// hold, depend on it.
type fixedKey struct {
	Key string
	at  func(*Config) any // pointer to its value
}

// FixedKeys returns the keys whose change needs a restart.
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

// Hold copies the values of fixed keys from the configuration before, and returns the keys whose values differed.
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

// Again loads the configuration again from the same file, the environment as it was at the start, and the flags.
// Secrets in files are read anew. The error is that of [LoadConfig] or [Config.CheckServe].
func (c *Config) Again() (*Config, error) {
	again, err := LoadConfig(c.Loaded)
	if err != nil {
		return nil, err
	}
	return again, again.CheckServe()
}

// Same reports whether two configurations have the same values, from whatever sources.
func (c *Config) Same(other *Config) bool {
	a, b := *c, *other
	for _, x := range []*Config{&a, &b} {
		x.sources, x.Loaded, x.secretFiles, x.Seen, x.Warnings = nil, LoadOptions{}, nil, "", nil
	}
	return reflect.DeepEqual(a, b)
}

// Files returns the files that the configuration was read from, sorted: a change of one is a reason to read it again.
// Files of TLS and of an issuer's keys are not among them: their users watch them.
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
