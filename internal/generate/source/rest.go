package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-json"

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

// errNotThere says that a service does not have a path.
var errNotThere = errors.New("it has no such path")

// REST asks services that speak the REST envelope. Its zero value is ready for use, also by several goroutines. Redirects are not followed, so that no
// token goes elsewhere.
type REST struct {
	tags sync.Map // by address, the tag of the last list of tools
}

var client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

// token returns the bearer token for a service; empty: none.
func (e *Entry) token() string {
	s := generate.Service{Name: e.Name, TokenVariable: e.TokenEnv}
	s.Prepare()
	return os.Getenv(s.TokenVariable)
}

// Fetch asks a service for its tools: GET /tools, and of a Dragoman also what that does not say. A tool that breaks a rule of seed 000 is left out
// and named in skipped. unchanged says that the tools are those of the last answer; there is no service then.
func (r *REST) Fetch(ctx context.Context, e *Entry) (s *generate.Service, skipped []string, unchanged bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	base := strings.TrimRight(e.URL, "/")
	s = &generate.Service{Name: e.Name, URL: base, TokenVariable: e.TokenEnv}
	token := e.token()
	next := base + "/tools"
	for page := 0; next != "" && page < maxPages && len(s.Tools) < maxTools; page++ {
		answer, err := r.ask(ctx, http.MethodGet, next, token, nil, page == 0)
		if err != nil {
			return nil, nil, false, err
		}
		if answer.unchanged {
			return nil, nil, true, nil
		}
		if err := take(s, answer.body, &skipped); err != nil {
			return nil, nil, false, err
		}
		next = following(next, answer.link)
	}
	if err := r.complete(ctx, s, token); err != nil {
		return nil, nil, false, err
	}
	s.Prepare()
	return s, skipped, false, nil
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
			*skipped = append(*skipped, fmt.Sprintf("%q: its input_schema is no object", wire.Shown(t.Name)))
		case seen[t.Name]:
			*skipped = append(*skipped, fmt.Sprintf("%q: there is another of this name", wire.Shown(t.Name)))
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
func (r *REST) complete(ctx context.Context, s *generate.Service, token string) error {
	byName := make(map[string]*generate.Tool, len(s.Tools))
	for _, t := range s.Tools {
		byName[t.Name] = t
	}
	params := []byte("{}")
	for range maxPages {
		answer, err := r.ask(ctx, http.MethodPost, s.URL+"/mcp/tools/list", token, params, false)
		if errors.Is(err, errNotThere) {
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
func (r *REST) ask(ctx context.Context, method, address, token string, body []byte, tagged bool) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if tag, known := r.tags.Load(address); tagged && known {
		req.Header.Set("If-None-Match", tag.(string))
	}
	res, err := client.Do(req)
	if err != nil {
		return a, fmt.Errorf("it is not reached: %w", err)
	}
	defer res.Body.Close()
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer+1)); err != nil {
		return a, fmt.Errorf("its answer broke off: %w", err)
	}
	a.link = res.Header.Get("Link")
	switch {
	case len(a.body) > maxAnswer:
		return a, fmt.Errorf("its answer has more than %d bytes", maxAnswer)
	case res.StatusCode == http.StatusNotModified:
		a.unchanged = true
	case res.StatusCode == http.StatusNotFound || res.StatusCode == http.StatusMethodNotAllowed || res.StatusCode == http.StatusNotImplemented:
		return a, fmt.Errorf("%s answers %d: %w", req.URL.Path, res.StatusCode, errNotThere)
	case res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden:
		return a, fmt.Errorf("%s answers %d; fix: put a token into the environment variable of the service (MCP_TOKEN_NAME, or token_env)", req.URL.Path, res.StatusCode)
	case res.StatusCode != http.StatusOK:
		return a, fmt.Errorf("%s answers %d: %s", req.URL.Path, res.StatusCode, wire.Shown(a.body))
	}
	if tag := res.Header.Get("ETag"); tagged && tag != "" {
		r.tags.Store(address, tag)
	}
	return a, nil
}

// Answers reports whether what is at the address speaks the envelope: whether GET /tools is a list of tools.
func (e *Entry) Answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var r REST
	a, err := r.ask(ctx, http.MethodGet, strings.TrimRight(e.URL, "/")+"/tools?offset=0", e.token(), nil, false)
	var skipped []string
	return err == nil && take(&generate.Service{}, a.body, &skipped) == nil
}
