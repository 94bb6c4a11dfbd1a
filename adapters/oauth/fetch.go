package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd"
)

// fetchTime bounds one request to an authorization server, maxHosts the origins that one client of it asks.
const (
	fetchTime = 10 * time.Second
	maxHosts  = 8
)

var errHosts = errors.New("oauth: too many different hosts are named")

// web makes requests to the hosts of one authorization server. Redirects are not followed: nothing but what was configured, or
// what the issuer's own metadata names, is asked.
type web struct {
	caFile string

	mu    sync.Mutex
	hosts map[string]*httpd.Host // by origin
}

func newWeb(caFile string) *web { return &web{caFile: caFile, hosts: map[string]*httpd.Host{}} }

func (w *web) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		_ = h.Close() // closes what is unused; no error of a server's concerns us any more
	}
}

// host gives the way to an origin, and the target there.
func (w *web) host(raw string) (*httpd.Host, string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return nil, "", fmt.Errorf("oauth: %q is no URL", raw)
	}
	origin := u.Scheme + "://" + u.Host
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.hosts[origin]
	if h == nil {
		if len(w.hosts) >= maxHosts {
			return nil, "", errHosts
		}
		if h, err = httpd.NewHost(httpd.HostOptions{URL: origin, CAFile: w.caFile, ConnectTimeout: fetchTime, MaxConns: 4}); err != nil {
			return nil, "", err
		}
		w.hosts[origin] = h
	}
	return h, u.RequestURI(), nil
}

// do makes one request and reads the answer, at most limit bytes of it. form, if not nil, is posted; basic, if not empty, is the
// credential.
func (w *web) do(ctx context.Context, raw string, form []byte, basic string, limit int) (status int, body []byte, err error) {
	host, target, err := w.host(raw)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req := httpd.AcquireRequest(fasthttp.MethodGet, target, form)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	if basic != "" {
		_ = req.Set("Authorization", basic) // Send says what is wrong with it
	}
	if form != nil {
		req.Method = fasthttp.MethodPost
		_ = req.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := host.Send(ctx, req)
	if err != nil {
		return 0, nil, cause(ctx, err)
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	if status, _, err = answer.Head(time.Time{}); err == nil {
		body, err = answer.Body(nil, limit, time.Time{})
	}
	return status, body, cause(ctx, err)
}

// cause is why a request has failed: because its time was over, whatever that has left, or err.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
