package oauth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
	"golang.org/x/time/rate"

	"dragoman/adapters/httpd"
	"dragoman/proxy"
)

// Bounds of what a token endpoint answers, and how long it counts.
const (
	maxAnswer     = 64 << 10
	early         = 30 * time.Second // before its end a token is replaced; but not before half its time is over
	withoutExpiry = 5 * time.Minute  // how long a token is used that does not say
	longest       = 24 * time.Hour
	// A server may refuse so many tokens one after the other that new ones are got, and then one in so long a time: one that
	// refuses all of them has other reasons, and the token endpoint is not to be flooded for it.
	refusalsAtOnce = 3
	refusalsPause  = 10 * time.Second
)

// ClientOptions say how tokens are got by Dragoman's own credentials.
type ClientOptions struct {
	Upstream           string // for errors
	TokenURL           string
	ID, Secret         string
	Post               bool // ID and Secret go into the body, not into a header
	Scopes             []string
	Audience, Resource string // of the token, if not empty
	CAFile             string
	Now                func() time.Time
}

// Client gets tokens by the client credentials grant (RFC 6749, 4.4) when they are needed, and keeps the last one until shortly
// before its end. One at a time is asked for. Tokens are never logged, and are in no error. It implements httpd.Credentials.
type Client struct {
	opt    ClientOptions
	config clientcredentials.Config
	web    *web
	ctx    context.Context
	stop   context.CancelFunc
	group  sync.WaitGroup

	mu               sync.Mutex
	value            string // of Authorization; empty: none
	until            time.Time
	flight           *grant
	began            time.Time    // of the last flight
	failed           *proxy.Error // what it came to
	fetched, dropped int64
	refusals         *rate.Limiter
}

// grant is a request for a token under way.
type grant struct {
	done  chan struct{}
	value string
	err   *proxy.Error
}

// NewClient makes a Client; nothing is asked for yet. Close must be called.
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

// Close ends asking.
func (c *Client) Close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.group.Wait()
	c.web.close()
}

// Fetched is how many tokens were got.
func (c *Client) Fetched() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetched
}

// Authorization implements httpd.Credentials: "Bearer" and a token that still holds. It waits for one as long as ctx allows. An
// error of its own is a *proxy.Error of the row NoToken.
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

// Refused implements httpd.Credentials: the server has not taken a value, so that the next request gets a new one, unless
// somebody has got one meanwhile, or the server takes none at all.
func (c *Client) Refused(value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.value == value && c.refusals.AllowN(c.opt.Now(), 1) {
		c.value = ""
		c.dropped++
	}
}

// Dropped is how many tokens a server has refused.
func (c *Client) Dropped() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dropped
}

func (c *Client) run(g *grant) {
	value, lasts, err := c.ask()
	c.mu.Lock()
	defer c.mu.Unlock()
	g.value, g.err = value, err
	if c.failed = err; err == nil {
		c.value, c.until = value, c.opt.Now().Add(lasts)
		c.fetched++
	}
	c.flight = nil
	close(g.done)
}

// ask gets a token, and how long it is to be used. What the endpoint has sent is in no error, but for a known error code.
func (c *Client) ask() (value string, lasts time.Duration, failed *proxy.Error) {
	fail := func(format string, args ...any) (string, time.Duration, *proxy.Error) {
		e := proxy.Errf(proxy.NoToken, "no token for the upstream server: "+format+"; see upstreams.%s.oauth", append(args, c.opt.Upstream)...)
		return "", 0, e
	}
	token, err := c.config.Token(context.WithValue(c.ctx, oauth2.HTTPClient, &http.Client{Transport: tokenTransport{c.web}}))
	var refused *oauth2.RetrieveError
	var unreachable *url.Error
	switch {
	case errors.As(err, &refused):
		return fail("its token endpoint has answered with HTTP status %d %s", refused.Response.StatusCode, word(refused.ErrorCode))
	case errors.As(err, &unreachable):
		return fail("its token endpoint cannot be asked: %w", unreachable.Err)
	case err != nil || !httpd.ValidValue(token.AccessToken) || strings.ContainsAny(token.AccessToken, " \t"):
		return fail("its token endpoint has answered without one")
	case token.TokenType != "" && !strings.EqualFold(token.TokenType, "bearer"):
		return fail("its token endpoint gives out other tokens than bearer tokens")
	}
	lasts = withoutExpiry
	if left := time.Until(token.Expiry).Round(time.Second); left > 0 {
		lasts = min(left, longest)
		lasts -= min(early, lasts/2)
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
	// The body is JSON (RFC 6749, 5.1), whatever the endpoint calls it: as text/plain it would be read as a form.
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), Request: req}, nil
}

// word is an error code of the endpoint, if it is one (RFC 6749, 5.2), in parentheses.
func word(code string) string {
	for _, known := range []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope", "invalid_target"} {
		if code == known {
			return fmt.Sprintf("(%s)", code)
		}
	}
	return "(no error code)"
}
