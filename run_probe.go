package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/goccy/go-json"
)

// report is what a probe found.
type report struct {
	Target       string          `json:"target"`
	Eras         string          `json:"eras"`
	Modern       bool            `json:"modern"`
	Legacy       bool            `json:"legacy"`
	SSE          bool            `json:"sse,omitempty"`
	Version      string          `json:"version"`
	ServerInfo   json.RawMessage `json:"serverInfo,omitempty"`
	Capabilities json.RawMessage `json:"capabilities,omitempty"`
	Degrades     []string        `json:"degrades"`
	Steps        []string        `json:"steps,omitempty"`
}

// runProbe asks a server what it speaks and prints the answer.
func runProbe(ctx context.Context, cfg *Config, std Streams, asJSON bool) error {
	log, err := newLogger(cfg.Log.Level, cfg.Log.Format, std.Err)
	if err != nil {
		return err
	}
	up, err := cfg.Only()
	if err != nil {
		return err
	}
	h, err := assemble(cfg, []*Upstream{up}, log.Level(max(log.GetLevel(), 2)))
	if err != nil {
		return err
	}
	defer h.close()
	v, err := h.upstreams[0].Both(ctx)
	if err != nil {
		return exitCause(err)
	}
	r := report{Target: up.Target(), Eras: v.Eras(), Modern: v.Modern, Legacy: v.Legacy, SSE: v.SSE, Version: v.Version, Steps: v.Steps,
		Degrades: v.Degrades()}
	r.ServerInfo, r.Capabilities = v.Identity()
	if asJSON {
		out, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.Out, "%s\n", out)
		return err
	}
	return r.print(std)
}

func (r *report) print(std Streams) error {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s %s\n", key, value)
		}
	}
	line("server", r.Target)
	line("speaks", r.Eras)
	line("revision", r.Version)
	line("identity", string(r.ServerInfo))
	line("capabilities", string(r.Capabilities))
	for i, d := range r.Degrades {
		key := ""
		if i == 0 {
			key = "degrades"
		}
		fmt.Fprintf(&b, "%-14s %s\n", key, d)
	}
	for i, s := range r.Steps {
		key := ""
		if i == 0 {
			key = "on the way"
		}
		fmt.Fprintf(&b, "%-14s %s\n", key, s)
	}
	_, err := fmt.Fprint(std.Out, b.String())
	return err
}
