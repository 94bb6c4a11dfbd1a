// Package servers asks the API by which servers are registered, for the command line: its client, and what is printed of answers.
package servers

import (
	"bytes"
	"context"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/internal/config/value"
)

// Client asks the API of one running Dragoman.
type Client struct {
	// Send sends a request, whose URI is a path, and reads the answer.
	Send func(ctx context.Context, req *fasthttp.Request, resp *fasthttp.Response) error
	// Stream sends a request, and has read read the answer while it comes.
	Stream func(ctx context.Context, req *fasthttp.Request, read func(resp *fasthttp.Response) error) error
	// Key is the caller's. It goes into requests only.
	Key value.Secret
}

// Answer is an answer of the API.
type Answer[T any] struct {
	Raw []byte // as it came, JSON
	Is  T      // decoded
}

// List returns the servers, by name; with a status only those that have it.
func (c *Client) List(ctx context.Context, status string) (Answer[[]aggregator.Server], error) {
	query := url.Values{}
	if status != "" {
		query.Set("status", status)
	}
	return pages[aggregator.Server](ctx, c, "/servers", query)
}

// Show returns the server of a name or id.
func (c *Client) Show(ctx context.Context, name string) (Answer[aggregator.Server], error) {
	return one(ctx, c, "GET", name, "", nil)
}

// Tools returns the tools of a server, or of all if the name is empty; with a category only those that have it.
func (c *Client) Tools(ctx context.Context, name, category string) (Answer[[]aggregator.Tool], error) {
	path := "/tools"
	if name != "" {
		at, err := pathOf(name)
		if err != nil {
			return Answer[[]aggregator.Tool]{}, err
		}
		path = at + path
	}
	query := url.Values{}
	if category != "" {
		query.Set("category", category)
	}
	return pages[aggregator.Tool](ctx, c, path, query)
}

// Add registers a server.
func (c *Client) Add(ctx context.Context, r *aggregator.Registration) (a Answer[aggregator.Server], err error) {
	resp, err := c.ask(ctx, "POST", "/servers", r)
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Server](resp.Body())
}

// Test connects to a server that is not registered.
func (c *Client) Test(ctx context.Context, r *aggregator.Registration) (a Answer[aggregator.Tested], err error) {
	resp, err := c.ask(ctx, "POST", "/test", r)
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Tested](resp.Body())
}

// Edit changes a server.
func (c *Client) Edit(ctx context.Context, name string, u *aggregator.Update) (Answer[aggregator.Server], error) {
	return one(ctx, c, "PATCH", name, "", u)
}

// Remove removes a server.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.change(ctx, "DELETE", name, "", nil)
}

// Connect begins to connect a server. It fails for one that is connected.
func (c *Client) Connect(ctx context.Context, name string) error {
	return c.change(ctx, "POST", name, "/connect", nil)
}

// Disconnect disconnects a server when its running requests have ended, or at once.
func (c *Client) Disconnect(ctx context.Context, name string, force bool) error {
	return c.change(ctx, "POST", name, "/disconnect", map[string]bool{"force": force})
}

// Bounds of waiting.
const (
	pollTime  = 100 * time.Millisecond
	toolsTime = 2 * time.Second // for the first list of tools after the connection
)

// Settled waits until a server is connected and its tools are listed, or cannot be connected, and returns it as it is then, or after
// the time to wait.
func (c *Client) Settled(ctx context.Context, name string, wait time.Duration) (Answer[aggregator.Server], error) {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	end := time.After(wait)
	var listed <-chan time.Time
	for {
		now, err := c.Show(ctx, name)
		if err != nil {
			return now, err
		}
		switch s := &now.Is; {
		case Connected(s) && s.ToolCount > 0, s.Status == "DISCONNECTED" && s.Error != "", s.Status == "ERROR":
			return now, nil
		case Connected(s) && listed == nil:
			listed = time.After(toolsTime)
		}
		select {
		case <-tick.C:
		case <-listed:
			return now, nil
		case <-end:
			return now, nil
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}

// Connected reports whether a server serves requests.
func Connected(s *aggregator.Server) bool { return s.Status == "CONNECTED" || s.Status == "DEGRADED" }

// Refresh begins to read the lists of a server again.
func (c *Client) Refresh(ctx context.Context, name string) error {
	return c.change(ctx, "POST", name, "/refresh", nil)
}

func one(ctx context.Context, c *Client, method, name, below string, body any) (a Answer[aggregator.Server], err error) {
	path, err := pathOf(name)
	if err != nil {
		return a, err
	}
	resp, err := c.ask(ctx, method, path+below, body)
	if err != nil {
		return a, err
	}
	return decoded[aggregator.Server](resp.Body())
}

func (c *Client) change(ctx context.Context, method, name, below string, body any) error {
	path, err := pathOf(name)
	if err == nil {
		_, err = c.ask(ctx, method, path+below, body)
	}
	return err
}

// nameOrID matches what can be a part of a path as it is.
var nameOrID = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]*$`)

// pathOf returns the path of a server. Another text than a name or an id could lead elsewhere.
func pathOf(name string) (string, error) {
	if !nameOrID.MatchString(name) {
		return "", misuse("%q is no name of a server; fix: `dragoman servers list` shows the names", value.Shorten(name))
	}
	return "/servers/" + name, nil
}

// pageSize is how many elements of a list one request asks for.
const pageSize = 200

// pages returns the elements of all pages of a list.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) (all Answer[[]T], err error) {
	query.Set("limit", strconv.Itoa(pageSize))
	raw := []json.RawMessage{}
	for {
		query.Set("offset", strconv.Itoa(len(raw)))
		resp, err := c.ask(ctx, "GET", path+"?"+query.Encode(), nil)
		if err != nil {
			return all, err
		}
		page, err := decoded[[]json.RawMessage](resp.Body())
		if err != nil {
			return all, err
		}
		raw = append(raw, page.Is...)
		if len(page.Is) == 0 || len(resp.Header.Peek("Link")) == 0 {
			break
		}
	}
	joined, err := json.Marshal(raw)
	if err != nil {
		return all, err
	}
	return decoded[[]T](joined)
}

func decoded[T any](raw []byte) (a Answer[T], err error) {
	a.Raw = bytes.Clone(raw)
	if err := json.Unmarshal(raw, &a.Is); err != nil {
		return a, errNoAPI
	}
	return a, nil
}

// ask makes a request, and returns an answer that is no error.
func (c *Client) ask(ctx context.Context, method, path string, body any) (*fasthttp.Response, error) {
	var req fasthttp.Request
	var resp fasthttp.Response
	c.prepare(&req, method, path)
	if body != nil {
		raw, err := json.MarshalWithOption(body, json.DisableHTMLEscape())
		if err != nil {
			return nil, err
		}
		req.Header.SetContentType("application/json")
		req.SetBody(raw)
	}
	if err := c.Send(ctx, &req, &resp); err != nil {
		return nil, err
	}
	if resp.StatusCode() >= fasthttp.StatusBadRequest {
		return nil, refusal(resp.StatusCode(), resp.Body())
	}
	return &resp, nil
}

// prepare fills in a request without a body.
func (c *Client) prepare(req *fasthttp.Request, method, path string) {
	req.Header.SetMethod(method)
	req.SetRequestURI(aggregator.Path + path)
	req.Header.Set("Authorization", "Bearer "+c.Key.Reveal())
}
