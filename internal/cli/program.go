package cli

import (
	"context"
	"dragoman/internal/app"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes, on which scripts rely.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // a second interrupt, as shells count it
)

// Runners are what the commands start once everything they were given is
// checked. Tests put their own in.
type Runners struct {
	Serve func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Stdio func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Probe func(ctx context.Context, cfg *config.Config, std app.Streams, asJSON bool) error
	Demo  func(ctx context.Context, opt app.DemoOptions, std app.Streams) error
	// Conformance writes reports; its error may be a [verdict].
	Conformance func(ctx context.Context, opt *ConformanceOptions, std app.Streams) error
	Bench       func(ctx context.Context, opt *BenchOptions, std app.Streams) error // likewise
}

// program is one run of the command line.
type program struct {
	std     app.Streams
	environ []string
	run     Runners
	only    string // the one command that is wanted, all if ""
}

// usageError is a mistake in what was typed: exit code 2.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &usageError{err: fmt.Errorf(format, args...)}
}

// failure marks what failed after the command line was understood: exit code 1.
type failure struct{ err error }

func (e *failure) Error() string { return e.err.Error() }

func (e *failure) Unwrap() error { return e.err }

// verdict is the end of a command that was carried out and whose outcome scripts are to see: its exit code. Without err all has
// been said already.
type verdict struct {
	code int
	err  error
}

func (v *verdict) Error() string {
	if v.err == nil {
		return ""
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// exitCode tells usage errors from the rest. What is not marked comes from
// the parser of the command line.
func exitCode(err error) int {
	var ce value.ConfigErrors
	var fe *failure
	var v *verdict
	switch {
	case errors.As(err, &v):
		return v.code
	case errors.As(err, &ce):
		if ce.OnCommandLine() {
			return ExitUsage
		}
		return ExitFailed
	case errors.As(err, &fe):
		return ExitFailed
	default:
		return ExitUsage
	}
}

// printError writes "dragoman: …", the name in colour on a terminal.
func printError(w io.Writer, environ []string, err error) {
	name := "dragoman:"
	if app.Colourful(w, environ) {
		name = red + name + plain
	}
	_, _ = fmt.Fprintf(w, "%s %s\n", name, strings.TrimSpace(err.Error()))
}

// parent makes a command that only has subcommands show its help, and refuse
// a subcommand that it does not have.
func parent(c *cobra.Command) {
	c.DisableFlagsInUseLine = true
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var names []string
		for _, sub := range c.Commands() {
			names = append(names, sub.Name())
		}
		hint := fmt.Sprintf("run `%s --help` for a list", c.CommandPath())
		if near := value.Nearest(args[0], names); near != "" {
			hint = fmt.Sprintf("did you mean `%s %s`?", c.CommandPath(), near)
		} else if isURL(args[0]) && !c.HasParent() {
			hint = "did you mean `dragoman serve " + value.RedactURL(args[0]) + "`?"
		}
		return usagef("%s", value.WithFix(fmt.Sprintf("unknown command %q", value.Shorten(args[0])), hint))
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// flagError adds to the parser's error what was probably meant. A flag with a
// single dash is most often the child's.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("run `%s --help` for the flags", c.CommandPath())
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := value.Nearest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
			hint = fmt.Sprintf("did you mean --%s?", near)
		} else if slices.Contains([]string{"serve", "stdio", "probe", "conformance", "bench"}, c.Name()) {
			hint += "; flags of the command to start come after --, as in `" + c.CommandPath() + " -- npx -y PACKAGE`"
		}
	}
	return usagef("%s", value.WithFix(err.Error(), hint))
}

// ran turns the end of a long-running command into the command's result: an
// interrupted one that has drained is done.
func ran(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return failed(err)
}

// failed marks an error of a run. Configuration errors keep their own code.
func failed(err error) error {
	var ce value.ConfigErrors
	if err == nil || errors.As(err, &ce) {
		return err
	}
	return &failure{err: err}
}

const (
	red   = "\x1b[1;31m"
	plain = "\x1b[0m"
)
