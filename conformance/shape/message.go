package shape

import (
	"fmt"
)

// Revisions lists the revisions that are known, oldest first.
func Revisions() []string {
	return append([]string(nil), revisions...)
}

// Message validates one JSON-RPC message of a revision: from is who has sent it, answers the method of the request that a
// response answers, "" if it is not known. Of what is wrong it tells at most 20 things; nil is a sound message. An array is
// a batch, which 2025-03-26 alone has. raw is not bounded here, its depth is (128).
func Message(revision string, from Side, raw []byte, answers string) []Problem {
	return judge(revision, raw, func(c *checker, v any) {
		list, isBatch := v.([]any)
		if !isBatch {
			c.message(from, v, answers, nil)
			return
		}
		c.batch(from, list, answers)
	})
}

// Result validates a result alone, as the answer to method; "" is a method that is not known. Paths begin at the result.
func Result(revision, method string, raw []byte) []Problem {
	return judge(revision, raw, func(c *checker, v any) { c.result(method, v, nil) })
}

// Params validates the params of a request or notification alone; raw may be empty if there are none. Paths begin at the
// params.
func Params(revision string, from Side, method string, raw []byte) []Problem {
	if len(raw) > 0 {
		return judge(revision, raw, func(c *checker, v any) { c.paramsOf(from, method, v) })
	}
	return judge(revision, []byte("{}"), func(c *checker, _ any) {
		if e, _ := c.find(from, method); e != nil && e.must {
			c.paramsOf(from, method, map[string]any{})
		}
	})
}

// judge decodes and runs a check.
func judge(revision string, raw []byte, check func(*checker, any)) []Problem {
	book, err := open(revision)
	if err != nil {
		return []Problem{{Expected: "a revision that is known", Got: err.Error(), Rule: "basic"}}
	}
	c := &checker{book: book, most: maxProblems, rule: "basic §Messages"}
	if v, ok := decode(raw, c); ok {
		check(c, v)
	}
	return c.problems
}

// batch checks an array of messages: requests and notifications, or responses.
func (c *checker) batch(from Side, list []any, answers string) {
	c.rule = "basic §Batching"
	if c.book.revision != "2025-03-26" {
		c.rule = "basic §Messages"
		c.say(nil, "one message; batches belong to 2025-03-26", got(list))
		return
	}
	if len(list) == 0 {
		c.say(nil, "at least one message", "an empty array")
	}
	responses := 0
	for i, one := range list {
		at := (*place)(nil).item(i)
		if of, ok := one.(map[string]any); ok && of["method"] == nil {
			responses++
		} else if ok && of["method"] == "initialize" {
			c.under("basic/lifecycle §Initialization", func() {
				c.say(at.member("method"), "initialize by itself, not in a batch", "a batch")
			})
		}
		c.message(from, one, answers, at)
	}
	if responses > 0 && responses < len(list) {
		c.say(nil, "requests and notifications, or responses", "both")
	}
}

// message checks one message.
func (c *checker) message(from Side, v any, answers string, at *place) {
	of, ok := v.(map[string]any)
	if !ok {
		c.say(at, "an object", got(v))
		return
	}
	_, hasMethod := of["method"]
	_, hasResult := of["result"]
	_, hasError := of["error"]
	switch {
	case hasMethod:
		c.call(from, of, at)
	case hasResult:
		c.check(c.book.types["Response"], v, at)
		c.silent(from, at)
		if _, ok := of["result"].(map[string]any); ok {
			c.result(answers, of["result"], at.member("result"))
		}
	case hasError:
		c.check(c.book.types["ErrorResponse"], v, at)
		c.silent(from, at)
		c.fault(from, of["error"], at.member("error"))
	default:
		c.say(at, "method, result or error is required", "nothing")
	}
}

// silent tells of a client that answers where servers do not ask: since 2026-07-28.
func (c *checker) silent(from Side, at *place) {
	if from == Client && len(c.book.requests[Server]) == 0 {
		c.under("basic/transports §Messages", func() { c.say(at, "no response from a client: servers send no requests", "a response") })
	}
}

// call checks a request or a notification. Methods that are not known belong to extensions; those that are known of others
// do not belong here.
func (c *checker) call(from Side, of map[string]any, at *place) {
	method, _ := of["method"].(string)
	e, notice := c.find(from, method)
	_, hasID := of["id"]
	if e == nil {
		notice = !hasID
	}
	envelope, other := "Request", "RequestParams"
	if notice {
		envelope, other = "Notification", "NotificationParams"
	}
	c.check(c.book.types[envelope], of, at)
	if !notice && len(c.book.requests[from]) == 0 {
		c.under("basic/transports §Messages", func() {
			c.say(at.member("method"), "no request from a "+from.String()+": what it asks stands in an input_required result", "a request")
		})
		return
	}
	if e == nil {
		if where := c.book.said.known(method); where != "" {
			c.say(at.member("method"), fmt.Sprintf("a method of %ss in %s", from, c.book.revision), method+", which belongs to "+where)
			return
		}
		params := c.book.types[other]
		e = &entry{form: params, must: required(params)}
	}
	params, there := of["params"]
	switch {
	case there:
		c.under(e.rule, func() { c.check(e.form, params, at.member("params")) })
	case e.must:
		c.under(e.rule, func() { c.say(at, "params is required: "+e.form.String(), "nothing") })
	}
}

// find looks a method up, and says whether it is a notification.
func (c *checker) find(from Side, method string) (e *entry, notice bool) {
	if e = c.book.requests[from][method]; e != nil {
		return e, false
	}
	e = c.book.notices[from][method]
	return e, e != nil
}

// paramsOf checks params alone.
func (c *checker) paramsOf(from Side, method string, v any) {
	e, _ := c.find(from, method)
	if e == nil {
		e = &entry{form: &form{kind: object}}
		if where := c.book.said.known(method); where != "" {
			c.say(nil, fmt.Sprintf("a method of %ss in %s", from, c.book.revision), method+", which belongs to "+where)
		}
	}
	c.under(e.rule, func() { c.check(e.form, v, nil) })
}

// result checks a result as the answer to a method.
func (c *checker) result(method string, v any, at *place) {
	e := c.book.results[method]
	if e == nil {
		e = &entry{form: c.book.types["AnyResult"]}
	}
	c.under(e.rule, func() { c.check(e.form, v, at) })
}

// fault checks an error by its code; Response has seen to the rest.
func (c *checker) fault(from Side, v any, at *place) {
	of, _ := v.(map[string]any)
	code, ok := integerOf(of["code"])
	if !ok || from != Server {
		return
	}
	reserved := ""
	for _, f := range c.book.faults {
		if code < f.code || code > f.to {
			continue
		}
		switch f.state {
		case "withdrawn":
			c.under(f.rule, func() {
				c.say(at.member("code"), fmt.Sprintf("not %d (%s), which %s has withdrawn", code, f.name, c.book.revision), got(of["code"]))
			})
			return
		case "error":
			c.data(f, of, at)
			return
		}
		reserved = f.rule
	}
	if reserved != "" {
		c.under(reserved, func() {
			c.say(at.member("code"), "no code of the range that the specification keeps for itself, unless it is defined", got(of["code"]))
		})
	}
}

// data checks what an error says beside its message.
func (c *checker) data(f fault, of map[string]any, at *place) {
	data, there := of["data"]
	switch {
	case f.data == nil:
	case there:
		c.under(f.rule, func() { c.check(f.data, data, at.member("data")) })
	default:
		c.under(f.rule, func() { c.say(at, fmt.Sprintf("data is required: that of %s (%d)", f.name, f.code), "nothing") })
	}
}
