package definitions

import (
	"context"
	"crypto/sha256"
	"strings"
	"time"

	"dragoman/adapters/catalogue"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Policy returns the policy that refuses requests for what is held, and leaves it out of lists; nil for a nil Guard. It stands where requests
// have the server's own names.
func (g *Guard) Policy() proxy.Policy {
	if g == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if ex.Msg.Kind != wire.Request {
				return next(ex)
			}
			if err := g.Refuse(ex); err != nil {
				return nil, err
			}
			kind, filters := shows(&ex.Msg)
			if !filters {
				return next(ex)
			}
			if err := g.ready(ex); err != nil {
				ex.RefusedBy = refuses
				return nil, err
			}
			return g.filtered(next, ex, kind)
		}
	}
}

// Shown is Policy for lists that Dragoman has read itself, and for nothing else: it waits for nothing.
func (g *Guard) Shown() proxy.Policy {
	if g == nil {
		return nil
	}
	return func(next proxy.Handler) proxy.Handler {
		return func(ex *proxy.Exchange) (proxy.Replies, error) {
			if kind, filters := shows(&ex.Msg); filters {
				return g.filtered(next, ex, kind)
			}
			return next(ex)
		}
	}
}

// shows reports whether the result of a request has definitions: a list of a kind, or with none the instructions of the server.
func shows(m *wire.Message) (kind string, filters bool) {
	method := string(m.Text(m.Method))
	if of, list := catalogue.KindOf(method); list {
		return of.String(), of != catalogue.Resources
	}
	return Instructions, method == "initialize" || method == "server/discover"
}

func (g *Guard) filtered(next proxy.Handler, ex *proxy.Exchange, kind string) (proxy.Replies, error) {
	replies, err := next(ex)
	if err != nil {
		return nil, err
	}
	return &judged{Replies: replies, g: g, who: ex.Caller.Identity(), kind: kind}, nil
}

// ready waits until the server was discovered, if it was not: what it lists then may be approved thereby. It fails if what is approved cannot be read.
func (g *Guard) ready(ex *proxy.Exchange) error {
	s, a := g.known(ex)
	if s != nil && a.wasDiscovered() {
		return nil
	}
	if err := g.opt.Await(ex); err != nil {
		return err
	}
	if s, a = g.known(ex); s == nil || !a.wasRead() {
		return g.unread()
	}
	return nil
}

func (g *Guard) unread() *proxy.Error {
	return proxy.Errf(proxy.Unreachable, "it cannot be read what is approved of the server %q, and nothing else is served; the log says why", g.opt.Server)
}

// Load reads what is approved from the store, if that was not done, so that no request has to wait for it.
func (g *Guard) Load(ctx context.Context) {
	if g != nil {
		g.known(ctx)
	}
}

// known returns what the server has listed to Dragoman, and what is approved of it, which is read once if the store was not read; nil: nothing is
// known.
func (g *Guard) known(ctx context.Context) (*catalogue.Server, *approved) {
	s := g.opt.Known()
	if s == nil {
		return nil, nil
	}
	a := g.opt.Keeper.of(s.ID)
	a.once.Do(func() {
		if a.wasRead() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
		defer cancel()
		a.changing.Lock()
		defer a.changing.Unlock()
		if _, _, err := g.opt.Keeper.reload(ctx, s.ID, a); err != nil { // Learn tries again
			g.opt.Note(unjudged, err)
		}
	})
	return s, a
}

// Refuse returns the error that refuses a request for something that is held, or of which nothing is known; nil: it is not refused, or the Guard
// is nil.
func (g *Guard) Refuse(ex *proxy.Exchange) error {
	if g == nil {
		return nil
	}
	err := g.judge(ex)
	if err == nil {
		return nil // without a typed nil
	}
	ex.RefusedBy = refuses
	return err
}

// refuses is the name of the policy in the audit trail.
const refuses = "definitions"

// uses are the things that a request uses: where it has their names, and of which kinds these are.
type uses [2]struct {
	at   wire.Span
	kind catalogue.Kind // Resources: of a URI that may be one of a template
}

// about returns what a request uses; false: nothing that is pinned. Both names in the reference of a completion count: a server may go by either.
func about(m *wire.Message) (all uses, pinned bool) {
	switch {
	case m.Is("tools/call"):
		all[0].at, all[0].kind = m.Name, catalogue.Tools
	case m.Is("prompts/get"):
		all[0].at, all[0].kind = m.Name, catalogue.Prompts
	case m.Is("resources/read"):
		all[0].at, all[0].kind = m.URI, catalogue.Resources
	case m.Is("completion/complete"):
		ref := wire.Get(m.Raw, m.Params, "ref")
		all[0].at, all[0].kind = wire.Get(m.Raw, ref, "uri"), catalogue.Templates
		all[1].at, all[1].kind = wire.Get(m.Raw, ref, "name"), catalogue.Prompts
	default:
		return all, false
	}
	return all, true
}

// judge returns why a request is refused; nil: it is not.
func (g *Guard) judge(ex *proxy.Exchange) *proxy.Error {
	m := &ex.Msg
	all, pinned := about(m)
	if !pinned {
		return nil
	}
	if err := g.opt.Await(ex); err != nil {
		return proxy.AsError(err)
	}
	s, a := g.known(ex)
	if s == nil || !a.wasRead() {
		return g.unread()
	}
	for _, use := range all {
		if !use.at.IsString(m.Raw) { // the server refuses it
			continue
		}
		if err := g.judgeUse(s, a, ex.Caller.Identity(), use.kind, string(m.Text(use.at))); err != nil {
			return err
		}
	}
	return nil
}

