package merge

import (
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

// SetContext sets which clients are listed the meta-tools in the place of all tools. Names that the meta-tools have belong to them only if
// Options.Own has them.
func (u *Upstream) SetContext(r *metatools.Rules) { u.context.Store(r) }

// own answers a call of one of the meta-tools. known is false for calls of other tools.
func (u *Upstream) own(ex *proxy.Exchange, sees func(*proxy.Exchange) *view.View) (_ proxy.Replies, known bool, _ error) {
	m, rules := &ex.Msg, u.context.Load()
	if rules == nil || !m.Is("tools/call") {
		return nil, false, nil
	}
	name := m.Text(m.Name)
	if !metatools.Is(name) || rules.For(ex) == nil {
		return nil, false, nil
	}
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, true, err
	}
	v := sees(ex)
	var result []byte
	switch string(name) {
	case metatools.Find:
		result = u.find(ex, v)
	case metatools.Describe:
		result = u.describe(ex, v)
	default:
		result = metatools.Refusal(metatools.Wrong(m))
	}
	return u.said(ex, result), true, nil
}

// said is the response to a tools/call that Dragoman answers itself, with a result in the modern form.
func (u *Upstream) said(ex *proxy.Exchange, result []byte) proxy.Replies {
	m := proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.With(result, wire.Change{Key: "_meta", Value: wire.Object([]wire.Change{{Key: wire.MetaPrefix + "serverInfo", Value: u.opt.Info}})}))
	if version := legacyVersion(ex); version != "" {
		translate.LegacyResult(&m, "tools/call", version)
		if _, err := m.Settle(nil); err != nil {
			m = proxy.ErrorMessage(ex.Msg.Of(ex.Msg.ID), proxy.Errf(proxy.Internal, "an answer made here is no message: %w", err))
		}
	}
	return proxy.Reply(m)
}

// find answers find_tools.
func (u *Upstream) find(ex *proxy.Exchange, v *view.View) []byte {
	q, wrong := metatools.ParseFind(ex.Msg.Raw, ex.Msg.Arguments)
	if wrong != "" {
		return metatools.Refusal(wrong)
	}
	found := u.search(ex, v, q)
	return metatools.Answer(found.Result())
}

// search finds tools that the caller may use, of servers that serve calls. If there are none for all that was asked, it asks for less, and says
// so: a model that is told nothing gives up.
func (u *Upstream) search(ex *proxy.Exchange, v *view.View, q metatools.Query) (found metatools.Found) {
	if u.opt.Counts != nil {
		u.opt.Counts.Searches.Add(1)
	}
	found.Tools = u.hits(ex, v, q)
	if len(found.Tools) > 0 {
		return found
	}
	if q.Server != "" || q.Category != "" || q.ReadOnly {
		wider := metatools.Query{Text: q.Text, Limit: q.Limit}
		found.Tools = u.hits(ex, v, wider)
		found.Note = "nothing is found with these filters; without them this is nearest"
	}
	if len(found.Tools) == 0 {
		found.Note = "nothing is near this query; say what is to be done in other words, or name a server"
	}
	behind := v.Behind(nil)
	found.Servers, found.Categories = behind.Servers, behind.Categories
	return found
}

// hits returns the tools that a query finds.
func (u *Upstream) hits(ex *proxy.Exchange, v *view.View, q metatools.Query) (tools []metatools.Tool) {
	now := u.catalogue().Snapshot()
	q.Own = v.Own()
	allowed := func(server, name string) bool { return v.Findable(now, server, name, q.ReadOnly) }
	for _, hit := range u.opt.Finder.Find(ex, q, allowed) {
		if t, known := v.Tool(now, hit); known {
			tools = append(tools, t)
		}
	}
	return tools
}

// nearest is how many names describe_tools returns for one that there is not.
const nearest = 3

// describe answers describe_tools.
func (u *Upstream) describe(ex *proxy.Exchange, v *view.View) []byte {
	asked, wrong := metatools.ParseDescribe(&ex.Msg)
	if wrong != "" {
		return metatools.Refusal(wrong)
	}
	now := u.catalogue().Snapshot()
	var tools []metatools.Tool
	var unknown []metatools.Unknown
	for _, name := range asked {
		server, original, err := v.Named(name)
		t, known := v.Tool(now, metatools.Hit{Server: server, Name: original})
		if err == nil && known {
			tools = append(tools, t)
			continue
		}
		one := metatools.Unknown{Name: name}
		for _, near := range u.hits(ex, v, metatools.Query{Text: name, Limit: nearest}) {
			one.Nearest = append(one.Nearest, near.Public)
		}
		unknown = append(unknown, one)
	}
	return metatools.Answer(metatools.Described(tools, unknown))
}

// readOnly refuses a call through call_read_only_tool of a tool that no trusted server declares to change nothing; nil: it may go on.
func (u *Upstream) readOnly(ex *proxy.Exchange, v *view.View, d *view.Destination) proxy.Replies {
	if ex.Through != metatools.CallReadOnly || v.ReadOnly(d.Server, d.Original) {
		return nil
	}
	return u.said(ex, metatools.Refusal("call_read_only_tool does not take "+wire.Shown(d.Asked)+": no trusted server declares it to change nothing; use call_tool"))
}

// answerTools answers tools/list of a client that is listed the meta-tools, if it is one.
func (u *Upstream) answerTools(ex *proxy.Exchange, v *view.View, cursor *string) (answer wire.Message, short bool, err *proxy.Error) {
	rule := u.context.Load().For(ex)
	if rule == nil {
		return answer, false, nil
	}
	short = v.Shortens(rule)
	if counts := u.opt.Counts; counts != nil && cursor == nil {
		listed := v.Listed(rule)
		counts.Lists.Add(1)
		counts.Bytes.Add(int64(listed.Bytes))
		counts.Spared.Add(int64(listed.Spared()))
	}
	if !short {
		return answer, false, nil
	}
	answer, err = v.AnswerShort(ex.Msg.Of(ex.Msg.ID), rule, cursor, legacyVersion(ex))
	return answer, true, err
}

// instructions returns what the members say of themselves, and, for a client that is listed the meta-tools, how tools are found.
func (u *Upstream) instructions(ex *proxy.Exchange, v *view.View) []byte {
	text := v.Instructions()
	if rule := u.context.Load().For(ex); rule != nil && v.Shortens(rule) {
		text = strings.TrimSuffix(findsTools+"\n\n"+text, "\n\n")
	}
	if text == "" {
		return nil
	}
	return wire.AppendText(nil, text)
}

// findsTools comes before the instructions of the members.
const findsTools = "Most tools here are not listed. Search them with find_tools whenever a task needs one, and call what it returns with call_tool."

// searched answers metatools.SearchMethod.
func (u *Upstream) searched(ex *proxy.Exchange) (proxy.Replies, error) {
	if err := u.awaitFirst(ex, catalogue.Tools); err != nil {
		return nil, err
	}
	q, wrong := metatools.ParseFind(ex.Msg.Raw, ex.Msg.Params)
	if wrong != "" {
		return nil, proxy.Errf(proxy.InvalidParams, "%s", strings.ReplaceAll(wrong, "arguments.query", "q"))
	}
	found := u.search(ex, u.view(ex), q)
	return proxy.Reply(proxy.ResultMessage(ex.Msg.Of(ex.Msg.ID), wire.With(found.Result(), wire.Change{Key: "resultType", Value: []byte(`"complete"`)}))), nil
}
