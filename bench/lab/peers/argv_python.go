//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
)

func mcpProxyPy(more ...string) func(p *place) ([]string, error) {
	return func(p *place) ([]string, error) {
		argv, err := p.program(kitMCPProxyPy, "mcp-proxy")
		argv = append(append(argv, "--host", "127.0.0.1", "--port", p.port, "--log-level", "ERROR"), more...)
		return append(append(argv, "--"), p.child...), err
	}
}

func mcpo(p *place) ([]string, error) {
	argv, err := p.program(kitMCPO, "mcpo")
	return append(append(argv, "--host", "127.0.0.1", "--port", p.port, "--log-level", "ERROR", "--"), p.child...), err
}

func fastMCP(p *place) ([]string, error) {
	servers := map[string]any{}
	if p.upstream == "" {
		servers["echo"] = map[string]any{"command": p.child[0], "args": p.child[1:]}
	}
	for name, url := range p.servers() {
		servers[name] = map[string]any{"url": url, "transport": "http"}
	}
	config, err := p.withJSON("", "run", map[string]any{"mcpServers": servers})
	if err != nil {
		return nil, err
	}
	argv, err := p.program(kitFastMCP, "fastmcp", "FASTMCP_CHECK_FOR_UPDATES=off")
	return append(append(argv, config...), "--transport", "http", "--host", "127.0.0.1", "--port", p.port, "--no-banner", "--log-level", "ERROR", "--skip-env"), err
}

// forgeSettings is the environment of ContextForge: its own database, no authentication, no limits or logs, and a legacy revision towards
// its server. Stateful sessions make it several times as fast as its default.
func (p *place) forgeSettings() []string {
	all := []string{"DATABASE_URL=sqlite:///" + filepath.Join(p.dir, "forge.db")}
	for _, secret := range []string{"JWT_SECRET_KEY", "AUTH_ENCRYPTION_SECRET", "BASIC_AUTH_PASSWORD", "DEFAULT_USER_PASSWORD", "PLATFORM_ADMIN_PASSWORD"} {
		all = append(all, secret+"=Aa1-"+rand.Text()+strings.ToLower(rand.Text()))
	}
	return append(all, "AUTH_REQUIRED=false", "ALLOW_UNAUTHENTICATED_ADMIN=true", "MCP_REQUIRE_AUTH=false", "SSRF_ALLOW_LOCALHOST=true",
		"RATE_LIMITING_ENABLED=false", "DB_METRICS_RECORDING_ENABLED=false", "LOG_LEVEL=ERROR", "MCPGATEWAY_UI_ENABLED=false", "MCPGATEWAY_ADMIN_API_ENABLED=false",
		"MCPGATEWAY_A2A_ENABLED=false", "MCPGATEWAY_CATALOG_ENABLED=false", "MCP_CLIENT_CONNECT_MODE=legacy", "USE_STATEFUL_SESSIONS=true")
}

func contextForge(p *place) ([]string, error) {
	argv, err := p.program(kitContextForge, "mcpgateway", p.forgeSettings()...)
	return append(argv, "--host", "127.0.0.1", "--port", p.port, "--no-access-log", "--log-level", "error"), err
}

func contextForgeTranslate(p *place) ([]string, error) {
	argv, err := p.program(kitContextForge, "python", p.forgeSettings()...)
	return append(argv, "-m", "mcpgateway.translate", "--stdio", strings.Join(p.child, " "), "--expose-sse", "--expose-streamable-http",
		"--host", "127.0.0.1", "--port", p.port, "--logLevel", "error"), err
}

// forgeTool is ContextForge's name of the tool of the server "echo".
const forgeTool = "echo-echo"

// registerUpstream registers the server at ContextForge, and fails until the tool is there: while it starts, ContextForge forgets servers
// that it has accepted.
func registerUpstream(ctx context.Context, addr, upstream string) error {
	body, err := json.Marshal(map[string]string{"name": "echo", "url": upstream, "transport": "STREAMABLEHTTP", "visibility": "public"})
	if err != nil {
		return err
	}
	tools, err := askAPI(ctx, http.MethodGet, "http://"+addr+"/tools", nil)
	if err != nil {
		return err
	}
	if strings.Contains(tools, `"`+forgeTool+`"`) {
		return nil
	}
	if _, err = askAPI(ctx, http.MethodPost, "http://"+addr+"/gateways", body); err != nil {
		return err
	}
	return errors.New("peers: contextforge has no tool yet")
}

// askAPI sends a request to a contender's own API, and returns the body of a successful response.
func askAPI(ctx context.Context, method, url string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: callLimit}
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("peers: %s %s: %s: %s", method, url, answer.Status, cut(string(said), noteLimit))
	}
	return string(said), err
}

const maxAnswer = 1 << 20 // of a response of a contender's API
