package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"dragoman/internal/app"
	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
)

// recorded holds the calls of a test's runners.
type recorded struct {
	Command string
	Cfg     *config.Config
	Demo    DemoOptions
	AsJSON  bool

	Conformance *ConformanceOptions
	Bench       *BenchOptions
}

// runLine runs one command line in this process; run is called by the runners.
func runLine(t *testing.T, environ []string, run error, args ...string) (rec recorded, code int, out, errs string) {
	t.Helper()
	keep := func(command string) func(context.Context, *config.Config, app.Streams) error {
		return func(_ context.Context, cfg *config.Config, _ app.Streams) error {
			rec.Command, rec.Cfg = command, cfg
			return run
		}
	}
	var stdout, stderr bytes.Buffer
	code = Execute(t.Context(), args, environ, app.Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, Runners{
		Check: app.Check,
		Serve: keep("serve"),
		Stdio: keep("stdio"),
		Probe: func(ctx context.Context, cfg *config.Config, std app.Streams, asJSON bool, _ time.Duration) error {
			rec.AsJSON = asJSON
			return keep("probe")(ctx, cfg, std)
		},
		Demo: func(_ context.Context, opt DemoOptions, _ app.Streams) error {
			rec.Command, rec.Demo = "demo", opt
			return run
		},
		Generate: func(_ context.Context, _ *clients.Options, _ app.Streams) error {
			rec.Command = "generate"
			return run
		},
		Conformance: func(_ context.Context, opt *ConformanceOptions, _ app.Streams) error {
			rec.Command, rec.Conformance = "conformance", opt
			return run
		},
		Bench: func(_ context.Context, opt *BenchOptions, _ app.Streams) error {
			rec.Command, rec.Bench = "bench", opt
			return run
		},
	})
	return rec, code, stdout.String(), stderr.String()
}
