// Package find answers for the tools that Dragoman itself has where several servers are one (metatools): it finds and describes tools, and lists
// itself in the place of long lists.
package find

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"

	"dragoman/adapters/catalogue"
	"dragoman/adapters/era/translate"
	"dragoman/adapters/merge/metatools"
	"dragoman/adapters/merge/view"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Counts counts what short lists have spared clients. It is safe for concurrent use.
type Counts struct {
	Lists, Bytes, Spared, Searches atomic.Int64 // Bytes were listed instead of Bytes+Spared
}

// Options configure Tools.
type Options struct {
	Catalogue *catalogue.Catalogue
	Finder    metatools.Finder // needed once there are rules, or something is searched for
	Counts    *Counts          // nil: nobody counts
	Info      []byte           // serverInfo, a JSON object
}

// Tools are the meta-tools of an endpoint. They are safe for concurrent use.
type Tools struct {
	opt   Options
	rules atomic.Pointer[metatools.Rules] // nil: every client is listed every tool
}

// New returns the meta-tools of an endpoint, which are offered to nobody yet.
func New(opt Options) *Tools { return &Tools{opt: opt} }

// On reports whether some clients are listed the meta-tools.
func (t *Tools) On() bool { return t.rules.Load().On() }

// SetRules sets which clients are listed the meta-tools in the place of all tools.
func (t *Tools) SetRules(r *metatools.Rules) { t.rules.Store(r) }

// Has reports whether a request is a call of one of the meta-tools by a client that has them.
func (t *Tools) Has(ex *proxy.Exchange) bool {
	rules := t.rules.Load()
	return rules != nil && ex.Msg.Is("tools/call") && metatools.Is(ex.Msg.Text(ex.Msg.Name)) && rules.For(ex) != nil
}

// Call answers a call of one of the meta-tools. The client sees v and speaks the revision version; a modern one if that is empty.
func (t *Tools) Call(ex *proxy.Exchange, v *view.View, version string) proxy.Replies {
	m := &ex.Msg
	var result []byte
	switch string(m.Text(m.Name)) {
	case metatools.Find:
		result = t.find(ex, v)
	case metatools.Describe:
		result = t.describe(ex, v)
	default:
		result = metatools.Refusal(metatools.Wrong(m))
	}
	return t.said(ex, result, version)
}

// said is the response to a tools/call that Dragoman answers itself, with a result in the modern form.
func (t *Tools) said(ex *proxy.Exchange, result []byte, version string) proxy.Replies {
	m := proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.With(result, wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: t.opt.Info}})}))
	if version != "" {
		translate.LegacyResult(&m, "tools/call", version)
		if _, err := m.Settle(nil); err != nil {
			m = proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.Internal, "an answer made here is no message: %w", err))
		}
	}
	return proxy.Reply(m)
}

// find answers find_tools.
func (t *Tools) find(ex *proxy.Exchange, v *view.View) []byte {
	q, wrong := metatools.ParseFind(ex.Msg.Raw, ex.Msg.Arguments)
	if wrong != "" {
		return metatools.Refusal(wrong)
	}
	found := t.search(ex, v, q)
	return metatools.Answer(found.Result())
}

// search finds tools that the caller may use, of servers that serve calls. If there are none for all that was asked, it asks for less, and says
// so: a model that is told nothing gives up.
func (t *Tools) search(ex *proxy.Exchange, v *view.View, q metatools.Query) (found metatools.Found) {
	if t.opt.Counts != nil {
		t.opt.Counts.Searches.Add(1)
	}
	found.Tools = t.hits(ex, v, q)
	if len(found.Tools) > 0 {
		return found
	}
	if q.Server != "" || q.Category != "" || q.ReadOnly {
		wider := metatools.Query{Text: q.Text, Limit: q.Limit}
		found.Tools = t.hits(ex, v, wider)
		found.Note = "nothing is found with these filters; without them this is nearest"
	}
	if len(found.Tools) == 0 {
		found.Note = "nothing is near this query; say what is to be done in other words, or name a server"
	}
	behind := v.Behind()
	found.Servers, found.Categories = behind.Servers, t.nearestFirst(ex, q.Text, behind.Categories)
	return found
}

// nearCategories bounds the categories that come first because a query may be about them.
const nearCategories = 3

// nearestFirst returns categories with those first that a query may be about.
func (t *Tools) nearestFirst(ex *proxy.Exchange, query string, all []metatools.Group) []metatools.Group {
	if query == "" || len(all) == 0 {
		return all
	}
	near := t.opt.Finder.NearCategories(ex, query, nearCategories)
	place := func(g metatools.Group) int {
		if at := slices.Index(near, g.Name); at >= 0 {
			return at
		}
		return len(near)
	}
	slices.SortStableFunc(all, func(a, b metatools.Group) int { return cmp.Compare(place(a), place(b)) })
	return all
}

