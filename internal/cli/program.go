package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"dragoman/internal/app"
	"dragoman/internal/app/logging"
	"dragoman/internal/cli/clients"
	"dragoman/internal/config"
	"dragoman/internal/config/value"
	"dragoman/proxy/wire"
)

// Exit codes; scripts rely on them.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	exitInterrupted = 128 + int(syscall.SIGINT) // a second interrupt, by the convention of shells
)

// Runners are the functions that run the commands after all arguments have been checked. Tests replace them.
type Runners struct {
	Check func(cfg *config.Config) (warnings []string, err error)
	Serve func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Stdio func(ctx context.Context, cfg *config.Config, std app.Streams) error
	Probe func(ctx context.Context, cfg *config.Config, std app.Streams, asJSON bool, limit time.Duration) error
	Demo  func(ctx context.Context, opt DemoOptions, std app.Streams) error
	// Generate writes clients for tools.
	Generate func(ctx context.Context, opt *clients.Options, std app.Streams) error
	// Conformance and Bench write reports; their error may be an [exitError].
	Conformance func(ctx context.Context, opt *ConformanceOptions, std app.Streams) error
	Bench       func(ctx context.Context, opt *BenchOptions, std app.Streams) error // see Conformance
}

// program is one run of the command line.
type program struct {
	std     app.Streams
	environ []string
	run     Runners
	only    string // the only command to build; "" means all
	serving bool   // the command serves: its end does not depend on whether its messages are read
}

// usagef returns an error in the arguments.
func usagef(format string, args ...any) error { return fmt.Errorf(format, args...) }

// exitError is an error with an exit code. A nil err means that the message has been printed already.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// exitCode returns the exit code of an error. Errors of the arguments, the parser's among them, have none of their own.
func exitCode(err error) int {
	if ee, ok := errors.AsType[*exitError](err); ok {
		return ee.code
	}
	if ce, ok := errors.AsType[value.ConfigErrors](err); ok && !ce.OnCommandLine() {
		return ExitFailed
	}
	return ExitUsage
}

// unreadTime is how long the last message of a command that serves waits for its reader.
const unreadTime = time.Second

// printError writes "dragoman: …", with the name coloured on a terminal.
func (p *program) printError(err error) {
	if !p.serving {
		printError(p.std.Err, p.environ, err)
		return
	}
	w := logging.NewWriter(p.std.Err)
	printError(w, p.environ, err)
	w.Flush(unreadTime)
}

func printError(w io.Writer, environ []string, err error) {
	name := "dragoman:"
	if logging.Colourful(w, environ) {
		name = red + name + plain
	}
	_, _ = fmt.Fprintf(w, "%s %s\n", name, wire.Visible(strings.TrimSpace(err.Error()))) // a server may have chosen parts of it
}

// parent makes a command with subcommands print its help when it is called alone, and refuse unknown subcommands.
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

// flagError adds to the parser's error what was probably meant. A flag with a single dash usually belongs to the child.
func flagError(c *cobra.Command, err error) error {
	hint := fmt.Sprintf("run `%s --help` for the flags", c.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := value.Nearest(unknown.GetSpecifiedName(), names); near != "" && len(unknown.GetSpecifiedName()) > 1 {
			hint = fmt.Sprintf("did you mean --%s?", near)
		} else if before, starts := map[string]string{"serve": "", "stdio": "", "probe": "", "conformance": "", "bench": "", "add": " NAME", "edit": " NAME"}[c.Name()]; starts {
			hint += "; flags of the command to start come after --, as in `" + c.CommandPath() + before + " -- npx -y PACKAGE`"
		}
	}
	return usagef("%s", value.WithFix(err.Error(), hint))
}

// ran converts the error of a long-running command: an interrupted command that has drained has succeeded.
func ran(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return failed(err)
}

// failed marks an error that came after the arguments were accepted. Configuration errors keep their own code.
func failed(err error) error {
	if _, ok := errors.AsType[value.ConfigErrors](err); ok || err == nil {
		return err
	}
	return &exitError{ExitFailed, err}
}

const (
	red   = "\x1b[1;31m"
	plain = "\x1b[0m"
)

// attended reports whether somebody can be asked.
func (p *program) attended() bool {
	in, ok := p.std.In.(io.Writer)
	return ok && logging.Terminal(in)
}

// ask asks a question on the terminal, and fails unless the answer is yes: nothing was done then.
func (p *program) ask(ctx context.Context, question, done string) error {
	_, _ = fmt.Fprint(p.std.Err, question)
	line := make(chan string, 1)
	go func() { // ends with the answer, or with the process: a terminal cannot be read with a deadline
		text, _ := bufio.NewReader(p.std.In).ReadString('\n')
		line <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case answer := <-line:
		if answer == "y" || answer == "yes" {
			return nil
		}
	case <-ctx.Done():
		_, _ = fmt.Fprintln(p.std.Err)
	}
	return errors.New("nothing was " + done)
}
