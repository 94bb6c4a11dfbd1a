package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"

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

// Asker asks for the tools of all services, as often as wanted. changed is false if nothing has changed since the last time.
type Asker func(ctx context.Context) (all []Result, changed bool, err error)

// askAtOnce is how many services are asked at a time.
const askAtOnce = 8

// Services returns an asker of the services that a services.yaml names. It is read each time.
func Services(file string) Asker {
	var r REST
	last := map[string]Result{}
	return func(ctx context.Context) ([]Result, bool, error) {
		entries, err := Registry(file)
		if err != nil {
			return nil, false, err
		}
		on := entries[:0]
		for _, e := range entries {
			if e.On() {
				on = append(on, e)
			}
		}
		return r.all(ctx, on, last)
	}
}

// One returns an asker of one service. Without a name it has the one that it gives itself. url replaces the address in what is generated, if it is not
// empty.
func One(e Entry, url string) Asker {
	var r REST
	last := map[string]Result{}
	return func(ctx context.Context) ([]Result, bool, error) {
		if e.Name == "" {
			name, err := r.named(ctx, &e)
			if err != nil {
				return nil, false, err
			}
			e.Name = name
		}
		all, changed, err := r.all(ctx, []Entry{e}, last)
		if err == nil && all[0].Service != nil && url != "" {
			all[0].Service.URL = url
		}
		return all, changed, err
	}
}

// all asks services. last has the results before, and gets the new ones.
func (r *REST) all(ctx context.Context, entries []Entry, last map[string]Result) ([]Result, bool, error) {
	all, same := make([]Result, len(entries)), make([]bool, len(entries))
	var work errgroup.Group
	work.SetLimit(askAtOnce)
	for i := range entries {
		work.Go(func() error {
			e := &entries[i]
			res := Result{Name: e.Name}
			res.Service, res.Skipped, same[i], res.Err = r.Fetch(ctx, e)
			all[i] = res
			return nil
		})
	}
	_ = work.Wait() // each result has its error
	changed := len(all) != len(last)
	for i, res := range all {
		before, known := last[res.Name]
		switch {
		case same[i] && known && before.Err == nil:
			all[i] = before
		case res.Err != nil && known && before.Err != nil && res.Err.Error() == before.Err.Error():
		default:
			changed = true
		}
	}
	clear(last)
	for _, res := range all {
		last[res.Name] = res
	}
	return all, changed, nil
}

// named returns the name that a service gives itself, as the name of a service.
func (r *REST) named(ctx context.Context, e *Entry) (string, error) {
	a, err := r.ask(ctx, "GET", e.URL+"/tools?offset=0", e.token(), nil, false)
	if err != nil {
		return "", fmt.Errorf("%s: %w", wire.Shown(e.URL), err)
	}
	return Name(string(wire.Get(a.body, wire.Whole(a.body), "service").Text(a.body)), "tools"), nil
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
		return nil, fmt.Errorf("%q: its inputSchema is no object", wire.Shown(t.Name))
	}
	return one, nil
}

// Tools reads definitions of tools. Those that cannot be used are left out and named in skipped.
func Tools(raws []json.RawMessage) (all []*generate.Tool, skipped []string) {
	seen := map[string]bool{}
	for _, raw := range raws {
		t, err := Tool(raw)
		if err == nil && seen[t.Name] {
			err = fmt.Errorf("%q: there is another of this name", wire.Shown(t.Name))
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
