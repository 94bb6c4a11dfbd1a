package source

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/goccy/go-json"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Gateway returns what asks the servers of a Dragoman one by one, each a service of its own at its path (/servers/NAME), and a function that ends
// it. A Dragoman lists its servers as an MCP registry does (GET /v0.1/servers), and the list is read each time. A service without such a list, or with
// one server in it, is asked as by One.
func Gateway(e Entry) (ask Asker, done func()) {
	s := newServices()
	one, end := One(e, "")
	several := false
	return func(ctx context.Context) ([]Result, error) {
		entries, err := members(ctx, e)
		switch {
		case err != nil:
			return nil, err
		case len(entries) < 2 && !several:
			return one(ctx)
		}
		several = true // from now on one server is a service of its own, too: its folder keeps its name
		return s.ask(ctx, entries), nil
	}, func() { s.close(); end() }
}

// memberName reports whether a server of a Dragoman may have a name.
func memberName(name string) bool {
	return name != "" && len(name) <= 128 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
}

// pageOfServers is the greatest page of a registry's list.
const pageOfServers = 100

// members returns an entry for each server that a Dragoman lists; none if it lists none.
func members(ctx context.Context, e Entry) (all []Entry, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	r, err := newREST(e)
	if err != nil {
		return nil, err
	}
	defer r.close()
	cursor := ""
	for range maxPages {
		a, err := r.ask(ctx, "GET", fmt.Sprintf("%s/v0.1/servers?limit=%d&cursor=%s", r.base, pageOfServers, url.QueryEscape(cursor)), nil, false)
		if refused := (*statusError)(nil); errors.As(err, &refused) && refused.lasts() { // its tools it may list all the same
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var page struct {
			Servers []struct {
				Server struct {
					Name    string
					Remotes []struct{ URL string }
				}
			}
			Metadata struct{ NextCursor string }
		}
		if json.Unmarshal(a.body, &page) != nil {
			return nil, nil // it is something else
		}
		for _, s := range page.Servers {
			_, name, _ := strings.Cut(s.Server.Name, "/")
			path := proxy.ServerPath(name)
			if !memberName(name) || len(s.Server.Remotes) != 1 || !strings.HasSuffix(s.Server.Remotes[0].URL, path+"/mcp") {
				return nil, nil // a registry of servers elsewhere
			}
			if len(all) == maxEntries {
				return nil, fmt.Errorf("%s lists more than %d servers", wire.Shown(e.URL), maxEntries)
			}
			all = append(all, Entry{Name: name, URL: r.base + path, TokenEnv: e.TokenEnv})
		}
		if cursor = page.Metadata.NextCursor; cursor == "" {
			break
		}
	}
	return all, nil
}
