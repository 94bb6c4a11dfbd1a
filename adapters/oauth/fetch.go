package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
)

// fetchTime bounds one request to an authorization server, and maxHosts the origins of one web.
const (
	fetchTime = 10 * time.Second
	maxHosts  = 8
)

var errHosts = errors.New("oauth: too many different hosts are named")

// web sends requests to the hosts of one authorization server. It does not follow redirects: only URLs of the configuration and of
// the issuer's own metadata are requested.
type web struct {
	caFile string

	mu    sync.Mutex
	hosts map[string]*httpclient.Host // by origin
}

func newWeb(caFile string) *web { return &web{caFile: caFile, hosts: map[string]*httpclient.Host{}} }

func (w *web) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hosts {
		_ = h.Close() // closes idle connections; errors no longer matter
	}
}

// host returns the pool of an origin, and the request target there.
func (w *web) host(raw string) (*httpclient.Host, string, error) {
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
		if h, err = httpclient.NewHost(httpclient.HostOptions{URL: origin, CAFile: w.caFile, ConnectTimeout: fetchTime, MaxConns: 4}); err != nil {
			return nil, "", err
		}
		w.hosts[origin] = h
	}
	return h, u.RequestURI(), nil
}

// do sends one request and reads at most limit bytes of the answer. A form that is not nil is posted. basic, if not empty, is the
// Authorization header.
func (w *web) do(ctx context.Context, raw string, form []byte, basic string, limit int) (status int, body []byte, err error) {
	host, target, err := w.host(raw)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	req := http1.AcquireRequest(fasthttp.MethodGet, target, form)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	if basic != "" {
		_ = req.Set("Authorization", basic) // Send reports an invalid value
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

// get returns the body of at most limit bytes of an answer with status 200.
func (w *web) get(ctx context.Context, raw string, limit int) ([]byte, error) {
	status, body, err := w.do(ctx, raw, nil, "", limit)
	if err == nil && status != fasthttp.StatusOK {
		err = fmt.Errorf("HTTP status %d", status)
	}
	return body, err
}

// cause returns why a request has failed: the cause of ctx if it has ended, else err.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
