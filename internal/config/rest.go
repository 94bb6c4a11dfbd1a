package config

import (
	"slices"
	"strings"
	"time"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// restCapabilities are the entries of rest.capabilities.
var restCapabilities = []string{"elicitation", "elicitation.form", "elicitation.url", "sampling", "roots"}

func restKeys() []setting[Config] {
	return []setting[Config]{
		{Key: "rest.enabled", std: "true", doc: "serve callers without MCP: /tools, /call-tool and the like",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Rest.Enabled} }},
		{Key: "rest.tool_error", std: "error", doc: "whether a tool's own failure becomes an error, or data with status 200",
			field: func(c *Config) field.Field {
				return field.Enum{At: &c.Rest.ToolError, Values: []string{"error", "data"}}
			}},
		{Key: "rest.validate", std: "true", doc: "check arguments against the tool's schema before the call",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Rest.Validate} }},
		{Key: "rest.validate_results", std: "false", doc: "check structured results against the tool's outputSchema",
			field: func(c *Config) field.Field { return field.Bool{At: &c.Rest.ValidateResults} }},
		{Key: "rest.tools_ttl", std: "30s", doc: "how long a list of tools is cached",
			field: func(c *Config) field.Field {
				return field.Duration{At: &c.Rest.ToolsTTL, Least: time.Millisecond, Most: day, Zero: "not at all"}
			}},
		{Key: "rest.capabilities", std: "elicitation,sampling", doc: "capabilities that REST callers declare to servers",
			field: func(c *Config) field.Field {
				return field.List{At: &c.Rest.Capabilities, Check: checkRestCapability, What: "a list of " + value.OneOf(restCapabilities), Most: maxList, Commas: true, Words: restCapabilities}
			}},
	}
}

func checkRestCapability(entry string) error {
	if !slices.Contains(restCapabilities, entry) {
		return value.Problemf("%q is none of %s", entry, strings.Join(restCapabilities, ", "))
	}
	return nil
}

// checkRest reports settings of the era that a REST service cannot meet.
func (l *loader) checkRest(u *Upstream, table string, at func(string) value.Source) {
	if u.Transport != RestName || len(u.Allowed().Versions()) == 0 || len(u.Allowed().Modern()) > 0 {
		return
	}
	key := erasKey
	if !at(erasKey).Set() {
		key = "era"
	}
	l.fail(&value.Problem{What: "excludes every modern revision, but " + table + ".transport (" + at("transport").String() +
		") is rest, whose services are spoken to as modern servers", Fix: "write auto or modern, or remove it"}, table+"."+key, at(key), "")
}
