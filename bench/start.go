package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"time"

	"dragoman/bench/load/drive"
	"dragoman/bench/measure"
	"dragoman/bench/reference"
)

// starts measures starts in turn: of a Go program that listens and answers at once, which is the lower bound; of a child alone; and of
// Dragoman in front of a running server, and in front of such a child.
func (b *suite) starts(ctx context.Context, t *targets) error {
	upstream, err := t.get(ctx, modernUpstream)
	if err != nil {
		return err
	}
	if _, _, err := t.program(); errors.Is(err, errAbsent) {
		return nil
	}
	rows := []*startRow{
		{Name: startServer, What: "a Go program that listens and answers", starts: func(ctx context.Context) (time.Duration, measure.CPU, error) {
			return t.startOf(ctx, func(listen string) []string { return []string{t.self, roleWord, roleUpstream, "--listen", listen} }, true)
		}},
		{Name: startHTTP, What: "dragoman, before a server that runs", starts: func(ctx context.Context) (time.Duration, measure.CPU, error) {
			return t.startOf(ctx, func(listen string) []string { return t.serve(listen, upstream.url()) }, false)
		}},
		{Name: startChild, What: "a child alone, over its pipes", starts: func(ctx context.Context) (time.Duration, measure.CPU, error) {
			took, err := t.startOfChild(ctx)
			return took, measure.CPU{}, err
		}},
		{Name: startStdio, What: "dragoman, with that child", starts: func(ctx context.Context) (time.Duration, measure.CPU, error) {
			return t.startOf(ctx, func(listen string) []string { return t.serve(listen, t.echo(reference.Modern)...) }, false)
		}},
	}
	for i := range startsARound*b.rounds + 1 {
		for _, r := range rows {
			took, cpu, err := r.starts(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", r.What, err)
			}
			if i > 0 { // the first start reads the program from disk
				r.Times = append(r.Times, milli(took))
				r.cpu = append(r.cpu, milli(cpu.Own))
			}
		}
	}
	figure := &startRow{Name: startFigure, What: "dragoman, without its child's own time"}
	for i, all := range rows[3].Times {
		figure.Times = append(figure.Times, all-rows[2].Times[i])
	}
	for _, r := range append(rows, figure) {
		r.Sum, r.CPU = measure.Sum(r.Times), measure.Sum(r.cpu)
		fmt.Fprintf(b.progress, "%s: %.2f ms (%.2f-%.2f), CPU %.2f ms\n", r.What, r.Sum.Median, r.Sum.Min, r.Sum.Max, r.CPU.Median)
	}
	b.report.Start = append(rows, figure)
	return nil
}

func milli(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// serve is the command line of a Dragoman.
func (t *targets) serve(listen string, upstream ...string) []string {
	return append([]string{t.settings.dragoman, "serve", "--listen", listen, "--admin", "off"}, upstream...)
}

// startOf starts a program that listens on a given address, and calls it until its answer is correct.
func (t *targets) startOf(ctx context.Context, argv func(listen string) []string, announces bool) (time.Duration, measure.CPU, error) {
	listen, err := freeAddr()
	if err != nil {
		return 0, measure.CPU{}, err
	}
	under := target{addr: listen}
	plan := under.plan(drive.ModernHTTP, smallSize, false)
	plan.Timeout = startPatience
	command := measure.Command{Name: "start", Argv: argv(listen), Log: t.log("start"), Announces: announces}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	begun := time.Now()
	answered := make(chan error, 1)
	var ended time.Time
	go func() { // ends with ctx at the latest
		err := drive.First(ctx, plan, func(error) bool { shortSleep(); return ctx.Err() == nil })
		ended = time.Now()
		answered <- err
	}()
	process, err := measure.Start(ctx, command)
	if err != nil {
		cancel()
		<-answered
		return 0, measure.CPU{}, err
	}
	defer process.Stop()
	if err = <-answered; err != nil {
		return 0, measure.CPU{}, errors.Join(err, process.Failed())
	}
	cpu, err := measure.ReadCPU(process.PID())
	if runtime.GOOS != "linux" {
		err = nil
	}
	return ended.Sub(begun), cpu, err
}

// startOfChild starts the echo server as a child and sends it what Dragoman would: server/discover and a call.
func (t *targets) startOfChild(ctx context.Context) (time.Duration, error) {
	argv := t.echo(reference.Modern)[1:]
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	lines := bufio.NewReader(out)
	token := string(reference.AppendToken(nil, 1, 100, reference.FormJSON))
	for _, ask := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"` + token + `"}}}`,
	} {
		if _, err = io.WriteString(in, ask+"\n"); err == nil {
			_, err = lines.ReadString('\n')
		}
		if err != nil {
			break
		}
	}
	took := time.Since(begun)
	_ = in.Close() // the child exits
	return took, errors.Join(err, cmd.Wait())
}
