package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
)

// Check says how one dependency is checked: by an HTTP request, or by opening a connection.
type Check struct {
	Name    string
	URL     string        // http or https: the status of a GET must be below 400
	Address string        // HOST:PORT, without a URL: a TCP connection must succeed
	Timeout time.Duration // of one check
}

// Checks checks dependencies regularly, with one goroutine for each.
type Checks struct {
	every time.Duration
	stop  context.CancelFunc
	group sync.WaitGroup
	hosts []*httpclient.Host // one for each check; nil for those without a URL

	mu     sync.Mutex
	checks []Check
	last   []Dependency
}

// errUnchecked is the state before the first check has ended.
var errUnchecked = errors.New("not checked yet")

// StartChecks starts checking, at once and then at intervals of every. It fails if a URL is invalid. Close must be called.
func StartChecks(checks []Check, every time.Duration) (*Checks, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &Checks{every: every, stop: stop, checks: checks}
	for _, check := range checks {
		c.last = append(c.last, Dependency{Name: check.Name, Error: errUnchecked.Error()})
		var host *httpclient.Host
		if check.URL != "" {
			var err error
			if host, err = httpclient.NewHost(httpclient.HostOptions{URL: check.URL, ConnectTimeout: check.Timeout}); err != nil {
				c.Close()
				return nil, fmt.Errorf("service: dependencies.%s: %w", check.Name, err)
			}
		}
		c.hosts = append(c.hosts, host)
	}
	for i := range checks {
		c.group.Go(func() { c.run(ctx, i) })
	}
	return c, nil
}

// Close ends the checks.
func (c *Checks) Close() {
	c.stop()
	c.group.Wait()
	for _, h := range c.hosts {
		if h != nil {
			_ = h.Close() // the rest of a check
		}
	}
}

// Last returns the last results.
func (c *Checks) Last() []Dependency {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.last)
}

func (c *Checks) run(ctx context.Context, i int) {
	tick := time.NewTicker(c.every)
	defer tick.Stop()
	for {
		seen := c.check(ctx, i)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		c.last[i] = seen
		c.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *Checks) check(ctx context.Context, i int) Dependency {
	check := c.checks[i]
	ctx, cancel := context.WithTimeout(ctx, check.Timeout)
	defer cancel()
	began := time.Now()
	var err error
	if host := c.hosts[i]; host != nil {
		err = get(ctx, host)
	} else {
		err = dial(ctx, check.Address)
	}
	if err != nil && ctx.Err() != nil { // whatever error the timeout has caused
		err = ctx.Err()
	}
	d := Dependency{Name: check.Name, Connected: err == nil, Took: time.Since(began)}
	if err != nil {
		d.Error = explain(err, check.Timeout)
	}
	return d
}

func dial(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close() // that it was opened is enough
	}
	return err
}

// get sends one request. It does not read the body, so the connection is not used again.
func get(ctx context.Context, host *httpclient.Host) error {
	var req http1.Request
	answer, err := host.Send(ctx, &req)
	if err != nil {
		return err
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, _, err := answer.Head(time.Time{})
	if err == nil && status >= fasthttp.StatusBadRequest {
		err = errors.New("HTTP status " + strconv.Itoa(status))
	}
	return err
}

// explain returns why a check has failed, without addresses, which callers must not see.
func explain(err error, limit time.Duration) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("Connection timeout after %dms", limit.Milliseconds())
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Connection refused"
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "Name not found"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}
