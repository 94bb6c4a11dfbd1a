package supervisor

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"dragoman/adapters/stdio/process"
	"dragoman/adapters/stdio/upstream"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

const (
	// exitTime bounds how long those who wait are kept waiting for the reason of a child's end.
	exitTime = 500 * time.Millisecond
	// lastWords is how many lines of stderr an error shows, and lastBytes how much of them in all.
	lastWords = 3
	lastBytes = 500
)

// ending says how a child has ended, as the rest of a sentence that begins with the server: by its exit, or by what
// reading its output returned.
func ending(exit *process.ExitError, err error, uptime time.Duration) string {
	switch {
	case exit != nil && exit.Signal != "":
		return fmt.Sprintf("was ended by %s after %s", exit.Signal, upstream.Duration(exit.Uptime))
	case exit != nil:
		return fmt.Sprintf("exited with code %d after %s", exit.Code, upstream.Duration(exit.Uptime))
	case errors.Is(err, io.EOF):
		return fmt.Sprintf("closed its output after %s", upstream.Duration(uptime))
	}
	return fmt.Sprintf("broke off after %s: %v", upstream.Duration(uptime), err)
}

// words are the last lines of stderr, joined, for an error message; empty if there are none. They are printable already.
func words(tail []string) string {
	left := lastBytes
	from := len(tail)
	cut := ""
	for from > 0 && len(tail)-from < lastWords && left > 0 {
		from--
		if line := tail[from]; len(line) > left {
			for !utf8.RuneStart(line[left]) {
				left--
			}
			cut = line[:left] + "…"
			left = 0
			break
		}
		left -= len(tail[from]) + len(" | ")
	}
	lines := tail[from:]
	if cut != "" {
		lines = append([]string{cut}, tail[from+1:]...)
	}
	if len(lines) == 0 {
		return ""
	}
	return "; last on stderr: " + strings.Join(lines, " | ")
}

// crashed is the error of the calls that a child's end has cut off.
func crashed(name, how string, exit *process.ExitError, tail []string) *proxy.Error {
	e := &proxy.Error{Fault: proxy.Lost, Message: upstream.Called(name) + " has ended: it " + how + words(tail)}
	if exit != nil {
		e.Cause = exit
	}
	e.Data = faultData(e.Fault, exit, tail)
	return e
}

// faultData is error.data with what a program may want to know of the end besides: code, retryable, exitCode, signal,
// stderr.
func faultData(f proxy.Fault, exit *process.ExitError, tail []string) []byte {
	data := wire.AppendText([]byte(`{"code":`), f.Name)
	data = strconv.AppendBool(append(data, `,"retryable":`...), f.Retryable)
	if exit != nil && exit.Signal == "" {
		data = strconv.AppendInt(append(data, `,"exitCode":`...), int64(exit.Code), 10)
	}
	if exit != nil && exit.Signal != "" {
		data = wire.AppendText(append(data, `,"signal":`...), exit.Signal)
	}
	data = append(data, `,"stderr":[`...)
	for i, line := range tail[max(0, len(tail)-lastWords):] {
		if i > 0 {
			data = append(data, ',')
		}
		data = wire.AppendText(data, line)
	}
	return append(data, "]}"...)
}

// silent is the error of a child that has not answered its first request in time.
func silent(name string, limit time.Duration, tail []string) *proxy.Error {
	e := proxy.Errf(proxy.UpstreamTimeout, "%s has not answered its first request within %s (upstreams.%s.start_timeout) and is stopped%s",
		upstream.Called(name), upstream.Duration(limit), upstream.Key(name), words(tail))
	e.Data = faultData(e.Fault, nil, tail)
	return e
}
