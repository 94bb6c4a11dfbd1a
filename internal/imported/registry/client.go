package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Limits of an answer, and of a list.
const (
	requestTime = 30 * time.Second
	maxPage     = 16 << 20 // bytes
	maxPages    = 10_000
	maxCursor   = 4 << 10 // bytes
	// PageSize is how many entries are asked for at once: as many as the official registry gives.
	PageSize = 100
	// MaxEntries is how many entries of a list are read.
	MaxEntries = 250_000
)

// Client asks a registry. Its methods may be called from any goroutine.
type Client struct {
	base string // without a slash at its end
	path string
	host *httpclient.Host
}

// New returns a client of the registry at an address: http or https, with a path before /v0.1 if it has one. credential, if not empty, is
// sent as a bearer token. The environment's proxy is used, as for servers. Close ends it.
func New(base string, credential value.Secret) (*Client, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the address of the registry is no URL; fix: write it as https://HOST") // it may hold a secret
	case u.User != nil:
		return nil, errors.New("the address of the registry holds a credential; fix: give it as --registry-key env:NAME")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the address of the registry has a query; fix: write what is before the ?")
	case credential.Reveal() != "" && u.Scheme != "https" && !proxy.IsLoopbackHost(u.Hostname()):
		return nil, errors.New("the credential for the registry would be sent unencrypted; fix: write https://")
	}
	path := strings.TrimSuffix(strings.TrimRight(u.EscapedPath(), "/"), "/v0.1")
	origin := u.Scheme + "://" + u.Host
	opt := httpclient.HostOptions{URL: origin, MaxConns: 4}
	if credential.Reveal() != "" {
		opt.Headers = []httpclient.Header{{Name: "Authorization", Value: "Bearer " + credential.Reveal()}}
	}
	host, err := httpclient.NewHost(opt)
	if err != nil {
		return nil, err
	}
	return &Client{base: origin + path, path: path, host: host}, nil
}

// Close closes the idle connections.
func (c *Client) Close() { _ = c.host.Close() } // their errors do not matter

// Base returns the address of the registry.
func (c *Client) Base() string { return c.base }

// Plain reports whether what the registry says could be changed on its way: it is asked over http at another machine.
func (c *Client) Plain() bool {
	u, err := url.Parse(c.base)
	return err == nil && u.Scheme == "http" && !proxy.IsLoopbackHost(u.Hostname())
}

// Query selects entries of a list. Empty members select all.
type Query struct {
	Search  string // part of a name
	Version string // "latest", or a version
	Since   time.Time
	Limit   int // of entries; at most PageSize are given
	Cursor  string
}

