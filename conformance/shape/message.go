package shape

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-json"
)

// Revisions lists the known revisions, oldest first.
func Revisions() []string { return slices.Clone(revisions) }

// Message validates one JSON-RPC message of a revision. from is its sender; answers is the method of the request that a response
// answers, "" if it is not known. It returns at most 20 problems; nil is a sound message. An array is a batch, which only 2025-03-26
// has. The size of raw is not bounded here, its depth is (128).
func Message(revision string, from Side, raw []byte, answers string) []Problem {
	s, err := open(revision)
	if err != nil {
		return []Problem{{Expected: "a known revision", Got: err.Error(), Rule: "basic"}}
	}
	c := &checker{schema: s, rule: "basic §Messages"}
	if v, ok := decode(raw, c); ok {
		if list, isBatch := v.([]any); isBatch {
			c.batch(from, list, answers)
		} else {
			c.message(from, v, answers, nil)
		}
	}
	return c.problems
}

// batch checks an array of messages: requests and notifications, or responses.
func (c *checker) batch(from Side, list []any, answers string) {
	if c.revision != "2025-03-26" {
		c.say(nil, "one message; batches belong to 2025-03-26", got(list))
		return
	}
	c.rule = "basic §Batching"
	if len(list) == 0 {
		c.say(nil, "at least one message", "an empty array")
	}
	responses := 0
	for i, one := range list {
		at := (*place)(nil).item(i)
		if of, ok := one.(object); ok && of["method"] == nil {
			responses++
		} else if ok && of["method"] == "initialize" {
			c.under("basic/lifecycle §Initialization", at.member("method"), "initialize by itself, not in a batch", "a batch")
		}
		c.message(from, one, answers, at)
	}
	if responses > 0 && responses < len(list) {
		c.say(nil, "requests and notifications, or responses", "both")
	}
}

// message checks one message.
func (c *checker) message(from Side, v any, answers string, at *place) {
	of, ok := v.(object)
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
		c.without(of, at, "error")
		c.envelope(of, at, "JSONRPCResultResponse", "JSONRPCResponse")
		c.silent(from, at)
		if _, ok := of["result"].(object); ok {
			c.result(answers, of["result"], at.member("result"))
		}
	case hasError:
		c.envelope(of, at, "JSONRPCErrorResponse", "JSONRPCError")
		c.silent(from, at)
		c.fault(from, of, at)
	default:
		c.say(at, "method, result or error is required", "nothing")
	}
}

// without reports members that must not be there, which the schemas leave open.
func (c *checker) without(of object, at *place, names ...string) {
	for _, name := range names {
		if v, there := of[name]; there {
			c.say(at.member(name), "no "+name+" here", got(v))
		}
	}
}

// envelope checks what JSON-RPC asks for, by the first of the definitions that the revision has. Results are checked by their method.
func (c *checker) envelope(of object, at *place, definitions ...string) {
	if _, ok := of["result"].(object); ok {
		of = maps.Clone(of)
		of["result"] = object{"resultType": ""}
	}
	for _, name := range definitions {
		if c.defs[name] != nil {
			c.check(name, of, at)
			return
		}
	}
}

// silent reports a client that answers where servers do not ask: since 2026-07-28.
func (c *checker) silent(from Side, at *place) {
	if from == Client && len(c.requests[Server]) == 0 {
		c.under("basic/transports §Messages", at, "no response from a client: servers send no requests", "a response")
	}
}

// call checks a request or a notification. Unknown methods belong to extensions; methods of the other side or of another revision
// are wrong here.
func (c *checker) call(from Side, of object, at *place) {
	method, _ := of["method"].(string)
	definition := c.requests[from][method]
	_, isRequest := of["id"]
	if definition != "" {
		isRequest = true
	} else if definition = c.notices[from][method]; definition != "" {
		isRequest = false
	}
	if isRequest {
		c.without(of, at, "result", "error")
	} else {
		c.without(of, at, "id", "result", "error")
	}
	c.rule = section(method, "basic §Messages")
	envelope := "JSONRPCNotification"
	if isRequest {
		envelope = "JSONRPCRequest"
	}
	switch where := known(method); {
	case isRequest && len(c.requests[from]) == 0:
		c.check(envelope, of, at)
		c.under("basic/transports §Messages", at.member("method"), "no request from a "+from.String()+": what it asks stands in an input_required result", "a request")
		return
	case definition == "" && where != "":
		c.check(envelope, of, at)
		c.say(at.member("method"), fmt.Sprintf("a method of %ss in %s", from, c.revision), method+", which belongs to "+where)
		return
	}
	c.check(envelope, of, at)
	if definition != "" {
		c.check(definition, of, at)
	}
}

