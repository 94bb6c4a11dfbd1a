// Command rolling restarts two Dragomans behind a load balancer, one after the other and repeatedly, under load of every kind of client,
// and fails if a single request does. Then it kills one and checks that clients recover.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

type options struct {
	dragoman, haproxy string
	rounds, clients   int
	delay             time.Duration
	keep              string
}

func main() {
	var o options
	flag.StringVar(&o.dragoman, "dragoman", "./dragoman", "the Dragoman to restart")
	flag.StringVar(&o.haproxy, "haproxy", "haproxy", "the load balancer")
	flag.IntVar(&o.rounds, "rounds", 4, "number of restarts of both")
	flag.IntVar(&o.clients, "clients", 4, "clients of each kind")
	flag.DurationVar(&o.delay, "delay", 2*time.Second, "drain_delay of both")
	flag.StringVar(&o.keep, "keep", "", "keep logs in this directory")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Restarts two Dragomans behind HAProxy under load; no request may fail.\n\nUsage: rolling [flags]\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "rolling: "+err.Error())
		stop()
		os.Exit(1)
	}
}

// startWait is how long a start or an end may take.
const startWait = 30 * time.Second

func run(ctx context.Context, o options) (err error) {
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "rolling"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err = os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	s, err := newStage(o, dir)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.start(ctx); err != nil {
		return err
	}
	load := newLoad(s.front, o.clients)
	load.begin(ctx)
	defer load.end()
	if err := load.warm(ctx); err != nil {
		return err
	}
	for round := 1; round <= o.rounds; round++ {
		for _, i := range s.instances {
			load.step()
			took, err := s.restart(ctx, i)
			if err != nil {
				return err
			}
			fmt.Printf("round %d: %s ended after %s and is back; %s\n", round, i.name, took.Round(time.Millisecond), load.tally())
			if err := load.more(ctx); err != nil {
				return err
			}
		}
	}
	if n := load.failures(); n > 0 {
		return fmt.Errorf("%d requests failed before the kill; the first: %s", n, load.first())
	}
	fmt.Println("killing one")
	load.setForgiving(true)
	load.step()
	if err := s.kill(ctx, s.instances[0]); err != nil {
		return err
	}
	if err := load.more(ctx); err != nil {
		return err
	}
	forgiven := load.failures()
	load.setForgiving(false)
	if err := load.more(ctx); err != nil {
		return err
	}
	load.end()
	fmt.Printf("killed: %d requests of that instance were lost; all clients went on; %s\n", forgiven, load.tally())
	if n := load.failures() - forgiven; n > 0 {
		return fmt.Errorf("%d requests failed after the killed instance had come back; the last: %s", n, load.first())
	}
	return nil
}

func logFile(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

var errTimeout = errors.New("not in time")

// until waits for a condition.
func until(ctx context.Context, what string, cond func() bool) error {
	limit := time.Now().Add(startWait)
	for !cond() {
		if time.Now().After(limit) {
			return fmt.Errorf("%s: %w", what, errTimeout)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
