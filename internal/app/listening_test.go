package app

import (
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"dragoman/internal/config"
	"dragoman/internal/testkit"
)

// The line that says where the proxy listens has addresses that are served: with several servers, that of all and those of each.
func TestListeningLine(t *testing.T) {
	const a, b = "[upstreams.a]\nurl = \"http://127.0.0.1:1/mcp\"\n", "[upstreams.b]\nurl = \"http://127.0.0.1:1/mcp\"\n"
	for toml, want := range map[string]string{
		a:                               `"mcp":"http://127.0.0.1:8080/mcp","sse":"http://127.0.0.1:8080/sse"`,
		a + b:                           `"mcp":["http://127.0.0.1:8080/mcp","http://127.0.0.1:8080/servers/a/mcp","http://127.0.0.1:8080/servers/b/mcp"],"sse":["http://127.0.0.1:8080/sse","http://127.0.0.1:8080/servers/a/sse","http://127.0.0.1:8080/servers/b/sse"]`,
		"eras = [\"modern\"]\n" + a + b: `"mcp":["http://127.0.0.1:8080/mcp","http://127.0.0.1:8080/servers/a/mcp","http://127.0.0.1:8080/servers/b/mcp"],"eras":["2026-07-28"]`,
	} {
		cfg, err := config.LoadConfig(config.LoadOptions{File: testkit.WriteFile(t, "c.toml", toml)})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		banner(&log, cfg, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, nil, zerolog.New(&log))
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s, want %s", log.String(), want)
		}
	}
}
