package cli

import (
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"slices"

	"github.com/spf13/cobra"
)

const demoLong = `Run a small MCP server that is built in, on stdin and stdout, or over HTTP with
--http: for a first try, for tests and for measurements.`

const demoExample = `  dragoman demo --http 127.0.0.1:8081
  dragoman serve -- dragoman demo --era modern
  dragoman stdio -- dragoman demo --era legacy`

func newDemo(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:     "demo [flags]",
		Short:   "Run a built-in MCP server",
		Long:    demoLong,
		Example: demoExample,

		DisableFlagsInUseLine: true,
	}
	eras := []string{"dual", "modern", "legacy"}
	era := c.Flags().String("era", "dual", "what the server speaks: `modern|legacy|dual`")
	address := c.Flags().String("http", "", "serve on `HOST:PORT` instead of stdio")
	_ = c.RegisterFlagCompletionFunc("era", cobra.FixedCompletions(eras, cobra.ShellCompDirectiveNoFileComp))
	flags := addSettingFlags(c, config.OnDemo)
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usagef("unexpected argument %q; fix: write `dragoman demo --http HOST:PORT`", value.Shorten(args[0]))
		}
		if !slices.Contains(eras, *era) {
			return usagef("--era: %q is not known; fix: write %s", value.Shorten(*era), value.OneOf(eras))
		}
		if *address != "" {
			if err := config.CheckListen("--http", *address); err != nil {
				return err
			}
		}
		set, _, err := flags.assignments()
		if err != nil {
			return err
		}
		cfg, err := config.LoadConfig(config.LoadOptions{Environ: p.environ, Flags: set})
		if err != nil {
			return err
		}
		opt := app.DemoOptions{Era: *era, HTTP: *address, LogLevel: cfg.Log.Level, LogFormat: cfg.Log.Format}
		return ran(c.Context(), p.run.Demo(c.Context(), opt, p.std))
	}
	return c
}
