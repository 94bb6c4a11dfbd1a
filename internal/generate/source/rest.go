package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/goccy/go-json"

	"dragoman/adapters/httpd/http1"
	"dragoman/adapters/httpd/httpclient"
	"dragoman/internal/generate"
	"dragoman/proxy/wire"
)

// Bounds of what a service answers.
const (
	maxAnswer = 64 << 20
	maxPages  = 1000
	maxTools  = 250_000
	askTime   = time.Minute
)

// rest asks a service that speaks the REST envelope. Redirects are not followed, so that no token goes elsewhere.
type rest struct {
	entry Entry
	base  string
	host  *httpclient.Host
	tag   string // of the last list of tools
	last  *generate.Service
	left  []string // the tools that were left out of it
}

// newREST returns what asks a service. The environment has its token, if it needs one.
func newREST(e Entry) (*rest, error) {
	r := &rest{entry: e, base: strings.TrimRight(e.URL, "/")}
	u, err := url.Parse(r.base)
	if err != nil {
		return nil, err
	}
	opt := httpclient.HostOptions{URL: u.Scheme + "://" + u.Host, MaxConns: 4}
	if token := e.token(); token != "" {
		opt.Headers = []httpclient.Header{{Name: "Authorization", Value: "Bearer " + token}}
	}
	r.host, err = httpclient.NewHost(opt)
	return r, err
}

// close closes the idle connections.
func (r *rest) close() { _ = r.host.Close() } // their errors do not matter

// token returns the bearer token for a service; empty: none.
func (e *Entry) token() string {
	s := generate.Service{Name: e.Name, TokenVariable: e.TokenEnv}
	s.Prepare()
	return os.Getenv(s.TokenVariable)
}

// fetch asks for the tools: GET /tools, and of a Dragoman also what that does not say. A tool that breaks a rule of seed 000 is left out and named in
// skipped. If nothing has changed s is the service of the last answer.
func (r *rest) fetch(ctx context.Context) (s *generate.Service, skipped []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s = &generate.Service{Name: r.entry.Name, URL: r.base, TokenVariable: r.entry.TokenEnv}
	next := r.base + "/tools"
	for page := 0; next != "" && page < maxPages && len(s.Tools) < maxTools; page++ {
		a, err := r.ask(ctx, "GET", next, nil, page == 0)
		switch {
		case err != nil:
			return nil, nil, err
		case a.unchanged:
			return r.last, r.left, nil
		}
		if err := take(s, a.body, &skipped); err != nil {
			return nil, nil, err
		}
		next = following(next, a.link)
	}
	if err := r.complete(ctx, s); err != nil {
		return nil, nil, err
	}
	s.Prepare()
	r.last, r.left = s, skipped
	return s, skipped, nil
}

