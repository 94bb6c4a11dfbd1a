package provider

import (
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/rules"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// addCaching adds how long a result may be cached, and by whom (2026-07-28 caching).
func addCaching(b *wire.Builder, ttl *durationpb.Duration, shared bool) {
	ms := max(0, ttl.AsDuration().Milliseconds())
	b.Add("ttlMs", strconv.AppendInt(nil, ms, 10))
	scope := "private"
	if shared {
		scope = "public"
	}
	b.Text("cacheScope", scope)
}

// discover asks for the first page of everything.
func (c *call) discover() error {
	return c.step(listMethod, &providerpb.ListCapabilitiesRequest{}, func(in proto.Message) (*wire.Message, error) {
		of := in.(*providerpb.ListCapabilitiesResponse)
		c.u.identify(of.GetProvider())
		has := func(f providerpb.Feature) bool { return slices.Contains(of.GetFeatures(), f) }
		c.u.watch.Store(has(providerpb.Feature_FEATURE_WATCH_LISTS) || has(providerpb.Feature_FEATURE_WATCH_RESOURCES))
		if has(providerpb.Feature_FEATURE_EVENTS) {
			c.u.startFeed()
		}
		for _, kind := range kinds { // calls need them
			c.u.definitions(kind, of)
		}
		if of.GetNextPageToken() == "" {
			c.u.known.complete()
		}
		b := c.Begin(0)
		b.Add("supportedVersions", texts([]string{rules.ModernVersion}))
		b.Key("capabilities")
		b.Raw = appendCapabilities(b.Raw, of)
		b.Some("instructions", of.GetInstructions())
		addCaching(b, of.GetTtl(), of.GetShared())
		return c.Complete(b, nil)
	})
}

// appendCapabilities appends the capabilities of a server that offers this.
func appendCapabilities(dst []byte, of *providerpb.ListCapabilitiesResponse) []byte {
	has := func(f providerpb.Feature) bool { return slices.Contains(of.GetFeatures(), f) }
	events := has(providerpb.Feature_FEATURE_EVENTS)
	lists, resources := has(providerpb.Feature_FEATURE_WATCH_LISTS) || events, has(providerpb.Feature_FEATURE_WATCH_RESOURCES) || events
	more := of.GetNextPageToken() != ""
	changes := func(b *wire.Builder) {
		if lists {
			b.Add("listChanged", []byte("true"))
		}
	}
	b := wire.NewBuilder(dst)
	b.Key("tools")
	tools := wire.NewBuilder(b.Raw)
	changes(tools)
	b.Raw = tools.Done()
	if more || len(of.GetResources())+len(of.GetResourceTemplates()) > 0 || has(providerpb.Feature_FEATURE_WATCH_RESOURCES) {
		b.Key("resources")
		r := wire.NewBuilder(b.Raw)
		changes(r)
		if resources {
			r.Add("subscribe", []byte("true"))
		}
		b.Raw = r.Done()
	}
	if more || len(of.GetPrompts()) > 0 {
		b.Key("prompts")
		p := wire.NewBuilder(b.Raw)
		changes(p)
		b.Raw = p.Done()
	}
	if has(providerpb.Feature_FEATURE_COMPLETE) {
		b.Add("completions", []byte("{}"))
	}
	b.Add("logging", []byte("{}"))
	return b.Done()
}

// identify remembers who the provider is.
func (u *Upstream) identify(of *providerpb.Implementation) {
	if of == nil && u.info.Load() != nil {
		return
	}
	b := wire.NewBuilder(nil)
	name, version := of.GetName(), of.GetVersion()
	if name == "" {
		name = u.opt.Name
	}
	if version == "" {
		version = "0.0.0"
	}
	b.Text("name", name)
	b.Some("title", of.GetTitle())
	b.Text("version", version)
	info := b.Done()
	u.info.Store(&info)
}

// list asks for a page of a list.
func (c *call) list(kind providerpb.Kind) error {
	request := &providerpb.ListCapabilitiesRequest{Kind: kind, PageToken: string(c.m.Text(c.m.Cursor))}
	return c.step(listMethod, request, func(in proto.Message) (*wire.Message, error) {
		of := in.(*providerpb.ListCapabilitiesResponse)
		c.u.identify(of.GetProvider())
		b := c.Begin(proto.Size(of))
		b.Key(keys[kind])
		b.Raw = append(b.Raw, '[')
		for _, item := range c.u.definitions(kind, of) {
			b.Raw = wire.AppendItem(b.Raw, item)
		}
		b.Raw = append(b.Raw, ']')
		b.Some("nextCursor", of.GetNextPageToken())
		addCaching(b, of.GetTtl(), of.GetShared())
		return c.Complete(b, nil)
	})
}

// keys are the members of results that have the lists.
var keys = map[providerpb.Kind]string{providerpb.Kind_KIND_TOOL: "tools", providerpb.Kind_KIND_RESOURCE: "resources",
	providerpb.Kind_KIND_RESOURCE_TEMPLATE: "resourceTemplates", providerpb.Kind_KIND_PROMPT: "prompts"}

// maxPages bounds the pages of a list that is read for a call.
const maxPages = 100

// known begins a call that depends on a definition: at once, or after the list was read.
func (c *call) known() error {
	began, err := c.beginKnown()
	if began || err != nil {
		return err
	}
	switch {
	case c.m.Is("tools/call"):
		return c.learn(providerpb.Kind_KIND_TOOL, "", 1)
	case c.m.Is("prompts/get"):
		return c.learn(providerpb.Kind_KIND_PROMPT, "", 1)
	}
	return c.learn(providerpb.Kind_KIND_UNSPECIFIED, "", 1)
}

// beginKnown begins the call if the definition is known.
func (c *call) beginKnown() (began bool, err error) {
	switch {
	case c.m.Is("tools/call"):
		if of := c.u.known.tool(string(c.m.Text(c.m.Name))); of != nil {
			return true, c.callTool(of)
		}
	case c.m.Is("prompts/get"):
		if of := c.u.known.prompt(string(c.m.Text(c.m.Name))); of != nil {
			return true, c.prompt(of)
		}
	default:
		if asks, known := c.u.known.resource(string(c.m.Text(c.m.URI))); known {
			return true, c.read(asks)
		}
	}
	return false, nil
}

// learn reads a page of a list, and the pages after it, and begins the call then.
func (c *call) learn(kind providerpb.Kind, token string, page int) error {
	return c.step(listMethod, &providerpb.ListCapabilitiesRequest{Kind: kind, PageToken: token}, func(in proto.Message) (*wire.Message, error) {
		of := in.(*providerpb.ListCapabilitiesResponse)
		c.u.identify(of.GetProvider())
		for _, k := range kinds {
			c.u.definitions(k, of)
		}
		if next := of.GetNextPageToken(); next != "" && next != token && page < maxPages {
			return nil, c.learn(kind, next, page+1)
		}
		if kind == providerpb.Kind_KIND_UNSPECIFIED {
			c.u.known.complete()
		}
		began, err := c.beginKnown()
		if began || err != nil {
			return nil, err
		}
		switch {
		case c.m.Is("tools/call"):
			return nil, proxy.Errf(proxy.ToolUnknown, "the provider has no tool %q", c.m.Text(c.m.Name))
		case c.m.Is("prompts/get"):
			return nil, proxy.Errf(proxy.InvalidParams, "the provider has no prompt %q", c.m.Text(c.m.Name))
		}
		return nil, c.read(false) // the list of resources is too long to be known
	})
}

// kinds are the kinds of definitions.
var kinds = [...]providerpb.Kind{providerpb.Kind_KIND_TOOL, providerpb.Kind_KIND_RESOURCE, providerpb.Kind_KIND_RESOURCE_TEMPLATE, providerpb.Kind_KIND_PROMPT}
