// Package decision sends questions to a decision point over HTTP. It knows neither what is asked nor by whom.
package decision

import (
	"context"
	"fmt"
	"time"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
)

const (
	maxAnswer = 64 << 10 // of the body, in bytes
	atATime   = 64       // questions; further ones wait in their own time
)

// Options configures a [Client].
type Options struct {
	// URL is http, https, or unix:/path/to/socket, to which :/path/of/the/resource may be added.
	URL     string
	Headers []httpclient.Header // sent with every question; values are never logged
	CAFile  string              // PEM file of the roots to trust instead of the system's
	Timeout time.Duration       // to connect
}

// Client sends questions. It follows no redirects. Its methods may be called from any goroutine.
type Client struct {
	host  *httpclient.Host
	asked chan struct{} // has an element for each question that is being asked
}

// New returns a Client, which connects when it is asked first. Its connections close by themselves when they are not used for a while, so that
// it needs no end: requests of a former configuration may still ask.
func New(opt Options) (*Client, error) {
	host := httpclient.HostOptions{URL: opt.URL, Headers: opt.Headers, CAFile: opt.CAFile, ConnectTimeout: opt.Timeout, WriteTimeout: opt.Timeout, MaxConns: atATime}
	made, err := httpclient.NewHost(host)
	if err != nil {
		return nil, err
	}
	return &Client{made, make(chan struct{}, atATime)}, nil
}

// StatusError is an answer with another status than 200.
type StatusError int

// Error implements error.
func (s StatusError) Error() string {
	return fmt.Sprintf("the decision point answered HTTP %d", int(s))
}

// HTTPStatus returns the status.
func (s StatusError) HTTPStatus() int { return int(s) }

// Ask posts a question, in JSON, and returns the body of the answer, of at most 64 KiB. A question has no effects, so that it is sent again if a
// connection that was used before has broken. Errors are the cause of ctx once that has ended, a [StatusError], or of the connection.
func (c *Client) Ask(ctx context.Context, question []byte) ([]byte, error) {
	select {
	case c.asked <- struct{}{}:
		defer func() { <-c.asked }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	answer, again, err := c.post(ctx, question)
	if again && ctx.Err() == nil {
		answer, _, err = c.post(ctx, question)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return answer, err
}

// post sends a question once. again reports whether no answer has begun.
func (c *Client) post(ctx context.Context, question []byte) (body []byte, again bool, err error) {
	req := http1.AcquireRequest("POST", "", question)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	_ = req.Set("Content-Type", "application/json")
	answer, err := c.host.Send(ctx, req)
	if err != nil {
		return nil, false, err
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, _, err := answer.Head(time.Time{})
	if err != nil {
		return nil, true, err
	}
	body, err = answer.Body(nil, maxAnswer, time.Time{})
	if status != 200 {
		return nil, false, StatusError(status)
	}
	return body, false, err
}
