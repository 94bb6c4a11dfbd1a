package cli

import (
	"github.com/spf13/cobra"

	"dragoman/internal/config"
)

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
		Use:     "stdio [flags] URL | --config FILE | -- COMMAND [ARG...]",
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
