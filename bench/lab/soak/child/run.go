//go:build linux

package child

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"
)

// lifetime is how long a child without UntilVariable runs.
const lifetime = 10 * time.Minute

// Main runs a child process and returns its exit code.
func Main(args []string) int {
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "child: a role is missing")
		return 2
	}
	r, err := Parse(args[0])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := context.WithDeadline(context.Background(), end(os.Getenv(UntilVariable), time.Now()))
	defer cancel()
	if err = r.run(ctx); err != nil {
		return crashCode
	}
	return 0
}

// end is when a child exits by itself.
func end(until string, now time.Time) time.Time {
	if seconds, err := strconv.ParseInt(until, 10, 64); err == nil {
		return time.Unix(seconds, 0)
	}
	return now.Add(lifetime)
}

// run starts the processes of the role, and serves or waits.
func (r Role) run(ctx context.Context) error {
	go func() { // exits in any state
		<-ctx.Done()
		os.Exit(crashCode)
	}()
	switch r.Kind {
	case Stubborn, holdStubborn, away:
		signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	}
	switch r.Kind {
	case hold, holdStubborn, away:
		<-ctx.Done()
		return nil
	case leave:
		return start(away, true)
	case OtherSession:
		return r.alone(ctx)
	case Fork:
		if err := start(hold, false); err != nil {
			return err
		}
		if err := start(holdStubborn, false); err != nil {
			return err
		}
	case Daemon:
		if err := start(leave, true); err != nil {
			return err
		}
	}
	err := r.Serve(ctx, os.Stdin, os.Stdout, os.Stderr)
	if err == nil && (r.Kind == IgnoreEOF || r.Kind == Stubborn) {
		<-ctx.Done()
	}
	return err
}

// start starts the program in another role, with the same pipes, and does not wait for it.
func start(kind Kind, session bool) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("child: %w", err)
	}
	cmd := exec.Command(self, Word, Role{Kind: kind}.String())
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: session}
	if err = cmd.Start(); err != nil {
		return fmt.Errorf("child: %w", err)
	}
	return cmd.Process.Release()
}