func (q *Query) target(path string) string {
	v := url.Values{"limit": {strconv.Itoa(min(max(q.Limit, 1), PageSize))}}
	for name, text := range map[string]string{"search": q.Search, "version": q.Version, "cursor": q.Cursor} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if !q.Since.IsZero() {
		v.Set("updated_since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	return path + "/v0.1/servers?" + v.Encode()
}

// Page is a part of a list.
type Page struct {
	Entries []*Entry
	// Next is the cursor of the part that follows; empty: there is none.
	Next string
	// Refused says which entries are not valid, and why.
	Refused []error
}

// Page returns a part of a list.
func (c *Client) Page(ctx context.Context, q Query) (*Page, error) {
	body, err := c.get(ctx, q.target(c.path), maxPage)
	if err != nil {
		return nil, err
	}
	return parsePage(body, c.base)
}

// parsePage reads a part of a list. Entries that are not valid do not keep it from being read.
func parsePage(body []byte, from string) (*Page, error) {
	var said struct {
		Servers  []json.RawMessage `json:"servers"`
		Metadata struct {
			Next string `json:"nextCursor"`
		} `json:"metadata"`
	}
	if imported.Nested(body) > maxNested || !json.Valid(body) || json.Unmarshal(body, &said) != nil || said.Servers == nil {
		return nil, notOne(from)
	}
	if len(said.Metadata.Next) > maxCursor {
		return nil, fmt.Errorf("the registry %s gives a cursor of more than %d bytes", from, maxCursor)
	}
	page := &Page{Next: said.Metadata.Next}
	for i, raw := range said.Servers {
		entry, err := parseEntry(raw)
		if err != nil {
			page.Refused = append(page.Refused, fmt.Errorf("entry %d: %w", i+1, err))
			continue
		}
		page.Entries = append(page.Entries, entry)
	}
	return page, nil
}

// notOne is the error for an answer that no registry gives.
func notOne(from string) error {
	return fmt.Errorf("what %s answers is not that of an MCP registry (API v0.1); fix: write the address of one", wire.Shown(from))
}

// All reads all pages of a list. The error says whose fault it is; use is not called again after its own error.
func (c *Client) All(ctx context.Context, q Query, use func(*Page) error) error {
	seen, entries := map[string]bool{}, 0
	for q.Limit = PageSize; ; {
		page, err := c.Page(ctx, q)
		if err != nil {
			return err
		}
		if entries += len(page.Entries) + len(page.Refused); entries > MaxEntries {
			return fmt.Errorf("the registry %s lists more than %d entries", c.base, MaxEntries)
		}
		if err := use(page); err != nil {
			return err
		}
		switch {
		case page.Next == "":
			return nil
		case seen[page.Next]:
			return fmt.Errorf("the registry %s repeats a page of its list: its cursors lead in a circle", c.base)
		case len(seen) >= maxPages:
			return fmt.Errorf("the registry %s lists more than %d pages", c.base, maxPages)
		}
		seen[page.Next] = true
		q.Cursor = page.Next
	}
}

// ErrUnknown is the error for a server or a version that the registry does not have.
var ErrUnknown = errors.New("the registry does not have it")

// Version returns a version of a server, deleted ones too; "latest" is the newest one. The error is [ErrUnknown] if there is none. The name is
// that of the server exactly.
func (c *Client) Version(ctx context.Context, name, version string) (*Entry, error) {
	if !ValidName(name) || !ValidVersion(version) {
		return nil, ErrUnknown
	}
	target := c.path + "/v0.1/servers/" + url.PathEscape(name) + "/versions/" + url.PathEscape(version) + "?include_deleted=true"
	body, err := c.get(ctx, target, maxServer)
	if err != nil {
		return nil, err
	}
	entry, err := parseEntry(body)
	switch {
	case errors.Is(err, errJSON):
		return nil, notOne(c.base)
	case err != nil:
		return nil, fmt.Errorf("what the registry %s says of %s cannot be used: %w", c.base, name, err)
	case entry.Server.Name != name:
		return nil, fmt.Errorf("the registry %s was asked for %s and answers with %s", c.base, name, wire.Shown(entry.Server.Name))
	case version != "latest" && entry.Server.Version != version:
		return nil, fmt.Errorf("the registry %s was asked for version %s and answers with %s", c.base, wire.Shown(version), wire.Shown(entry.Server.Version))
	}
	return entry, nil
}

// get returns the body of an answer with status 200.
func (c *Client) get(ctx context.Context, target string, limit int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	req := http1.AcquireRequest("GET", target, nil)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	answer, err := c.host.Send(ctx, req)
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	defer answer.Close()
	defer context.AfterFunc(ctx, answer.Abort)()
	status, fields, err := answer.Head(time.Time{})
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	location := string(fields.Peek("Location")) // before the body is read, which may take its memory
	body, err := answer.Body(nil, limit, time.Time{})
	if err != nil {
		return nil, c.failed(ctx, err)
	}
	return body, c.judge(status, location, body)
}

// failed returns the error of a request that got no answer.
func (c *Client) failed(ctx context.Context, err error) error {
	return fmt.Errorf("the registry %s does not answer: %w", c.base, reason(ctx, err))
}

// judge returns the error of a status.
func (c *Client) judge(status int, location string, body []byte) error {
	switch {
	case status == 200:
		return nil
	case status == 404 || status == 410:
		return ErrUnknown
	case status == 401 || status == 403:
		return fmt.Errorf("the registry %s refuses the request (%d); fix: give a credential that it takes with --registry-key env:NAME or file:/path", c.base, status)
	case status >= 300 && status < 400:
		return fmt.Errorf("the registry %s has moved to %s, which is not followed; fix: write that address", c.base, wire.Shown(value.RedactURL(location)))
	case status == 429:
		return fmt.Errorf("the registry %s has had too many requests; fix: try again later", c.base)
	}
	var problem struct {
		Detail string `json:"detail"`
		Title  string `json:"title"`
		Error  string `json:"error"`
	}
	said := ""
	if len(body) < maxText && json.Valid(body) && json.Unmarshal(body, &problem) == nil {
		said = strings.TrimSuffix(": "+wire.Shown(problem.Detail+problem.Error), ": ")
	}
	if status >= 500 {
		return fmt.Errorf("the registry %s has a fault of its own (%d)%s; fix: try again later", c.base, status, said)
	}
	return fmt.Errorf("the registry %s does not take the request (%d)%s", c.base, status, said)
}