// judgeUse returns why a caller may not use something; nil: it may.
func (g *Guard) judgeUse(s *catalogue.Server, a *approved, who proxy.Identity, kind catalogue.Kind, key string) *proxy.Error {
	if kind == catalogue.Resources {
		if held := g.templates(s, a).read(key); held != "" {
			return g.refusal(catalogue.Templates, held, a.judge(who, Thing{catalogue.Templates.String(), held}).known)
		}
		return nil
	}
	now, present := g.sums(s, kind)[key]
	v := a.judge(who, Thing{kind.String(), key})
	switch {
	case v.seen != nil, present && (!v.known || now != v.approved):
		return g.refusal(kind, key, v.known)
	case !v.known && kind == catalogue.Tools:
		return proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", key)
	case !v.known && kind == catalogue.Prompts:
		return proxy.Errf(proxy.InvalidParams, "Prompt not found: %s", key)
	}
	return nil
}

// refusal is the error for something that is held.
func (g *Guard) refusal(kind catalogue.Kind, key string, changed bool) *proxy.Error {
	why := "is new and was not approved yet"
	if changed {
		why = "has changed since it was approved"
	}
	what := map[catalogue.Kind]string{catalogue.Tools: "tool", catalogue.Prompts: "prompt", catalogue.Templates: "resource template"}[kind]
	return proxy.Errf(proxy.DefinitionHeld, "the %s %s of the server %q is held: its definition %s; an operator looks at it and approves it with `dragoman approve %s %s`",
		what, key, g.opt.Server, why, g.opt.Server, quoted(key))
}

// quoted returns a key as a shell takes it.
func quoted(key string) string {
	if strings.IndexFunc(key, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:", r))
	}) < 0 && key != "" {
		return key
	}
	return "'" + strings.ReplaceAll(key, "'", `'\''`) + "'"
}

// judged wraps the replies to a request for a list, or for what a server says of itself.
type judged struct {
	proxy.Replies
	g    *Guard
	who  proxy.Identity
	kind string
	own  []byte
}

// Next implements proxy.Replies.
func (r *judged) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if len(m.Edits) > 0 { // apply pending edits first: what will be sent counts
		if r.own, err = m.Settle(r.own); err != nil {
			return m, proxy.Errf(proxy.Internal, "an edited reply is no message: %w", err)
		}
	}
	s, a := r.g.known(context.Background())
	var member string
	var value []byte
	if r.kind == Instructions {
		member = Instructions
		value = r.instructions(m, a, wire.Get(m.Raw, m.Result, member))
	} else {
		kind := kindOf(r.kind)
		member = kind.Member()
		value = r.items(m, s, a, kind, wire.Get(m.Raw, m.Result, member))
	}
	changes := append([]wire.Change{{Key: member, Value: value}}, strays(m, member)...)
	if len(changes) > maxChanges {
		return nil, proxy.Errf(proxy.BadAnswer, "the server %q has answered with many spellings of the member %q", r.g.opt.Server, member)
	}
	m.EditObject(m.Result, changes)
	return m, nil
}

// kindOf returns the kind of a name.
func kindOf(name string) catalogue.Kind {
	for _, kind := range kinds {
		if kind.String() == name {
			return kind
		}
	}
	return catalogue.Kinds
}

// maxChanges is how many members of an object are edited at once (wire.EditObject).
const maxChanges = 64

// strays are changes that drop members whose names differ in capitals from that of the list: some clients read them as it.
func strays(m *wire.Message, member string) (all []wire.Change) {
	for key := range wire.Members(m.Raw, m.Result) {
		if name := string(key.Text(m.Raw)); name != member && strings.EqualFold(name, member) {
			all = append(all, wire.Change{Key: name})
		}
	}
	return all
}

// items returns the items of a list that are approved; nil: there is no list.
func (r *judged) items(m *wire.Message, s *catalogue.Server, a *approved, kind catalogue.Kind, list wire.Span) []byte {
	if !list.Present() {
		return nil
	}
	var sums map[string][sha256.Size]byte
	if s != nil {
		sums = r.g.sums(s, kind)
	}
	kept := []byte{'['}
	for _, item := range wire.Items(m.Raw, list) {
		key := wire.Get(m.Raw, item, kind.Key())
		if a == nil || !item.IsObject(m.Raw) || !key.IsString(m.Raw) {
			continue
		}
		d := Of(kind, string(key.Text(m.Raw)), item.Of(m.Raw))
		now, present := sums[d.Key]
		if !a.listed(r.who, &d, present && now == d.Hash) {
			continue
		}
		if len(kept) > 1 {
			kept = append(kept, ',')
		}
		kept = append(kept, item.Of(m.Raw)...)
	}
	return append(kept, ']')
}

// instructions returns the approved instructions as a JSON string; nil: there are none.
func (r *judged) instructions(m *wire.Message, a *approved, at wire.Span) []byte {
	if !at.IsString(m.Raw) || a == nil {
		return nil
	}
	if text := a.shown(r.who, string(at.Text(m.Raw))); text != "" {
		return wire.AppendText(nil, text)
	}
	return nil
}

// Instructions returns what clients are shown in place of the instructions that the server gives Dragoman.
func (g *Guard) Instructions(text string) string {
	_, a := g.known(context.Background())
	if a == nil {
		return ""
	}
	return a.shown(proxy.Identity{}, text)
}