// take adds the tools of a ToolsResponse to a service.
func take(s *generate.Service, body []byte, skipped *[]string) error {
	var response struct {
		Service, Version *string
		Tools            *[]struct {
			Name, Description string
			Schema            json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(body, &response); err != nil || response.Tools == nil {
		return errors.New("its /tools is no list of tools; fix: is the address right, and what serves it a Dragoman or a service with GET /tools?")
	}
	if response.Version != nil {
		s.Version = *response.Version
	}
	seen := map[string]bool{}
	for _, t := range s.Tools {
		seen[t.Name] = true
	}
	for _, t := range *response.Tools {
		schema := bytes.TrimSpace(t.Schema)
		switch {
		case t.Name == "":
			*skipped = append(*skipped, "a tool without a name")
		case len(schema) == 0 || schema[0] != '{':
			*skipped = append(*skipped, fmt.Sprintf("\"%s\": its input_schema is no object", wire.Shown(t.Name)))
		case seen[t.Name]:
			*skipped = append(*skipped, fmt.Sprintf("\"%s\": there is another of this name", wire.Shown(t.Name)))
		default:
			seen[t.Name] = true
			s.Tools = append(s.Tools, &generate.Tool{Name: t.Name, Description: t.Description, Input: schema})
		}
	}
	return nil
}

// following returns the address in a Link header that leads to the next page; empty if there is none, or if it leads to another host.
func following(at, link string) string {
	ref, rel, found := strings.Cut(link, ">")
	if ref = strings.TrimPrefix(ref, "<"); !found || !strings.Contains(rel, `rel="next"`) {
		return ""
	}
	base, err := url.Parse(at)
	if err != nil {
		return ""
	}
	to, err := base.Parse(ref)
	if err != nil || to.Scheme != base.Scheme || to.Host != base.Host {
		return ""
	}
	return to.String()
}

// complete adds titles, schemas of results and annotations, which a Dragoman tells at POST /mcp/tools/list. Other services do not have that path.
func (r *rest) complete(ctx context.Context, s *generate.Service) error {
	byName := make(map[string]*generate.Tool, len(s.Tools))
	for _, t := range s.Tools {
		byName[t.Name] = t
	}
	params := []byte("{}")
	for range maxPages {
		answer, err := r.ask(ctx, "POST", r.base+"/mcp/tools/list", params, false)
		if other := (*statusError)(nil); errors.As(err, &other) && other.absent() {
			return nil
		}
		if err != nil {
			return err
		}
		var list struct {
			Tools []struct {
				Name, Title               string
				OutputSchema, Annotations json.RawMessage
			}
			NextCursor *string
		}
		if json.Unmarshal(answer.body, &list) != nil {
			return nil // it is something else
		}
		for _, t := range list.Tools {
			if to := byName[t.Name]; to != nil {
				to.Title, to.Annotations = t.Title, t.Annotations
				if out := bytes.TrimSpace(t.OutputSchema); len(out) > 0 && out[0] == '{' {
					to.Output = out
				}
			}
		}
		if list.NextCursor == nil {
			return nil
		}
		if params, err = json.Marshal(map[string]string{"cursor": *list.NextCursor}); err != nil {
			return err
		}
	}
	return nil
}

// answer is what a service answers.
type answer struct {
	body      []byte
	link      string
	unchanged bool
}

// ask sends a request. tagged says that an answer which is the last one need not be sent again.
func (r *rest) ask(ctx context.Context, method, address string, body []byte, tagged bool) (a answer, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return a, err
	}
	req := http1.AcquireRequest(method, u.RequestURI(), body)
	defer req.Release()
	_ = req.Set("Accept", "application/json")
	if body != nil {
		_ = req.Set("Content-Type", "application/json")
	}
	if tagged && r.tag != "" {
		_ = req.Set("If-None-Match", r.tag)
	}
	res, err := r.host.Send(ctx, req)
	if err != nil {
		return a, r.unreached(ctx, err)
	}
	defer res.Close()
	defer context.AfterFunc(ctx, res.Abort)()
	status, fields, err := res.Head(time.Time{})
	if err != nil {
		return a, r.unreached(ctx, err)
	}
	tag := string(fields.Peek("ETag"))
	a.link = string(fields.Peek("Link"))
	read, err := res.Body(nil, maxAnswer, time.Time{})
	if err != nil {
		return a, r.unreached(ctx, err)
	}
	a.body = bytes.Clone(read)
	switch status {
	case 200:
	case 304:
		a.unchanged = true
	case 404, 405, 501:
		return a, &statusError{status, fmt.Sprintf("%s answers %d: it has no such path", u.Path, status)}
	case 401, 403:
		return a, &statusError{status, fmt.Sprintf("%s answers %d; fix: put a token into the environment variable of the service (MCP_TOKEN_NAME, or token_env)", u.Path, status)}
	default:
		return a, &statusError{status, fmt.Sprintf("%s answers %d: %s", u.Path, status, wire.Shown(a.body))}
	}
	if tagged && tag != "" {
		r.tag = tag
	}
	return a, nil
}

// statusError says that a service answers with another status than 200.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// absent reports whether the service has no such path.
func (e *statusError) absent() bool { return e.status == 404 || e.status == 405 || e.status == 501 }

// lasts reports whether the same request will have the same answer later.
func (e *statusError) lasts() bool {
	return e.status/100 == 4 && e.status != 408 && e.status != 429 || e.status == 501
}

// unreached returns the error of a request that got no answer.
func (r *rest) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return fmt.Errorf("%s does not answer: %w; fix: is it running, and the address right?", r.base, err)
}

// Answers reports whether what is at the address speaks the envelope: whether GET /tools is a list of tools.
func (e *Entry) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := newREST(*e)
	if err != nil {
		return false
	}
	defer r.close()
	a, err := r.ask(ctx, "GET", r.base+"/tools?offset=0", nil, false)
	var skipped []string
	return err == nil && take(&generate.Service{}, a.body, &skipped) == nil
}
