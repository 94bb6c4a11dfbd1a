package config

import (
	"dragoman/policies/telemetry"
	"fmt"
	"os"
	"path/filepath"
)

// auditFileKey is where the audit trail goes.
const auditFileKey = "audit.file"

// secretNames are parts of names that secrets are expected under.
const secretNames = "password,passwd,passphrase,pwd,secret,token,authorization,credential,api_key,private_key,access_key,cookie,session_id,otp,cvv"

func logKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "log.access", std: telemetry.LogErrors, doc: "requests that have a line in the log: none, those that fail (at level debug all), or all",
			field: func(c *Config) field {
				return enumField{at: &c.Log.Access, values: []string{telemetry.LogNone, telemetry.LogErrors, telemetry.LogAll}}
			}},
		{Key: "audit.enabled", std: "false", doc: "write an audit trail: a line of JSON for each call, with who has asked and what came of it",
			field: func(c *Config) field { return boolField{at: &c.Audit.Enabled} }},
		{Key: auditFileKey, std: "", doc: "file of the audit trail, appended to, and opened anew on SIGHUP; empty: standard error",
			field: func(c *Config) field { return textField{at: &c.Audit.File, what: "a file", empty: true} }},
		{Key: "audit.methods", std: "tools/call", doc: "methods whose requests have lines; * is all",
			field: func(c *Config) field {
				return listField{at: &c.Audit.Methods, check: checkMethod, what: "a list of methods such as tools/call, or *", least: 1, most: maxList, commas: true}
			}},
		{Key: "audit.arguments", std: telemetry.ArgumentsNone, doc: "what of arguments goes in: nothing, the names of the outermost, all but secrets, or all",
			field: func(c *Config) field {
				return enumField{at: &c.Audit.Arguments, values: []string{telemetry.ArgumentsNone, telemetry.ArgumentsKeys, telemetry.ArgumentsRedacted, telemetry.ArgumentsFull}}
			}},
		{Key: "audit.redact", std: secretNames, doc: "parts of names, in any case, whose values are left out of redacted arguments",
			field: func(c *Config) field {
				return listField{at: &c.Audit.Redact, check: checkArgument, what: "a list of parts of names", most: maxList, commas: true}
			}},
		{Key: "audit.value_bytes", std: "256B", doc: "bytes of each text in arguments; what is longer is cut",
			field: func(c *Config) field { return sizeField{at: &c.Audit.ValueBytes, least: 16, most: 64 * Kib} }},
		{Key: "audit.argument_bytes", std: "8KiB", doc: "bytes of a call's arguments; what comes then is left out",
			field: func(c *Config) field { return sizeField{at: &c.Audit.ArgumentBytes, least: 256, most: Mib} }},
		{Key: "audit.queue", std: "4MiB", doc: "bytes of lines that wait to be written",
			field: func(c *Config) field { return sizeField{at: &c.Audit.Queue, least: 64 * Kib, most: gib} }},
		{Key: "audit.on_full", std: "drop", doc: "what becomes of a line when as many wait: it is dropped and counted, or its request waits",
			field: func(c *Config) field { return enumField{at: &c.Audit.OnFull, values: []string{"drop", "block"}} }},
	}
}

func checkMethod(entry string) error {
	if entry == "" || len(entry) > maxName || HasControl(entry) {
		return problemf("%q is no method", Shorten(entry))
	}
	return nil
}

// checkAudit finds a file that cannot be.
func (l *loader) checkAudit() {
	c := &l.cfg.Audit
	from := l.cfg.sources[auditFileKey]
	if c.File == "" || !c.Enabled {
		return
	}
	if info, err := os.Stat(c.File); err == nil && info.IsDir() {
		l.fail(&problem{what: fmt.Sprintf("%q is a directory", Shorten(c.File)), fix: "name a file in it"}, auditFileKey, from, "")
		return
	}
	if info, err := os.Stat(filepath.Dir(c.File)); err != nil || !info.IsDir() {
		l.fail(&problem{what: fmt.Sprintf("%q is in no directory that there is", Shorten(c.File)), fix: "create the directory"}, auditFileKey, from, "")
	}
}
