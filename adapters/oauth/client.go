package oauth

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/time/rate"

	"dragoman/adapters/httpd/http1"
	"dragoman/proxy"
	"dragoman/proxy/redact"
)

// Bounds of a token endpoint's answer and of the lifetime of tokens.
const (
	maxAnswer       = 64 << 10
	renewBefore     = 30 * time.Second // a token is replaced so long before its end, but not before half its lifetime
	defaultLifetime = 5 * time.Minute  // lifetime of a token without expires_in
	maxLifetime     = 24 * time.Hour
	// refusalsAtOnce tokens that the server refuses are replaced at once, then one every refusalsPause. A server that refuses all
	// of them has other reasons, for which the token endpoint must not be flooded.
	refusalsAtOnce = 3
	refusalsPause  = 10 * time.Second
)

// ClientOptions configure a Client.
type ClientOptions struct {
	Upstream           string // name of the upstream, for errors
	TokenURL           string
	ID, Secret         string
	Post               bool // ID and Secret are sent in the body, not in a header
	Scopes             []string
	Audience, Resource string // of the token, if not empty
	CAFile             string
	Now                func() time.Time
}

// Client gets tokens by the client credentials grant (RFC 6749 §4.4) when they are needed, and keeps the last one until shortly
// before its end. Only one request is in progress at a time. Tokens are never logged and never part of an error. Client implements
// httpclient.Credentials.
type Client struct {
	opt    ClientOptions
	config clientcredentials.Config
	web    *web
	ctx    context.Context
	stop   context.CancelFunc
	group  sync.WaitGroup

	fetched, dropped atomic.Int64
	refusals         *rate.Limiter

	secrets atomic.Pointer[redact.Secrets] // of the last two tokens

	mu     sync.Mutex
	value  string // of Authorization; empty: there is no token
	last   string // the value got last
	until  time.Time
	flight *grant
	began  time.Time    // start of the last flight
	failed *proxy.Error // its error
}

// grant is a token request in progress.
type grant struct {
	done  chan struct{}
	value string
	err   *proxy.Error
}

// NewClient makes a Client, which requests nothing before it is used. Close must be called.
func NewClient(opt ClientOptions) *Client {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	c := &Client{opt: opt, web: newWeb(opt.CAFile), refusals: rate.NewLimiter(rate.Every(refusalsPause), refusalsAtOnce)}
	c.config = clientcredentials.Config{ClientID: opt.ID, ClientSecret: opt.Secret, TokenURL: opt.TokenURL, Scopes: opt.Scopes,
		EndpointParams: url.Values{}, AuthStyle: oauth2.AuthStyleInHeader}
	if opt.Post {
		c.config.AuthStyle = oauth2.AuthStyleInParams
	}
	if opt.Audience != "" {
		c.config.EndpointParams.Set("audience", opt.Audience)
	}
	if opt.Resource != "" {
		c.config.EndpointParams.Set("resource", opt.Resource)
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// Close cancels a request in progress and releases the connections.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.group.Wait()
	c.web.close()
}

// Fetched returns how many tokens were received.
func (c *Client) Fetched() int64 { return c.fetched.Load() }

// Authorization implements httpclient.Credentials: it returns "Bearer" and a valid token. It waits for one until ctx ends. Its own errors
// are *proxy.Error of the row NoToken.
func (c *Client) Authorization(ctx context.Context) (string, error) {
	c.mu.Lock()
	now := c.opt.Now()
	if c.value != "" && now.Before(c.until) {
		defer c.mu.Unlock()
		return c.value, nil
	}
	g := c.flight
	switch {
	case g != nil:
	case c.ctx.Err() != nil:
		c.mu.Unlock()
		return "", proxy.Errf(proxy.NoToken, "no token for the upstream server: the proxy is shutting down")
	case c.failed != nil && now.Sub(c.began) < againAfterFailure:
		defer c.mu.Unlock()
		return "", c.failed
	default:
		g = &grant{done: make(chan struct{})}
		c.flight, c.began = g, now
		c.group.Go(func() { c.run(g) })
	}
	c.mu.Unlock()
	select {
	case <-g.done:
		if g.err != nil {
			return "", g.err
		}
		return g.value, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// Refused implements httpclient.Credentials: the server has refused a value, so that the next request gets a new token, unless there is
// a new one already, or the server refuses all of them.
func (c *Client) Refused(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.value == value && c.refusals.AllowN(c.opt.Now(), 1) {
		c.value = ""
		c.dropped.Add(1)
	}
}

// Hide implements httpclient.Credentials: it hides the last two tokens.
func (c *Client) Hide(text string) string { return c.secrets.Load().Whole(text) }

// Dropped returns how many tokens the server has refused.
func (c *Client) Dropped() int64 { return c.dropped.Load() }

func (c *Client) run(g *grant) {
	value, lasts, err := c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	g.value, g.err = value, err
	if c.failed = err; err == nil {
		c.secrets.Store(redact.New(value, c.last)) // the server may still speak of the one before
		c.value, c.last, c.until = value, value, c.opt.Now().Add(lasts)
		c.fetched.Add(1)
	}
	c.flight = nil
	close(g.done)
}

// ask requests a token and returns how long it may be used. Of the endpoint's answer, errors have the status and a known error code
// only.
func (c *Client) ask() (value string, lasts time.Duration, failed *proxy.Error) {
	fail := func(format string, args ...any) (string, time.Duration, *proxy.Error) {
		return "", 0, proxy.Errf(proxy.NoToken, "no token for the upstream server: "+format+"; see upstreams.%s.oauth", append(args, c.opt.Upstream)...)
	}
	token, err := c.config.Token(context.WithValue(c.ctx, oauth2.HTTPClient, &http.Client{Transport: tokenTransport{c.web}}))
	var refused *oauth2.RetrieveError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused):
		return fail("its token endpoint has answered with HTTP status %d %s", refused.Response.StatusCode, errorCode(refused.ErrorCode))
	case errors.As(err, &unreachable):
		return fail("its token endpoint cannot be asked: %w", unreachable.Err)
	case err != nil || !http1.ValidValue(token.AccessToken) || strings.ContainsAny(token.AccessToken, " \t"):
		return fail("its token endpoint has answered without one")
	case token.TokenType != "" && !strings.EqualFold(token.TokenType, "bearer"):
		return fail("its token endpoint gives out other tokens than bearer tokens")
	}
	lasts = defaultLifetime
	if left := time.Until(token.Expiry).Round(time.Second); left > 0 {
		lasts = min(left, maxLifetime)
		lasts -= min(renewBefore, lasts/2)
	}
	return "Bearer " + token.AccessToken, lasts, nil
}

// tokenTransport sends the requests of golang.org/x/oauth2 as all others are sent: through adapters/httpd, within fetchTime and
// maxAnswer, without redirects.
type tokenTransport struct{ web *web }

// RoundTrip implements http.RoundTripper.
func (t tokenTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	form, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	status, body, err := t.web.do(req.Context(), req.URL.String(), form, req.Header.Get("Authorization"), maxAnswer)
	if err != nil {
		return nil, err
	}
	// The body is JSON (RFC 6749 §5.1), whatever the endpoint calls it: as text/plain it would be read as a form.
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

// errorCode returns the endpoint's error code in parentheses, if it is one of RFC 6749 §5.2.
func errorCode(code string) string {
	known := []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target"}
	if slices.Contains(known, code) {
		return "(" + code + ")"
	}
	return "(no error code)"
}
