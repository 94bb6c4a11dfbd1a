package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/goccy/go-json"
	"golang.org/x/sync/errgroup"

	"dragoman/internal/generate"
	"dragoman/internal/generate/names"
	"dragoman/proxy/wire"
)

// Result holds the tools of a service, or why there are none.
type Result struct {
	Name    string
	Service *generate.Service // nil: Err says why
	Skipped []string          // tools that break a rule, with the rule
	Err     error
}

// Asker asks for the tools of all services, as often as wanted.
type Asker func(ctx context.Context) ([]Result, error)

// Sum identifies what services have answered: the same tools, and the same errors, have the same.
func Sum(all []Result) (sum [sha256.Size]byte) {
	h := sha256.New()
	add := func(parts ...string) {
		for _, p := range parts {
			_, _ = fmt.Fprintf(h, "%d %s", len(p), p)
		}
	}
	for _, r := range all {
		add(r.Name, fmt.Sprint(r.Err))
		add(r.Skipped...)
		if r.Service == nil {
			continue
		}
		add("service", r.Service.URL, r.Service.Title, r.Service.Version, r.Service.Instructions, r.Service.TokenVariable)
		for _, t := range r.Service.Tools {
			add(t.Name, t.Title, t.Description, string(t.Input), string(t.Output), string(t.Annotations))
		}
	}
	h.Sum(sum[:0])
	return sum
}

// askAtOnce is how many services are asked at a time.
const askAtOnce = 8

// services asks services over connections that it keeps.
type services struct{ clients map[Entry]*rest }

// Services returns an asker of the services that a services.yaml names, and what ends it. The file is read each time.
func Services(file string) (ask Asker, done func()) {
	s := newServices()
	return func(ctx context.Context) ([]Result, error) {
		entries, err := Registry(file)
		if err != nil {
			return nil, err
		}
		on := entries[:0]
		for _, e := range entries {
			if e.On() {
				e.Enabled = nil
				on = append(on, e)
			}
		}
		return s.ask(ctx, on), nil
	}, s.close
}

// One returns an asker of one service, and what ends it. Without a name the service has the one that it gives itself. url replaces the address in what
// is generated, if it is not empty.
func One(e Entry, url string) (ask Asker, done func()) {
	s := newServices()
	return func(ctx context.Context) ([]Result, error) {
		if e.Name == "" {
			name, err := own(ctx, e)
			if err != nil {
				return nil, err
			}
			e.Name = name
		}
		all := s.ask(ctx, []Entry{e})
		if all[0].Service != nil && url != "" {
			all[0].Service.URL = url
		}
		return all, nil
	}, s.close
}

func newServices() *services { return &services{clients: map[Entry]*rest{}} }

func (s *services) close() {
	for _, r := range s.clients {
		r.close()
	}
}

// ask asks services, some at a time.
func (s *services) ask(ctx context.Context, entries []Entry) []Result {
	all := make([]Result, len(entries))
	var work errgroup.Group
	work.SetLimit(askAtOnce)
	for i, e := range entries {
		all[i].Name = e.Name
		r := s.clients[e]
		if r == nil {
			var err error
			if r, err = newREST(e); err != nil {
				all[i].Err = err
				continue
			}
			s.clients[e] = r
		}
		work.Go(func() error {
			all[i].Service, all[i].Skipped, all[i].Err = r.fetch(ctx)
			return nil
		})
	}
	_ = work.Wait() // each result has its error
	for e, r := range s.clients {
		if !slices.Contains(entries, e) {
			r.close()
			delete(s.clients, e)
		}
	}
	return all
}

// own returns the name that a service gives itself.
func own(ctx context.Context, e Entry) (string, error) {
	r, err := newREST(e)
	if err != nil {
		return "", err
	}
	defer r.close()
	a, err := r.ask(ctx, "GET", r.base+"/tools?offset=0", nil, false)
	if err != nil {
		return "", err
	}
	if _, err := wire.ScanValue(a.body); err != nil {
		return "", fmt.Errorf("%s: its list of tools is no JSON", wire.Shown(e.URL))
	}
	return Name(string(wire.Get(a.body, wire.Whole(a.body), "service").Text(a.body))), nil
}

var serviceNames = names.Style{Join: "-", Plain: true, Fold: true, Empty: "-"}

// Name makes a name of a service of the first text that has letters.
func Name(texts ...string) string {
	for _, text := range texts {
		if name := serviceNames.Assign([]string{text})[0]; CheckName(name) == nil {
			return name
		}
	}
	return "tools"
}

// Tool reads the definition of a tool as MCP has it.
func Tool(raw json.RawMessage) (*generate.Tool, error) {
	var t struct {
		Name, Title, Description               string
		InputSchema, OutputSchema, Annotations json.RawMessage
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, errors.New("a tool whose definition is no object")
	}
	object := func(raw json.RawMessage) json.RawMessage {
		if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '{' {
			return nil
		}
		return raw
	}
	one := &generate.Tool{Name: t.Name, Title: t.Title, Description: t.Description, Input: object(t.InputSchema), Output: object(t.OutputSchema), Annotations: object(t.Annotations)}
	switch {
	case t.Name == "":
		return nil, errors.New("a tool without a name")
	case one.Input == nil:
		return nil, fmt.Errorf("\"%s\": its inputSchema is no object", wire.Shown(t.Name))
	}
	return one, nil
}

// Tools reads definitions of tools. Those that cannot be used are left out and named in skipped.
func Tools(raws []json.RawMessage) (all []*generate.Tool, skipped []string) {
	seen := map[string]bool{}
	for _, raw := range raws {
		t, err := Tool(raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("\"%s\": there is another of this name", wire.Shown(t.Name))
		}
		if err != nil {
			skipped = append(skipped, err.Error())
			continue
		}
		seen[t.Name] = true
		all = append(all, t)
	}
	return all, skipped
}
