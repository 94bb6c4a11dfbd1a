//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"dragoman/bench/measure"
)

const noProxy = "no proxy"

// measureStarts starts all contenders repeatedly, in turn.
func (b *bench) measureStarts(ctx context.Context, rep *report) error {
	rows := []*startRow{{Contender: noProxy, What: "the child alone, over its pipes"}}
	for i := range b.field {
		rows = append(rows, &startRow{Contender: b.field[i].name, What: b.field[i].what})
	}
	for n := range b.settings.starts {
		for i := range rows {
			row := rows[(i+n)%len(rows)]
			if row.Note != "" {
				continue
			}
			took, err := b.startOnce(ctx, row.Contender)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				row.Note = err.Error()
				b.say("%s: %v", row.Contender, err)
				continue
			}
			row.Starts = append(row.Starts, float64(took)/float64(time.Millisecond))
		}
		b.say("start %d of %d", n+1, b.settings.starts)
	}
	for _, row := range rows {
		row.Sum = measure.Sum(row.Starts)
		rep.Starts = append(rep.Starts, *row)
	}
	return nil
}

func (b *bench) startOnce(ctx context.Context, name string) (time.Duration, error) {
	if name == noProxy {
		return b.startChild(ctx)
	}
	for i := range b.field {
		if c := &b.field[i]; c.name == name {
			r, err := b.start(ctx, c, 0, "")
			if err != nil {
				return 0, err
			}
			defer b.stop(r)
			return r.ready(ctx, time.Millisecond)
		}
	}
	return 0, fmt.Errorf("peers: there is no %s", name)
}

// startChild measures the child alone: the lower bound of a start.
func (b *bench) startChild(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	argv := b.child(0)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	began := time.Now()
	if err = cmd.Start(); err != nil {
		return 0, fmt.Errorf("peers: %w", err)
	}
	lines := bufio.NewReader(out)
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"000000000000000019j"}}}`,
	} {
		if _, err = in.Write([]byte(message + "\n")); err != nil {
			break
		}
		var line string
		if line, err = lines.ReadString('\n'); err != nil || !strings.Contains(line, `"result":{`) {
			err = errors.Join(err, fmt.Errorf("peers: the child answers %.100q", line))
			break
		}
	}
	took := time.Since(began)
	_ = in.Close() // the child exits
	return took, errors.Join(err, cmd.Wait())
}
