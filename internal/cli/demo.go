package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"dragoman/adapters/httpd/httpserver"
	"dragoman/conformance/everything"
	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
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
			return unknownWord("era", *era, eras)
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
		opt := DemoOptions{Era: *era, HTTP: *address, LogLevel: cfg.Log.Level, LogFormat: cfg.Log.Format}
		p.serving = true
		return ran(c.Context(), p.run.Demo(c.Context(), opt, p.std))
	}
	return c
}

// DemoOptions are the options of `dragoman demo`, checked.
type DemoOptions struct {
	// Era is modern, legacy or dual.
	Era string
	// HTTP is the address to serve on as HOST:PORT; "" is stdio.
	HTTP string
	// LogLevel and LogFormat are as in [config.LogConfig].
	LogLevel, LogFormat string
}

// demoVersion is the version that the built-in server reports.
const demoVersion = "1.0.0"

// runDemo serves the built-in server over HTTP or on stdin and stdout, by the same listeners that serve the clients of
// the proxy. The built-in server takes the place of the upstreams, and speaks both eras by itself.
func runDemo(ctx context.Context, opt DemoOptions, std app.Streams) error {
	cfg, err := config.LoadConfig(config.LoadOptions{})
	if err != nil {
		return err
	}
	out, err := logging.Open(opt.LogLevel, opt.LogFormat, std.Err, false)
	if err != nil {
		return err
	}
	defer out.Close()
	std.Err = out.Out
	server := everything.New(everything.Options{Name: "dragoman-demo", Version: demoVersion})
	defer func() { _ = server.Close() }()
	g, err := app.AssembleHandler(cfg, everything.Only(opt.Era, server.Do), server.Do, out.Logger)
	if err != nil {
		return err
	}
	defer g.Close()
	if opt.HTTP == "" {
		return g.ServeStdio(ctx, std)
	}
	return demoHTTP(ctx, g, opt.HTTP, std)
}

func demoHTTP(ctx context.Context, g *app.Generation, addr string, std app.Streams) error {
	srv, err := g.ClientServer()
	if err != nil {
		return err
	}
	ln, err := httpserver.Listen(addr)
	if err != nil {
		return fmt.Errorf("%w; choose another address with --http HOST:PORT, port 0 for any free one", err)
	}
	_, _ = fmt.Fprintf(std.Err, "the demo server listens at http://%s/mcp\n", ln.Addr())
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }() // ends with Shutdown
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	return g.ShutDown(err, []*httpserver.Server{srv})
}
