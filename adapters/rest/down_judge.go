package rest

import (
	"crypto/sha256"
	"strconv"
	"time"

	"dragoman/adapters/rest/schema"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// judging is the policy of the face's own: a tool has to be in the list, its arguments have to fit, and, if that is wanted, its
// structured result has to. It stands within Options.Around, which so see a refusal as they see any other, and before all that
// keeps answers: who mends a call may send it again under the same key.
func (d *Downstream) judging(next proxy.Handler) proxy.Handler {
	return func(ex *proxy.Exchange) (proxy.Replies, error) {
		if !ex.Msg.Is("tools/call") {
			return next(ex)
		}
		tool, err := d.inquire(ex).judged(ex)
		if err != nil {
			return nil, err
		}
		replies, err := next(ex)
		if err != nil || !d.opt.CheckResults || d.opt.Check == nil || tool.Output == nil {
			return replies, err
		}
		return &judgedReplies{replies, d, tool}, nil
	}
}

// judged finds the tool that is called and checks its arguments. What would be refused by a list that is not fresh is judged once
// more by one that is.
func (q *inquiry) judged(ex *proxy.Exchange) (*Tool, error) {
	name, args := string(ex.Msg.Text(ex.Msg.Name)), ex.Msg.Of(ex.Msg.Arguments)
	list, err := q.known()
	if err != nil {
		return nil, err
	}
	tool, err := q.d.callable(list, name, args)
	if err == nil {
		return tool, nil
	}
	fresh, ferr := q.renewed(list)
	if ferr != nil {
		return nil, ferr
	}
	if fresh != list {
		tool, err = q.d.callable(fresh, name, args)
	}
	if err != nil {
		ex.Target = fresh.target // whose list refuses it
	}
	return tool, err
}

// callable is the tool of that name, if there is one and takes the arguments (seed 000, ToolRequest).
func (d *Downstream) callable(list *toolList, name string, args []byte) (*Tool, error) {
	tool, ok := list.find(name)
	if !ok {
		return nil, proxy.Errf(proxy.ToolUnknown, "Tool not found: %s", name)
	}
	if d.opt.Check == nil || d.opt.Trusting || tool.Arguments == nil {
		return tool, nil
	}
	v, err := d.check(tool, "inputSchema", tool.Arguments, args)
	if v == nil || err != nil {
		return tool, nil //nolint:nilerr // a schema that cannot be used refuses nothing
	}
	return nil, violates(proxy.Errf(proxy.ArgumentsInvalid, "arguments: %s", v), v)
}

// check judges a value by a tool's schema, and tells what of the schema is not checked.
func (d *Downstream) check(tool *Tool, which string, schemaJSON, value []byte) (*schema.Violation, error) {
	v, err := d.opt.Check.Check(schemaJSON, value)
	about := "the " + which + " of tool " + strconv.Quote(tool.Name)
	if err != nil {
		if d.first(tool.list, tool.Name, which+" unusable") {
			d.opt.Note("warn", about+" cannot be used; nothing is checked against it", err)
		}
		return nil, err
	}
	if d.first(tool.list, tool.Name, which) {
		notes, _ := d.opt.Check.Notes(schemaJSON) // fails as Check does
		d.note("info", about+" is not checked as a whole", notes)
	}
	return v, nil
}

// maxNotes bounds what is told of one schema.
const maxNotes = 20

// note tells what was left out of something.
func (d *Downstream) note(level, what string, notes []string) {
	for i, text := range notes {
		if i == maxNotes {
			d.opt.Note(level, what+", and "+strconv.Itoa(len(notes)-i)+" more of that kind", nil)
			return
		}
		d.opt.Note(level, what+": "+text, nil)
	}
}

// telling is something that is told once of a tool while its list is the same.
type telling struct {
	server, tool, what string
	list               [sha256.Size]byte
}

// first tells whether something is to be told for the first time.
func (d *Downstream) first(l *toolList, tool, what string) bool {
	had, _ := d.told.ContainsOrAdd(telling{l.server, tool, what, l.sum}, struct{}{})
	return !had
}

// violates puts into an error where and how a schema is broken.
func violates(e *proxy.Error, v *schema.Violation) *proxy.Error {
	data := members{}
	data.addText("code", e.Name)
	data.add("retryable", strconv.AppendBool(nil, e.Retryable))
	data.addText("path", v.Path)
	data.addText("rule", v.Rule)
	e.Data = braced(data)
	return e
}

// judgedReplies checks the result of a tool.
type judgedReplies struct {
	proxy.Replies
	d    *Downstream
	tool *Tool
}

// Next implements proxy.Replies.
func (j *judgedReplies) Next(until time.Time) (*wire.Message, error) {
	m, err := j.Replies.Next(until)
	if err != nil || m.Kind != wire.Result {
		return m, err
	}
	if _, err := m.Settle(nil); err != nil {
		return m, proxy.Errf(proxy.Internal, "an edited response is no message: %w", err)
	}
	if bad := j.d.misfits(j.tool, m); bad != nil {
		return nil, bad
	}
	return m, nil
}

// misfit is a result that its tool's outputSchema does not allow. REST callers get it all the same, beside the error.
type misfit struct {
	why    *proxy.Error
	result []byte
}

func (m *misfit) Error() string { return m.why.Error() }

// Unwrap gives what a client may see.
func (m *misfit) Unwrap() error { return m.why }

// misfits judges a tool's structured result; nil if it fits, or is none: a failure, or a question.
func (d *Downstream) misfits(tool *Tool, m *wire.Message) error {
	if m.ResultType.Is(m.Raw, "input_required") || m.ToolFailed() {
		return nil
	}
	got := wire.Get(m.Raw, m.Result, "structuredContent")
	if !got.Present() {
		return &misfit{proxy.Errf(proxy.ResultInvalid, "the tool has an outputSchema, but its result has no structuredContent"), m.Of(m.Result)}
	}
	v, err := d.check(tool, "outputSchema", tool.Output, got.Of(m.Raw))
	if v == nil || err != nil {
		return nil //nolint:nilerr // as with arguments
	}
	why := proxy.Errf(proxy.ResultInvalid, "the tool's structuredContent does not fit its outputSchema at %q: %s (%s)", v.Path, v.Message, v.Rule)
	return &misfit{violates(why, v), m.Of(m.Result)}
}
