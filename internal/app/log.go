package app

import (
	"dragoman/policies/telemetry"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"

	"dragoman/internal/config"
)

// LogTime is RFC 3339 with milliseconds, in UTC.
const LogTime = "2006-01-02T15:04:05.000Z07:00"

// clockTime is the part of LogTime that people read on a terminal.
var clockTime = strings.Index(LogTime, "T") + 1

// LogLevels are the levels of the configuration in zerolog's terms.
var LogLevels = map[string]zerolog.Level{
	"debug": zerolog.DebugLevel, "info": zerolog.InfoLevel, "warn": zerolog.WarnLevel,
	"error": zerolog.ErrorLevel, "critical": zerolog.FatalLevel,
}

// NewLogger makes the log of a process: one JSON object a line with level,
// time and message, or, for format "console" and for "auto" on a terminal, a
// line for people. level and format are as in [LogConfig]; others are an
// error. w must take whole lines from several goroutines at a time, as files
// do. The log is written as it is said: whoever logs a secret, shows it.
func NewLogger(level, format string, w io.Writer) (zerolog.Logger, error) {
	least, ok := LogLevels[level]
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
	return zerolog.New(w).Level(least).Hook(stamp{}), nil
}

// batchLog gathers the lines of a log for w; nil if they are for people, who want each when it comes.
func batchLog(format string, w io.Writer) *telemetry.BatchWriter {
	if format == "console" || format == config.Auto && Terminal(w) {
		return nil
	}
	return telemetry.NewBatchWriter(w)
}

// stamp puts the time on each event. zerolog's own would need its globals set.
type stamp struct{}

// Run adds the time.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(zerolog.TimestampFieldName, time.Now().UTC().Format(LogTime))
}

func clock(value any) string {
	text, ok := value.(string)
	if !ok || len(text) < len("2006-01-02T15:04:05.000") {
		return ""
	}
	return text[clockTime:len("2006-01-02T15:04:05.000")]
}

// Terminal tells whether somebody reads w.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && (isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()))
}

// Colourful tells whether w takes colours: a terminal that is not dumb, and
// no NO_COLOR (no-color.org).
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
