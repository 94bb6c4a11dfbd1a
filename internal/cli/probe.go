package cli

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"dragoman/internal/config"
)

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
