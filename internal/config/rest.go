package config

import (
	"slices"
	"strings"
	"time"
)

// RestConfig is how callers without MCP are served: the REST envelope.
type RestConfig struct {
	// Enabled serves /tools, /call-tool and what stands beside them; default true.
	Enabled bool
	// ToolError is "error" (default: a tool's own failure is an error of the call,
	// EXECUTION_ERROR) or "data" (its result is the data of a good answer).
	ToolError string
	// Validate checks arguments against the tool's schema before the call; default true.
	Validate bool
	// ValidateResults checks structured results against outputSchema; default false.
	ValidateResults bool
	// ToolsTTL is how long a list of tools is used again. 0 to 24 h, default 30 s.
	ToolsTTL time.Duration
	// Capabilities are what callers can be asked, of restCapabilities; default
	// elicitation and sampling. Of roots many servers ask as soon as a session
	// begins: whoever declared them would have his first call end with that.
	Capabilities []string
}

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

// Declared is Capabilities as the ClientCapabilities object of 2026-07-28.
func (c *RestConfig) Declared() []byte {
	var out []string
	has := func(entry string) bool { return slices.Contains(c.Capabilities, entry) }
	var modes []string
	if has("elicitation") || has("elicitation.form") {
		modes = append(modes, `"form":{}`)
	}
	if has("elicitation") || has("elicitation.url") {
		modes = append(modes, `"url":{}`)
	}
	if len(modes) > 0 {
		out = append(out, `"elicitation":{`+strings.Join(modes, ",")+`}`)
	}
	if has("sampling") {
		out = append(out, `"sampling":{"tools":{}}`)
	}
	if has("roots") {
		out = append(out, `"roots":{}`)
	}
	return []byte("{" + strings.Join(out, ",") + "}")
}

// RestName is the transport of a service that speaks the REST envelope.
const RestName = "rest"

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
