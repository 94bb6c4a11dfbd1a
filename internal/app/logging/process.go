package logging

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"

	"dragoman/policies/telemetry"
)

// Process is the log of a command that serves. Nothing that the command does depends on whether the log is read.
type Process struct {
	zerolog.Logger
	Lines *telemetry.BatchWriter // gathers the lines of the log; nil: each is written at once
	Out   *Writer                // what else the command prints there goes through it, too

	broken chan os.Signal
}

// Open returns the log of a command that serves, which writes to w; see [New] for level and format. If batch is true,
// lines that are not for people are gathered. The caller must call Close.
func Open(level, format string, w io.Writer, batch bool) (*Process, error) {
	p := &Process{Out: NewWriter(w), broken: make(chan os.Signal, 1)}
	var lines io.Writer = p.Out
	if batch {
		if p.Lines = Batch(format, p.Out); p.Lines != nil {
			lines = p.Lines
		}
	}
	var err error
	if p.Logger, err = New(level, format, lines); err != nil {
		return nil, err
	}
	p.Out.OnLoss(func(lines uint64) {
		p.Warn().Uint64("lines", lines).Msg("lines of the log were dropped, because they were not read in time or could not be written")
	})
	// Go ends a process that writes to standard error after its reader has gone, unless it has asked for the signal.
	signal.Notify(p.broken, syscall.SIGPIPE)
	return p, nil
}

// Close writes what waits, for a second at most.
func (p *Process) Close() {
	if p.Lines != nil {
		p.Lines.Close()
	}
	p.Out.Flush(flushTime)
}