// hits returns the tools that a query finds.
func (t *Tools) hits(ex *proxy.Exchange, v *view.View, q metatools.Query) (tools []metatools.Tool) {
	now := t.opt.Catalogue.Snapshot()
	q.Own = v.Own()
	allowed := func(server, name string) bool { return v.Findable(now, server, name, q.ReadOnly) }
	for _, hit := range t.opt.Finder.Find(ex, q, allowed) {
		if one, known := v.Tool(now, hit); known {
			tools = append(tools, one)
		}
	}
	return tools
}

// nearest is how many names describe_tools returns for one that there is not.
const nearest = 3

// describe answers describe_tools.
func (t *Tools) describe(ex *proxy.Exchange, v *view.View) []byte {
	asked, wrong := metatools.ParseDescribe(&ex.Msg)
	if wrong != "" {
		return metatools.Refusal(wrong)
	}
	now := t.opt.Catalogue.Snapshot()
	var tools []metatools.Tool
	var unknown []metatools.Unknown
	for _, name := range asked {
		server, original, err := v.Named(name)
		tool, known := v.Tool(now, metatools.Hit{Server: server, Name: original})
		if err == nil && known {
			tools = append(tools, tool)
			continue
		}
		one := metatools.Unknown{Name: name}
		for _, near := range t.hits(ex, v, metatools.Query{Text: name, Limit: nearest}) {
			one.Nearest = append(one.Nearest, near.Public)
		}
		unknown = append(unknown, one)
	}
	return metatools.Answer(metatools.Described(tools, unknown))
}

// Refuse refuses a call through call_read_only_tool of a tool that no trusted server declares to change nothing; nil: it may go on.
func (t *Tools) Refuse(ex *proxy.Exchange, v *view.View, d *view.Destination, version string) proxy.Replies {
	if ex.Through != metatools.CallReadOnly || v.ReadOnly(d.Server, d.Original) {
		return nil
	}
	return t.said(ex, metatools.Refusal("call_read_only_tool does not take "+wire.Shown(d.Asked)+": no trusted server declares it to change nothing; use call_tool"), version)
}

// List answers tools/list of a client that is listed the meta-tools; short is false for one that is not.
func (t *Tools) List(ex *proxy.Exchange, v *view.View, cursor *string, version string) (answer wire.Message, short bool, err *proxy.Error) {
	rule := t.rules.Load().For(ex)
	if rule == nil {
		return answer, false, nil
	}
	short = v.Shortens(rule)
	if counts := t.opt.Counts; counts != nil && cursor == nil {
		listed := v.Listed(rule)
		counts.Lists.Add(1)
		counts.Bytes.Add(int64(listed.Bytes))
		counts.Spared.Add(int64(listed.Spared()))
	}
	if !short {
		return answer, false, nil
	}
	answer, err = v.AnswerShort(ex.Msg.Of(ex.Msg.ID), rule, cursor, version)
	return answer, true, err
}

// Instructions returns what the members say of themselves, and, for a client that is listed the meta-tools, how tools are found.
func (t *Tools) Instructions(ex *proxy.Exchange, v *view.View) []byte {
	text := v.Instructions()
	if rule := t.rules.Load().For(ex); rule != nil && v.Shortens(rule) {
		text = strings.TrimSuffix(findsTools+"\n\n"+text, "\n\n")
	}
	if text == "" {
		return nil
	}
	return wire.AppendText(nil, text)
}

// findsTools comes before the instructions of the members.
const findsTools = "Most tools here are not listed. Search them with find_tools whenever a task needs one, and call what it returns with call_tool."

// Search answers metatools.SearchMethod.
func (t *Tools) Search(ex *proxy.Exchange, v *view.View) (proxy.Replies, error) {
	q, wrong := metatools.ParseFind(ex.Msg.Raw, ex.Msg.Params)
	if wrong != "" {
		return nil, proxy.Errf(proxy.InvalidParams, "%s", strings.ReplaceAll(wrong, "arguments.query", "q"))
	}
	found := t.search(ex, v, q)
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.With(found.Result(), wire.Change{Key: "resultType", Value: []byte(`"complete"`)}))), nil
}

// Size is how much of the tools one rule lists to a caller without rights of its own.
type Size struct {
	Clients, Keys []string // of metatools.Special; nil: it is the rule of all others
	Mode          metatools.Mode
	Short         bool // the meta-tools are listed
	view.Listed
}

// Sizes returns the size of each rule, that of all others first.
func (t *Tools) Sizes(v *view.View) []Size {
	r := t.rules.Load()
	if r == nil {
		return []Size{{Listed: v.Listed(nil)}}
	}
	size := func(rule *metatools.Rule) Size {
		short := rule.Mode != metatools.All && v.Shortens(rule)
		if !short {
			return Size{Mode: rule.Mode, Listed: v.Listed(nil)}
		}
		return Size{Mode: rule.Mode, Short: short, Listed: v.Listed(rule)}
	}
	all := []Size{size(&r.Rule)}
	for i := range r.Some {
		one := size(&r.Some[i].Rule)
		one.Clients, one.Keys = r.Some[i].Clients, r.Some[i].Keys
		all = append(all, one)
	}
	return all
}
