package supervisor

import (
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
	// exitTime limits how long pending calls wait for the reason of a child's end.
	exitTime = 500 * time.Millisecond
	// lastWords is how many lines of stderr an error shows, and lastBytes how many bytes of them in all.
	lastWords = 3
	lastBytes = 500
)

// words returns the last lines of stderr, joined, for an error message; empty if there are none. They are already
// printable.
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

// crashed returns the error of the calls that a child's end has interrupted. tail are the lines on stderr that it shows.
func crashed(name, how string, exit *process.ExitError, tail []string) *proxy.Error {
	e := &proxy.Error{Fault: proxy.Lost, Message: upstream.Called(name) + " has ended: it " + how + words(tail)}
	if exit != nil {
		e.Cause = exit
		if exit.Lost {
			e.Blame = "dragoman"
		}
	}
	e.Data = faultData(e.Fault, exit, tail)
	return e
}

// faultData returns error.data for programs, with the members code, retryable, exitCode, signal and, if lines are shown, stderr.
func faultData(f proxy.Fault, exit *process.ExitError, tail []string) []byte {
	data := wire.AppendText([]byte(`{"code":`), f.Name)
	data = strconv.AppendBool(append(data, `,"retryable":`...), f.Retryable)
	if exit != nil && exit.Signal == "" {
		data = strconv.AppendInt(append(data, `,"exitCode":`...), int64(exit.Code), 10)
	}
	if exit != nil && exit.Signal != "" {
		data = wire.AppendText(append(data, `,"signal":`...), exit.Signal)
	}
	if len(tail) == 0 {
		return append(data, '}')
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

// wedged returns the error of a child that gives no sign of life.
func wedged(name string, calls int, limit time.Duration, tail []string) *proxy.Error {
	e := proxy.Errf(proxy.Lost, "%s is replaced: it was silent in %d calls in a row, and gave no sign of life within %s (upstreams.%s.health_check_timeout)%s",
		upstream.Called(name), calls, upstream.Duration(limit), upstream.Key(name), words(tail))
	e.Data = faultData(e.Fault, nil, tail)
	return e
}

// silent returns the error of a child that has not answered its first request in time.
func silent(name string, limit time.Duration, tail []string) *proxy.Error {
	e := proxy.Errf(proxy.UpstreamTimeout, "%s has not answered its first request within %s (upstreams.%s.start_timeout) and is stopped%s",
		upstream.Called(name), upstream.Duration(limit), upstream.Key(name), words(tail))
	e.Data = faultData(e.Fault, nil, tail)
	return e
}
