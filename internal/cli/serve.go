package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"dragoman/internal/config"
)

const serveLong = `Serve an MCP server, or several, to every kind of MCP client: streamable HTTP of
all revisions at /mcp, HTTP+SSE at /sse.

The server is a URL (http, https; unix:/PATH or tcp://HOST:PORT for one that speaks
lines over a socket), a COMMAND after -- that is started as a child process without
a shell, what a --config file names, or what an MCP client has in its file
(--import). A probe finds its era and transport unless they are configured.

The configuration is read again when its file has changed, and on SIGHUP. An invalid
one is refused, and the previous one stays in force. The first interrupt drains, the
second ends at once.`

const serveExample = `  # a stdio server, over HTTP on 127.0.0.1:8080
  dragoman serve -- npx -y @modelcontextprotocol/server-everything

  # a remote server, with a header whose value is taken from the environment
  dragoman serve https://example.com/mcp --header 'Authorization: env:MY_TOKEN'

  # an old server of known era, on another port, without the admin listener
  dragoman serve http://127.0.0.1:3000/sse --transport sse --listen 127.0.0.1:8000 --admin off

  # for modern clients only, and for some that end altogether at a 4xx
  dragoman serve https://example.com/mcp --eras modern --error-status compat

  # a server that speaks lines, as over stdio, on a socket of this machine
  dragoman serve unix:/run/my-server.sock

  # a service that speaks the REST envelope (GET /tools, POST /call-tool) below an address
  dragoman serve http://127.0.0.1:8001 --transport rest

  # several servers, from a file
  dragoman serve --config servers.toml

  # the servers that an MCP client has
  dragoman serve --import ~/.cursor/mcp.json`

func newServe(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "serve [flags] URL | --config FILE | --import FILE | -- COMMAND [ARG...]",
		Short:   "Serve an MCP server to every kind of HTTP client",
		Long:    serveLong,
		Example: serveExample,
	}
	flags := addSettingFlags(c, config.OnServe)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := p.load(c, args, flags)
		if err != nil {
			return err
		}
		p.serving = true
		return ran(c.Context(), p.run.Serve(c.Context(), cfg, p.std))
	}
	return c
}

const stdioLong = `Speak MCP on stdin and stdout, in the era of the client, and forward requests to
the server: for clients that can only launch a process. Logs go to stderr.

The server is a URL, a COMMAND after -- that is started without a shell, or all
the upstreams of a --config file as one; --upstream picks one of them.`

const stdioExample = `  # let a client that launches processes use a remote server
  dragoman stdio https://example.com/mcp --header 'Authorization: env:MY_TOKEN'

  # let an old client use a new stdio server, or the reverse
  dragoman stdio -- my-server --flag-of-my-server

  # all upstreams of a file as one
  dragoman stdio --config config.toml

  # one of them
  dragoman stdio --config config.toml --upstream files`

func newStdio(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "stdio [flags] URL | --config FILE | --import FILE | -- COMMAND [ARG...]",
		Short:   "Speak to the client on stdin and stdout",
		Long:    stdioLong,
		Example: stdioExample,
	}
	flags := addSettingFlags(c, config.OnStdio)
	c.RunE = func(c *cobra.Command, args []string) error {
		cfg, err := p.load(c, args, flags)
		if err != nil {
			return err
		}
		if len(cfg.Members()) == 0 {
			_, err := cfg.Only()
			return err
		}
		p.serving = true
		return ran(c.Context(), p.run.Stdio(c.Context(), cfg, p.std))
	}
	return c
}

const probeLong = `Ask a server which eras and transports it speaks and for its lists of tools,
resources and prompts, and print the answers, together with a table of what
clients lose there by translation. A list that fails is shown with a hint, and
does not fail the probe. The steps are shown on standard error as they begin.
Nothing is changed on the server.`

const probeExample = `  dragoman probe https://example.com/mcp
  dragoman probe --json -- npx -y @modelcontextprotocol/server-everything
  dragoman probe --config config.toml --upstream files`

var errInterrupted = errors.New("interrupted before the probe was done")

func newProbe(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "probe [flags] URL | --config FILE | -- COMMAND [ARG...]",
		Short:   "Find out what a server speaks",
		Long:    probeLong,
		Example: probeExample,
	}
	asJSON := c.Flags().Bool("json", false, "print JSON")
	limit := c.Flags().Duration("timeout", time.Minute, "how long it may take in all, `DURATION`")
	flags := addSettingFlags(c, config.OnProbe)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *limit <= 0 {
			return usagef("--timeout: %s is out of bounds; fix: write a duration such as 30s", *limit)
		}
		cfg, err := p.load(c, args, flags)
		if err != nil {
			return err
		}
		if _, err := cfg.Only(); err != nil {
			return err
		}
		err = p.run.Probe(c.Context(), cfg, p.std, *asJSON, *limit)
		if err != nil && c.Context().Err() != nil {
			err = errInterrupted // there is no answer, so the probe has failed
		}
		return failed(err)
	}
	return c
}
