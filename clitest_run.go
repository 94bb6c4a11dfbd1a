package main

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
)

// recorded is what the runners of a test were called with.
type recorded struct {
	command string
	cfg     *Config
	demo    DemoOptions
	asJSON  bool

	conformance *ConformanceOptions
	bench       *BenchOptions
}

// runLine runs one command line in this process; run decides the runners' result.
func runLine(t *testing.T, environ []string, run error, args ...string) (rec recorded, code int, out, errs string) {
	t.Helper()
	keep := func(command string) func(context.Context, *Config, Streams) error {
		return func(_ context.Context, cfg *Config, _ Streams) error {
			rec.command, rec.cfg = command, cfg
			return run
		}
	}
	var stdout, stderr bytes.Buffer
	code = execute(t.Context(), args, environ, Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}, runners{
		serve: keep("serve"),
		stdio: keep("stdio"),
		probe: func(ctx context.Context, cfg *Config, std Streams, asJSON bool) error {
			rec.asJSON = asJSON
			return keep("probe")(ctx, cfg, std)
		},
		demo: func(_ context.Context, opt DemoOptions, _ Streams) error {
			rec.command, rec.demo = "demo", opt
			return run
		},
		conformance: func(_ context.Context, opt *ConformanceOptions, _ Streams) error {
			rec.command, rec.conformance = "conformance", opt
			return run
		},
		bench: func(_ context.Context, opt *BenchOptions, _ Streams) error {
			rec.command, rec.bench = "bench", opt
			return run
		},
	})
	return rec, code, stdout.String(), stderr.String()
}

// typed checks that the command line is understood; a file that it names may not be there.
func typed(t *testing.T, file string, args []string) {
	t.Helper()
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool { return a == "&" || a == "…" })
	if at := slices.Index(args, "#"); at >= 0 {
		args = args[:at]
	}
	_, code, _, errs := runLine(t, []string{"EXAMPLE_TOKEN=x", "TOKEN=x"}, nil, args...)
	if code == exitUsage {
		t.Errorf("%s: dragoman %s: %s", file, strings.Join(args, " "), errs)
	}
}

// shellWords splits a line at blanks outside quotes.
func shellWords(line string) (words []string) {
	var word strings.Builder
	var quote rune
	begun := false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '"' || r == '\''):
			quote, begun = r, true
		case quote == 0 && r == ' ':
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if begun {
		words = append(words, word.String())
	}
	return words
}
