package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/config/value"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Limits of a download.
const (
	downloadTime = 10 * time.Minute
	maxDownload  = 512 << 20 // bytes
	maxRedirects = 5
)

// Fetch writes a file that an entry of the registry names, of at most 512 MiB, and follows redirects. The registry's credential is not sent. Only
// a registry of this machine may name an address with http.
func (c *Client) Fetch(ctx context.Context, address string, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	for range maxRedirects + 1 {
		next, err := c.fetch(ctx, address, w)
		if err != nil {
			return fmt.Errorf("%s cannot be downloaded: %w", wire.Shown(value.RedactURL(address)), err)
		}
		if next == "" {
			return nil
		}
		address = next
	}
	return fmt.Errorf("%s cannot be downloaded: it leads to another address more than %d times", wire.Shown(value.RedactURL(address)), maxRedirects)
}

// fetch writes a file, or returns the address to which it has moved.
func (c *Client) fetch(ctx context.Context, address string, w io.Writer) (next string, err error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !c.mayPlain(u) {
		return "", errors.New("it is at no https URL")
	}
	host, err := httpclient.NewHost(httpclient.HostOptions{URL: u.Scheme + "://" + u.Host, MaxConns: 1})
	if err != nil {
		return "", err
	}
	defer func() { _ = host.Close() }()
	req := http1.AcquireRequest("GET", u.RequestURI(), nil)
	defer req.Release()
	answer, err := host.Send(ctx, req)
	if err != nil {
		return "", reason(ctx, err)
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, fields, err := answer.Head(time.Time{})
	switch {
	case err != nil:
		return "", reason(ctx, err)
	case status == 301 || status == 302 || status == 303 || status == 307 || status == 308:
		to, err := u.Parse(string(fields.Peek("Location")))
		if err != nil {
			return "", errors.New("it has moved to no URL")
		}
		return to.String(), nil
	case status != 200:
		return "", fmt.Errorf("status %s", httpclient.Reason(status))
	}
	n, err := io.Copy(w, io.LimitReader(answer, maxDownload+1))
	if err == nil && n > maxDownload {
		err = fmt.Errorf("it has more than %d bytes", maxDownload)
	}
	return "", reason(ctx, err)
}

// mayPlain reports whether a file may come over http: from this machine, if the registry is there, too.
func (c *Client) mayPlain(u *url.URL) bool {
	own, err := url.Parse(c.base)
	return err == nil && u.Scheme == "http" && proxy.IsLoopbackHost(u.Hostname()) && proxy.IsLoopbackHost(own.Hostname())
}

// reason returns why a request has failed: the cause of ctx if it has ended, else err.
func reason(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
