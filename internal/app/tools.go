package app

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/goccy/go-json"
	"github.com/rs/zerolog"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/internal/app/logging"
	"dragoman/internal/config"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// ToolLists asks the servers of a configuration for their tools, as often as wanted.
type ToolLists struct {
	servers []toolServer
}

type toolServer struct {
	name string
	g    *Generation
	err  error // why there is no g
}

// Listed holds the tools of a server.
type Listed struct {
	Name         string // of the server in the configuration
	Own          string // name by which the server calls itself; may be empty
	Title        string // may be empty
	Version      string
	Instructions string
	Tools        []json.RawMessage // definitions, as the server sent them
	Err          error             // why there are none
}

// OpenToolLists prepares to ask the servers of a configuration. List returns the fault of each that cannot be asked.
func OpenToolLists(cfg *config.Config, std Streams) (*ToolLists, error) {
	log, err := logging.New(cfg.Log.Level, cfg.Log.Format, std.Err)
	if err != nil {
		return nil, err
	}
	quiet := *cfg
	quiet.Attended = true
	quiet.Audit.Enabled, quiet.Events = false, config.EventsConfig{} // there are no calls, and others need not know
	quiet.Catalogue, quiet.Groups = config.CatalogueConfig{Path: config.InMemory}, nil
	if log.GetLevel() == zerolog.InfoLevel { // the default; what fails is one of the answers
		log = log.Level(zerolog.ErrorLevel)
	}
	l := &ToolLists{}
	for _, up := range cfg.Upstreams {
		follows := *up // its list of this moment is wanted, approved or not
		follows.Definitions, follows.Health.Fallback = config.Follow, ""
		alone := quiet
		alone.Upstreams, alone.Merge = []*config.Upstream{&follows}, config.Auto
		g, err := Assemble(&alone, alone.Upstreams, log)
		l.servers = append(l.servers, toolServer{up.Name, g, err})
	}
	return l, nil
}

// Close ends the servers that were started.
func (l *ToolLists) Close() {
	for _, s := range l.servers {
		if s.g != nil {
			s.g.Close()
		}
	}
}

// List asks all servers, one after the other, each within limit. begin is called with the name of each before it is asked.
func (l *ToolLists) List(ctx context.Context, limit time.Duration, begin func(name string)) []Listed {
	all := make([]Listed, len(l.servers))
	for i, s := range l.servers {
		begin(s.name)
		if all[i] = (Listed{Name: s.name, Err: s.err}); s.err == nil {
			all[i].Err = s.list(ctx, limit, &all[i])
		}
	}
	return all
}

// list asks one server.
func (s *toolServer) list(ctx context.Context, limit time.Duration, l *Listed) error {
	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	hide := s.g.Targets.All[0].Hide
	end, _ := within.Deadline()
	origin := &mcpcall.Origin{Client: s.g.asker(), Caps: []byte("{}"), Life: within, End: end, Own: true}
	_, err := origin.Collect("tools/list", func(m *wire.Message) error {
		for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, "tools")) {
			l.Tools = append(l.Tools, bytes.Clone(item.Of(m.Raw)))
		}
		return nil
	})
	if err == nil {
		err = s.describe(origin, l)
	}
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return errors.New("no answer within " + limit.String() + "; fix: is the server stuck? Give it more time with --timeout")
	}
	if err == nil {
		return nil
	}
	if said, is := errors.AsType[*mcpcall.ServerError](err); is {
		err = errors.New("the server answers: " + said.Text)
	} else {
		err = errors.New(proxy.AsError(err).Message)
	}
	if hide == nil {
		return err
	}
	return errors.New(hide(within, err.Error()))
}

// describe asks a server what it is.
func (s *toolServer) describe(origin *mcpcall.Origin, l *Listed) error {
	m, _, err := origin.Ask("server/discover", nil)
	if _, refused := errors.AsType[*mcpcall.ServerError](err); refused {
		return nil // it need not know the method
	}
	if err != nil {
		return err
	}
	text := func(at wire.Span, key string) string { return string(wire.Get(m.Raw, at, key).Text(m.Raw)) }
	l.Own, l.Title, l.Version, l.Instructions = text(m.Info, "name"), text(m.Info, "title"), text(m.Info, "version"), text(m.Result, "instructions")
	return nil
}
