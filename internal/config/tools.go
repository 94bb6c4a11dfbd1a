package config

import (
	"time"

	"dragoman/adapters/service"
)

// toolKeys are those of the table upstreams.NAME.tools.
func toolKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: "concurrency", std: "0", doc: "requests that run at the server at a time; 1 for one that is not thread-safe",
			field: func(u *Upstream) field {
				return intField{at: &u.Concurrency, least: 1, most: 100_000, zero: "any number"}
			}},
		{Key: toolsKey, doc: "what is said of single tools; a name that ends in * stands for all that begin so: timeout, concurrency, enabled, version, rate_limit", open: true,
			parts: partsOf(findTool, toolParts),
			names: func(u *Upstream) []string {
				names := make([]string, 0, len(u.Tools))
				for _, t := range u.Tools {
					names = append(names, t.Name)
				}
				return names
			}},
	}
}

func findTool(u *Upstream, name string) (*ToolConfig, error) {
	if err := checkPattern(name, "a name"); err != nil {
		return nil, err
	}
	return entryOf(&u.Tools, func(t *ToolConfig) string { return t.Name }, name,
		func() *ToolConfig { return &ToolConfig{Name: name, Timeout: unsetTime, Enabled: true} }), nil
}

func toolParts(t *ToolConfig) []part {
	return []part{
		{key: "timeout", doc: "how long the tool may be silent, in the place of tool_timeout",
			field: durationField{at: &t.Timeout, least: time.Second, most: 300 * time.Second, seconds: true, zero: "no limit but limits.request_time"}},
		{key: "concurrency", doc: "calls of the tool at a time", field: intField{at: &t.Concurrency, least: 1, most: 100_000, zero: "any number"}},
		{key: "enabled", doc: "whether the tool is there", field: boolField{at: &t.Enabled}},
		{key: "rename", doc: "what clients call it", field: renameField(&t.Rename, t.Name)},
		{key: "version", doc: "version of the tool's contract", field: textField{at: &t.Version, pattern: service.Semver, most: maxName, empty: true, what: "a semantic version such as 1.2.3"}},
		{key: "rate_limit", doc: "calls of the tool in a minute, of all clients", field: intField{at: &t.RateLimit, least: 1, most: 1_000_000, zero: "any number"}},
	}
}
