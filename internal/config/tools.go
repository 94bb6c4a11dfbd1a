package config

import (
	"time"

	"dragoman/adapters/service"
	"dragoman/internal/config/field"
)

// toolKeys returns concurrency, and the table upstreams.NAME.tools.
func toolKeys() []setting[Upstream] {
	return []setting[Upstream]{
		{Key: "concurrency", std: "0", doc: "most requests that run at the server at a time; 1 for one that is not thread-safe",
			field: func(u *Upstream) field.Field {
				return field.Int{At: &u.Concurrency, Least: 1, Most: 100_000, Zero: "any number"}
			}},
		{Key: ToolsKey, doc: "settings of single tools; a name that ends in * stands for all that begin so: timeout, concurrency, enabled, version, rate_limit", open: true,
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
		{key: "timeout", doc: "how long the tool may be silent, instead of tool_timeout",
			field: field.Duration{At: &t.Timeout, Least: time.Second, Most: 300 * time.Second, Seconds: true, Zero: "no limit but limits.request_time"}},
		{key: "concurrency", doc: "most calls of the tool at a time", field: field.Int{At: &t.Concurrency, Least: 1, Most: 100_000, Zero: "any number"}},
		{key: "enabled", doc: "whether clients see the tool", field: field.Bool{At: &t.Enabled}},
		{key: "rename", doc: "what clients call it", field: renameField(&t.Rename, t.Name)},
		{key: "version", doc: "version of the tool's contract", field: field.Text{At: &t.Version, Pattern: service.Semver, Most: maxName, Empty: true, What: "a semantic version such as 1.2.3"}},
		{key: "rate_limit", doc: "most calls of the tool in a minute, by all clients", field: field.Int{At: &t.RateLimit, Least: 1, Most: 1_000_000, Zero: "any number"}},
	}
}
