package config

import (
	"slices"
	"strings"
	"time"
)

// restCapabilities are the entries of rest.capabilities.
var restCapabilities = []string{"elicitation", "elicitation.form", "elicitation.url", "sampling", "roots"}

func restKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "rest.enabled", std: "true", doc: "serve callers without MCP: /tools, /call-tool and the like",
			field: func(c *Config) field { return boolField{at: &c.Rest.Enabled} }},
		{Key: "rest.tool_error", std: "error", doc: "a tool's own failure is answered as an error, or as data with status 200",
			field: func(c *Config) field { return enumField{at: &c.Rest.ToolError, values: []string{"error", "data"}} }},
		{Key: "rest.validate", std: "true", doc: "check arguments against the tool's schema before the call",
			field: func(c *Config) field { return boolField{at: &c.Rest.Validate} }},
		{Key: "rest.validate_results", std: "false", doc: "check structured results against the tool's outputSchema",
			field: func(c *Config) field { return boolField{at: &c.Rest.ValidateResults} }},
		{Key: "rest.tools_ttl", std: "30s", doc: "how long a list of tools is used again",
			field: func(c *Config) field {
				return durationField{at: &c.Rest.ToolsTTL, least: time.Millisecond, most: day, zero: "not at all"}
			}},
		{Key: "rest.capabilities", std: "elicitation,sampling", doc: "what servers may ask of REST callers",
			field: func(c *Config) field {
				return listField{at: &c.Rest.Capabilities, check: checkRestCapability, what: "a list of " + OneOf(restCapabilities), most: maxList, commas: true, words: restCapabilities}
			}},
	}
}

func checkRestCapability(entry string) error {
	if !slices.Contains(restCapabilities, entry) {
		return problemf("%q is none of %s", entry, strings.Join(restCapabilities, ", "))
	}
	return nil
}

// checkRest finds pins of the era that a REST service cannot keep.
func (l *loader) checkRest(u *Upstream, table string, at func(string) Source) {
	if u.Transport != RestName || len(u.Allowed().Versions()) == 0 || len(u.Allowed().Modern()) > 0 {
		return
	}
	key := erasKey
	if !at(erasKey).Set() {
		key = "era"
	}
	l.fail(&problem{what: "excludes every modern revision, but " + table + ".transport (" + at("transport").String() +
		") is rest, whose services are spoken to as modern servers", fix: "write auto or modern, or remove it"}, table+"."+key, at(key), "")
}