// result checks a result as the answer to a method.
func (c *checker) result(method string, v any, at *place) {
	c.rule = section(method, "basic §ResultType")
	definition := c.results[method]
	if definition == "" {
		definition = "Result"
	}
	c.check(definition, v, at)
}

// Error codes of 2026-07-28 (basic §Error Codes).
const reservedFrom, reservedTo = -32099, -32020

var withdrawn = map[int]string{-32002: "resource not found", -32042: "URL elicitation required"}

// faults are the definitions of error codes.
var faults = map[int]string{
	-32020: "HeaderMismatchError", -32021: "MissingRequiredClientCapabilityError", -32022: "UnsupportedProtocolVersionError", -32042: "URLElicitationRequiredError",
}

// fault checks an error of a server by its code.
func (c *checker) fault(from Side, of object, at *place) {
	e, _ := of["error"].(object)
	code, ok := integerOf(e["code"])
	if !ok || from != Server {
		return
	}
	c.rule = "basic §Error Codes"
	place := at.member("error").member("code")
	switch definition := faults[code]; {
	case c.defs[definition] != nil:
		c.check(definition, of, at)
	case c.revision < "2026-07-28":
	case withdrawn[code] != "":
		c.say(place, fmt.Sprintf("not %d (%s), which %s has withdrawn", code, withdrawn[code], c.revision), got(e["code"]))
	case code >= reservedFrom && code <= reservedTo:
		c.say(place, "no code of the range that the specification keeps for itself, unless it is defined", got(e["code"]))
	}
}

// check validates a value and enters what is wrong, in the order of the places. A member with a value that the schema does not list
// comes before what its object lacks, which it often explains.
func (c *checker) check(definition string, v any, at *place) {
	failed, err := c.validate(tamed(v), definition)
	if err != nil {
		c.say(at, "a schema that can be compiled", err.Error())
	}
	if failed == nil {
		return
	}
	all := judge{c.schema, v}.findings(failed)
	slices.SortStableFunc(all, func(a, b finding) int {
		of := slices.CompareFunc(a.owner(), b.owner(), compareTokens)
		if of == 0 && a.wrong != b.wrong {
			return cmp.Compare(a.wrong, b.wrong)
		}
		return cmp.Or(of, slices.CompareFunc(a.at, b.at, compareTokens))
	})
	before := c.rule
	for _, f := range all {
		where, value := at, v
		for _, token := range f.at {
			where, value = step(where, value, token)
		}
		text := got(value)
		switch {
		case f.missing != "":
			text = "nothing"
		case f.name != "":
			text = "the name " + shorten(f.name, 60)
		}
		c.rule = f.section(before)
		c.say(where, f.expected, text)
	}
	c.rule = before
}

// known returns where a method is defined: its sender, and the revisions; "" if it is unknown.
func known(method string) string {
	var where []string
	for _, side := range []Side{Client, Server} {
		var in []string
		for _, revision := range revisions {
			if s, err := open(revision); err == nil && (s.requests[side][method] != "" || s.notices[side][method] != "") {
				in = append(in, revision)
			}
		}
		switch len(in) {
		case 0:
		case 1:
			where = append(where, side.String()+"s of "+in[0])
		default:
			where = append(where, side.String()+"s of "+in[0]+" to "+in[len(in)-1])
		}
	}
	return strings.Join(where, ", ")
}

// tamed replaces numbers with huge exponents, with which the library would calculate, by numbers that compare alike.
func tamed(v any) any {
	switch v := v.(type) {
	case object:
		out := make(object, len(v))
		for name, one := range v {
			out[name] = tamed(one)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[i] = tamed(one)
		}
		return out
	case json.Number:
		return tame(v)
	}
	return v
}
