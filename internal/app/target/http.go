package target

import (
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"dragoman/adapters/httpcall"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/adapters/legacy"
	"dragoman/adapters/modern"
	"dragoman/adapters/oauth"
	restupstream "dragoman/adapters/rest/upstream"
	"dragoman/adapters/sse"
	"dragoman/adapters/transport"
	"dragoman/internal/app/component"
	"dragoman/internal/config"
)

// newHost returns the HTTP client for an upstream with an http or https URL, and that URL. maxHeader bounds the head of
// a response in bytes.
func newHost(up *config.Upstream, token httpclient.Credentials, maxHeader int) (*httpclient.Host, *url.URL, error) {
	base, err := url.Parse(up.URL)
	if err != nil {
		return nil, nil, err
	}
	headers := make([]httpclient.Header, 0, len(up.Headers))
	for _, x := range up.Headers {
		headers = append(headers, httpclient.Header{Name: x.Name, Value: x.Value.Reveal()})
	}
	forward := make([]httpclient.Forward, 0, len(up.Forward))
	for _, x := range up.Forward {
		forward = append(forward, httpclient.Forward{From: strings.ToLower(x.From), To: x.To})
	}
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: up.URL, CAFile: up.CAFile, Proxy: up.Proxy, Headers: headers, Forward: forward, Credentials: token,
		ConnectTimeout: up.ConnectTimeout, MaxHeader: maxHeader})
	return host, base, err
}

// httpWires returns the transports of an upstream that is reached over HTTP.
func (b *Builder) httpWires(u *Upstream, up *config.Upstream, reg prometheus.Registerer) (wires transport.Wires, err error) {
	if o := &up.OAuth; o.TokenURL != "" {
		u.client = oauth.NewClient(oauth.ClientOptions{Upstream: up.Name, TokenURL: o.TokenURL, ID: o.ClientID, Secret: o.ClientSecret.Reveal(), Post: o.ClientAuth == "post",
			Scopes: o.Scopes, Audience: o.Audience, Resource: o.Resource, CAFile: up.CAFile})
		if err := reg.Register(component.Gauge("dragoman_upstream_tokens", "Tokens that were got for an upstream.", up.Name, func() int { return int(u.client.Fetched()) })); err != nil {
			return wires, err
		}
	}
	var base *url.URL
	if u.host, base, err = newHost(up, u.credentials(), b.Config.Limits.Header); err != nil {
		return wires, err
	}
	limits := httpcall.Limits{Body: b.Config.Limits.ResponseBody, Event: b.Config.Limits.Event}
	path := base.RequestURI()
	if up.Transport == config.RestName {
		u.Service = restupstream.New(u.host, path, limits)
		return transport.Wires{Modern: u.Service.Dial, Certain: true}, nil // there is nothing to probe but whether it is there
	}
	wires.Mirrors = true
	if up.Transport != "sse" {
		wires.Modern = modern.NewUpstream(u.host, path, limits).Dial
		wires.Legacy = legacy.NewDialer(u.host, path, limits).Dial
	}
	if up.Transport != "http" {
		wires.SSE = sse.NewDialer(u.host, base, limits).Dial
	}
	return wires, nil
}

// credentials returns what authenticates Dragoman at an upstream besides static headers; nil: nothing does.
func (u *Upstream) credentials() httpclient.Credentials {
	if u.client == nil {
		return nil
	}
	return u.client
}
