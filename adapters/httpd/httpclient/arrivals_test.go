package httpclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"dragoman/adapters/eventstream"
)

const arrival = 300 << 10

// unfinished returns the address of a server whose answers lack their last byte.
func unfinished(t *testing.T, kind string) string {
	t.Helper()
	return upstream(t, func(_ int, c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\ndata: %s", kind, arrival, strings.Repeat("x", arrival-7))
			_, _ = io.Copy(io.Discard, c)
		}
	})
}

// arrive reads an answer as far as it has come, or may come.
func arrive(t *testing.T, h *Host, events bool) (Response, error) {
	t.Helper()
	r := send(t, h, post("hi"))
	t.Cleanup(r.Close)
	var body []byte
	var err error
	var split eventstream.Splitter
	for got := 0; got < arrival-1; {
		until := time.Now().Add(10 * time.Millisecond)
		if events {
			r.SetDeadline(until)
			_, err = split.Next(r)
			c := r.conn()
			got = int(c.body.Got())
		} else {
			body, err = r.Body(body, 1<<20, until)
			got = len(body)
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return r, err
		}
	}
	return r, nil
}

// Parts of bodies and events count together, for a server and for all. One answer arrives whatever its size, and what has ended counts
// no more.
func TestArrivals(t *testing.T) {
	for _, events := range []bool{false, true} {
		t.Run(fmt.Sprintf("events %v", events), func(t *testing.T) {
			all := NewArrivals(1 << 20)
			var told []error
			host := func() *Host {
				return newHost(t, HostOptions{URL: unfinished(t, "text/event-stream"), Arrivals: all, Overrun: func(err error) { told = append(told, err) }})
			}
			greedy, other := host(), host()
			first, err := arrive(t, greedy, events)
			for err == nil && all.used <= 1<<20 {
				_, err = arrive(t, greedy, events)
			}
			var full *ArrivalError
			if !errors.As(err, &full) || !full.Own || full.Limit != 768<<10 || all.used > full.Limit || all.used < arrival {
				t.Fatalf("%v, %d bytes", err, all.used)
			}
			if _, err := arrive(t, greedy, events); !errors.As(err, &full) || len(told) != 1 || !errors.As(told[0], &full) {
				t.Errorf("%v, told %v", err, told)
			}
			for err = nil; err == nil && all.used <= 1<<20; {
				_, err = arrive(t, other, events)
			}
			if !errors.As(err, &full) || full.Own || full.Limit != 1<<20 || other.held < 200<<10 {
				t.Errorf("%v, %d bytes, %d of the other server", err, all.used, other.held)
			}
			before := all.used
			first.Close()
			if all.used >= before {
				t.Errorf("%d bytes after the end of one, %d before", all.used, before)
			}
		})
	}
}

// The only answer arrives whatever its size.
func TestArrivalAlone(t *testing.T) {
	for _, events := range []bool{false, true} {
		all := NewArrivals(100 << 10)
		h := newHost(t, HostOptions{URL: unfinished(t, "text/event-stream"), Arrivals: all})
		r, err := arrive(t, h, events)
		if err != nil || all.used < arrival/2 {
			t.Errorf("events %v: %v, %d bytes", events, err, all.used)
		}
		if r.Close(); all.used != 0 || h.held != 0 {
			t.Errorf("events %v: %d bytes after its end, %d of the server", events, all.used, h.held)
		}
	}
}

// A bound of 0 is none.
func TestArrivalsUnbounded(t *testing.T) {
	h := newHost(t, HostOptions{URL: unfinished(t, "application/json"), Arrivals: NewArrivals(0)})
	for range 3 {
		if _, err := arrive(t, h, false); err != nil {
			t.Error(err)
		}
	}
}
