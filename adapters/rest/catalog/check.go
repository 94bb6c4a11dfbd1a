package catalog

import (
	"strconv"
	"time"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/adapters/rest/schema"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Policy refuses calls of unknown tools and arguments that do not fit, and checks structured results if Options says so. It
// stands inside the policies that observe requests, so that they see a refusal as any other, and outside those that keep
// answers, so that a corrected call may be sent again under the same idempotency key.
func (c *Catalog) Policy(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if !ex.Msg.Is("tools/call") {
			return next(ex)
		}
		tool, err := c.called(c.client.OnBehalf(ex), ex)
		if err != nil {
			return nil, err
		}
		replies, err := next(ex)
		if err != nil || tool == nil || !c.opt.CheckResults || c.opt.Check == nil || tool.Output == nil {
			return replies, err
		}
		return &checkedReplies{replies, c, tool}, nil
	}
}

// called returns the tool that ex calls, after a check of the arguments. A call that does not fit a list that is not fresh is
// checked against a fresh one before it is refused. Several servers as one have more names for a tool than are listed: a call by one of
// those is theirs to judge, and has no tool here.
func (c *Catalog) called(o *mcpcall.Origin, ex *proxy.Exchange) (*Tool, error) {
	_, several := c.opt.Behind(ex.Server)
	if several && ex.Msg.Server.Present() {
		return nil, nil //nolint:nilnil // it is named otherwise
	}
	name, args := string(ex.Msg.Text(ex.Msg.Name)), ex.Msg.Of(ex.Msg.Arguments)
	list, err := c.known(o)
	if err != nil {
		return nil, err
	}
	tool, err := c.callable(list, name, args)
	if err == nil {
		return tool, nil
	}
	renewed, rerr := c.renewed(o, list)
	if rerr != nil {
		return nil, rerr
	}
	if renewed != list {
		tool, err = c.callable(renewed, name, args)
	}
	if err == nil {
		return tool, nil
	}
	_, listed := renewed.find(name)
	if several && !listed {
		return nil, nil //nolint:nilnil // it may be a server's own name
	}
	ex.Target = renewed.target // the server whose list refuses the call
	if !listed && c.opt.Refuse != nil {
		if refused := c.opt.Refuse(ex); refused != nil {
			return nil, refused
		}
	}
	return nil, err
}

// callable returns the tool of that name if it accepts the arguments (seed 000, ToolRequest).
func (c *Catalog) callable(list *List, name string, args []byte) (*Tool, error) {
	tool, ok := list.find(name)
	if !ok {
		return nil, proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", name)
	}
	if c.opt.Check == nil || c.opt.SkipArguments || tool.Arguments == nil {
		return tool, nil
	}
	v, err := c.check(tool, "inputSchema", tool.Arguments, args)
	if v == nil || err != nil {
		return tool, nil //nolint:nilerr // a schema that cannot be used refuses nothing
	}
	return nil, violates(proxy.Errf(proxy.ArgumentsInvalid, "arguments: %s", v), v)
}

// check validates a value against a schema of a tool, and logs the parts of the schema that are not checked.
func (c *Catalog) check(tool *Tool, which string, schemaJSON, value []byte) (*schema.Violation, error) {
	v, err := c.opt.Check.Check(schemaJSON, value)
	about := "the " + which + " of tool " + strconv.Quote(wire.Shown(tool.Name))
	if err != nil {
		if c.First(tool.list, tool.Name, which+" unusable") {
			c.opt.Log("warn", about+" cannot be used; nothing is checked against it", err)
		}
		return nil, err
	}
	if c.First(tool.list, tool.Name, which) {
		notes, _ := c.opt.Check.Notes(schemaJSON) // fails only if Check does
		c.Note("info", about+" is not checked as a whole", notes)
	}
	return v, nil
}

// violates adds to an error where and how a schema is violated.
func violates(e *proxy.Error, v *schema.Violation) *proxy.Error {
	data := mcpcall.Members{}
	data.AddText("code", e.Name)
	data.Add("retryable", strconv.AppendBool(nil, e.Retryable))
	data.AddText("path", v.Path)
	data.AddText("rule", v.Rule)
	e.Data = data.Object()
	return e
}

// checkedReplies checks the result of a tool on its way to the caller.
type checkedReplies struct {
	proxy.Replies
	c    *Catalog
	tool *Tool
}

// Next implements proxy.Replies.
func (r *checkedReplies) Next(until time.Time) (*wire.Message, error) {
	m, err := r.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if _, err := m.Settle(nil); err != nil {
		return m, proxy.Errf(proxy.Internal, "an edited response is no message: %w", err)
	}
	if bad := r.c.checkResult(r.tool, m); bad != nil {
		return nil, bad
	}
	return m, nil
}

// ResultError says that a tool's result does not fit its outputSchema. REST callers get the result beside the error.
type ResultError struct {
	Result []byte // raw JSON
	why    *proxy.Error
}

// Error implements error.
func (e *ResultError) Error() string { return e.why.Error() }

// Unwrap returns the *proxy.Error that clients may see.
func (e *ResultError) Unwrap() error { return e.why }

// checkResult checks a tool's structured result. A failure and a question have none to check.
func (c *Catalog) checkResult(tool *Tool, m *wire.Message) error {
	if m.ResultType.Is(m.Raw, "input_required") || m.ToolFailed() {
		return nil
	}
	got := wire.Get(m.Raw, m.Result, "structuredContent")
	if !got.Present() {
		return &ResultError{m.Of(m.Result), proxy.Errf(proxy.ResultInvalid, "the tool has an outputSchema, but its result has no structuredContent")}
	}
	v, err := c.check(tool, "outputSchema", tool.Output, got.Of(m.Raw))
	if v == nil || err != nil {
		return nil //nolint:nilerr // as with arguments
	}
	why := proxy.Errf(proxy.ResultInvalid, "the tool's structuredContent does not fit its outputSchema at %q: %s (%s)", v.Path, v.Message, v.Rule)
	return &ResultError{m.Of(m.Result), violates(why, v)}
}
