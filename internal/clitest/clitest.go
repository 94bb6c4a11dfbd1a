// Package clitest runs command lines in a test's process.
package clitest

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"dragoman/internal/app"
	"dragoman/internal/cli"
	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
)

// Result is the outcome of a command line.
type Result struct {
	// Command is serve, stdio or probe if the command line was understood and would have run it with Config.
	Command string
	Config  *config.Config
	// Code is the exit code, Out and Errs what was written.
	Code      int
	Out, Errs string
}

// Run runs a command line with an environment. What would serve or probe records its configuration and returns.
func Run(t *testing.T, environ []string, args ...string) (r Result) {
	t.Helper()
	record := func(command string) func(context.Context, *config.Config, app.Streams) error {
		return func(_ context.Context, cfg *config.Config, _ app.Streams) error {
			r.Command, r.Config = command, cfg
			return nil
		}
	}
	var out, errs bytes.Buffer
	std := app.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}
	r.Code = cli.Execute(t.Context(), args, environ, std, cli.Runners{Check: func(*config.Config) ([]string, error) { return nil, nil },
		Serve: record("serve"),
		Stdio: record("stdio"),
		Probe: func(ctx context.Context, cfg *config.Config, std app.Streams, _ bool, _ time.Duration) error {
			return record("probe")(ctx, cfg, std)
		},
		Demo:        func(context.Context, cli.DemoOptions, app.Streams) error { return nil },
		Generate:    func(context.Context, *clients.Options, app.Streams) error { return nil },
		Conformance: func(context.Context, *cli.ConformanceOptions, app.Streams) error { return nil },
		Bench:       func(context.Context, *cli.BenchOptions, app.Streams) error { return nil },
	})
	r.Out, r.Errs = out.String(), errs.String()
	return r
}
