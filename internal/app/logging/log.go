// Package logging makes the log of the process.
package logging

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"dragoman/internal/config"
	"dragoman/policies/telemetry"
)

// TimeLayout is the layout of times in the log: RFC 3339 with milliseconds, in UTC.
const TimeLayout = "2006-01-02T15:04:05.000Z07:00"

// clockTime is the index in TimeLayout at which the time of day begins, which is all that a terminal shows.
var clockTime = strings.Index(TimeLayout, "T") + 1

// Levels maps the levels of the configuration to zerolog's.
var Levels = map[string]zerolog.Level{
	"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel,
	"error": zerolog.ErrorLevel, "critical": zerolog.FatalLevel,
}

// New returns the log of a process. It writes one JSON object a line with level, time and message. For the format
// "console", and for "auto" on a terminal, it writes lines for people instead. level and format are as in
// [config.LogConfig]; other values are an error. w must accept whole lines from several goroutines at a time, as files
// do. Nothing is redacted: callers must not log secrets.
func New(level, format string, w io.Writer) (zerolog.Logger, error) {
	least, ok := Levels[level]
	if !ok {
		return zerolog.Nop(), fmt.Errorf("log: unknown level %q", level)
	}
	readable := Terminal(w)
	switch format {
	case config.Auto:
	case "json":
		readable = false
	case "console":
		readable = true
	default:
		return zerolog.Nop(), fmt.Errorf("log: unknown format %q", format)
	}
	if readable {
		w = zerolog.ConsoleWriter{Out: w, NoColor: !Colourful(w, os.Environ()), FormatTimestamp: clock}
	}
	return zerolog.New(visible{w, readable}).Level(least).Hook(stamp{}), nil
}

// Batch returns a writer that gathers lines for w, or nil if the log is for people, who want each line at once.
func Batch(format string, w io.Writer) *telemetry.BatchWriter {
	if format == "console" || format == config.Auto && Terminal(w) {
		return nil
	}
	return telemetry.NewBatchWriter(w)
}

// stamp adds the time to each event. zerolog's own hook would need its globals set.
type stamp struct{}

// Run implements zerolog.Hook.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(TimeLayout))
}

func clock(value any) string {
	text, ok := value.(string)
	if !ok || len(text) < len("2006-01-02T15:04:05.000") {
		return ""
	}
	return text[clockTime:len("2006-01-02T15:04:05.000")]
}

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// Colourful reports whether w takes colours: it is a terminal, TERM is not dumb, and NO_COLOR is not set
// (no-color.org).
func Colourful(w io.Writer, environ []string) bool {
	if !Terminal(w) {
		return false
	}
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb" {
			return false
		}
	}
	return true
}
