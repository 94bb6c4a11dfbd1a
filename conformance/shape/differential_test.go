package shape

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goccy/go-json"
)

// How many messages are made of each kind: sound ones, and such with one thing changed; -rounds makes it as many times more.
const (
	soundEach  = 25
	brokenEach = 150
)

var rounds = flag.Int("rounds", 1, "compare so many times more messages with the official schemas")

// subject is a kind of message that is compared.
type subject struct {
	name    string
	from    Side
	answers string
	form    *form // of its params or result
	make    func(maker) map[string]any
	schema  func(message map[string]any) map[string]any
}

// excuse explains a kind of disagreement. A stricter one matches each problem of ours by its path and what was expected, a
// looser one the places where the official schema found something.
type excuse struct {
	looser    bool
	revisions string // prefixes, with "|" between; "" is all
	of        string // regular expression: the kinds of messages
	path      string // regular expression
	expected  string // the same, for stricter
	reason    string
	used      atomic.Int64
}

func (x *excuse) covers(revision, kind, path, expected string) bool {
	among := func(one string) bool { return strings.HasPrefix(revision, one) }
	return slices.ContainsFunc(strings.Split(x.revisions, "|"), among) && matches(x.of, kind) && matches(x.path, path) &&
		(x.looser || matches(x.expected, expected))
}

func matches(pattern, text string) bool {
	return pattern == "" || regexp.MustCompile(pattern).MatchString(text)
}

// tally counts what was compared in a revision.
type tally struct {
	definitions, sound, broken, bothRefuse, stricter, looser int

	unexplained map[string]string // an example of each kind of disagreement
}

// TestVerdictsAgree compares our verdicts with those of the official schemas, on messages that our definitions make and on
// such with one thing changed.
func TestVerdictsAgree(t *testing.T) {
	folder := specFolder(t)
	excuses := excuses()
	t.Run("revisions", func(t *testing.T) {
		for _, revision := range Revisions() {
			t.Run(revision, func(t *testing.T) {
				t.Parallel()
				agree(t, newOfficial(t, folder, revision), excuses)
			})
		}
	})
	for _, x := range excuses {
		if x.used.Load() == 0 {
			t.Errorf("nothing needs this excuse any more: %s", x.reason)
		}
	}
}

// agree compares the verdicts in one revision.
func agree(t *testing.T, o *official, excuses []*excuse) {
	book, err := open(o.revision)
	if err != nil {
		t.Fatal(err)
	}
	r := maker{rand.New(rand.NewPCG(20261122, uint64(book.number)))}
	sum := &tally{unexplained: map[string]string{}}
	for _, s := range subjects(book, o) {
		sum.definitions++
		for i := range *rounds * (soundEach + brokenEach) {
			message, how := s.make(r), "as made"
			if i >= *rounds*soundEach {
				how = r.mutate(message)
			}
			compare(t, o, s, message, how, sum, excuses)
		}
	}
	t.Logf("%d kinds of messages, %d sound, %d changed of which both refuse %d; explained: %d stricter, %d looser",
		sum.definitions, sum.sound, sum.broken, sum.bothRefuse, sum.stricter, sum.looser)
	for key, example := range sum.unexplained {
		t.Errorf("unexplained, %s: %s", key, example)
	}
}

// compare asks both about one message.
func compare(t *testing.T, o *official, s subject, message map[string]any, how string, sum *tally, excuses []*excuse) {
	t.Helper()
	raw, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	ours := Message(o.revision, s.from, raw, s.answers)
	theirs := o.judge(s.schema(message), raw)
	if how == "as made" {
		if sum.sound++; len(ours) > 0 {
			t.Errorf("%s %s: made by the definitions, refused by them: %v\n%s", o.revision, s.name, ours[0], raw)
		}
	} else {
		sum.broken++
	}
	switch {
	case len(ours) > 0 && theirs != nil:
		sum.bothRefuse++
	case len(ours) > 0:
		for _, p := range ours {
			if !excused(excuses, false, o.revision, s.name, []string{p.Path}, p.Expected) {
				sum.unexplained["stricter at "+plain(p.Path)+": "+p.Expected] = fmt.Sprintf("%s, %s\n%.500s", s.name, how, raw)
				return
			}
		}
		sum.stricter++
	case theirs != nil:
		paths := leafPaths(theirs)
		if !excused(excuses, true, o.revision, s.name, paths, "") {
			sum.unexplained["looser at "+plain(slices.MaxFunc(paths, func(a, b string) int { return len(a) - len(b) }))] =
				fmt.Sprintf("%s, %s\n%.500s\n%.500s", s.name, how, raw, theirs)
			return
		}
		sum.looser++
	}
}

// plain makes kinds of paths: without the numbers of elements.
func plain(path string) string { return regexp.MustCompile("[0-9]+").ReplaceAllString(path, "#") }

func excused(excuses []*excuse, looser bool, revision, kind string, paths []string, expected string) bool {
	for _, x := range excuses {
		if x.looser == looser && slices.ContainsFunc(paths, func(path string) bool { return x.covers(revision, kind, path, expected) }) {
			x.used.Add(1)
			return true
		}
	}
	return false
}

// subjects lists all kinds of messages of a revision that the official schema has, too.
func subjects(book *book, o *official) (out []subject) {
	for _, side := range []Side{Client, Server} {
		title := map[Side]string{Client: "Client", Server: "Server"}[side]
		for _, kind := range []string{"Request", "Notification"} {
			entries := book.requests[side]
			if kind == "Notification" {
				entries = book.notices[side]
			}
			theirs := o.methods(title + kind)
			for _, method := range sorted(entries) {
				if theirs[method] != "" {
					out = append(out, callSubject(book, o, side, kind, method, theirs[method]))
				}
			}
		}
	}
	for _, method := range sorted(book.results) {
		if refs := o.resultsOf(method); refs != nil {
			out = append(out, resultSubject(book, o, method, refs))
		}
	}
	if book.types["InputRequired"] != nil {
		out = append(out, questionSubject(book, o), answerSubject(book, o))
	}
	return append(out, errorSubject(book, o))
}

// questionSubject and answerSubject look closer at what stands deep within others.
func questionSubject(book *book, o *official) subject {
	s := resultSubject(book, o, "tools/call", o.resultsOf("tools/call"))
	s.name, s.form = "result of tools/call, a question", book.types["InputRequest"]
	s.make = func(m maker) map[string]any {
		questions := map[string]any{"one": m.make(s.form, 0)}
		if m.r.IntN(2) == 0 {
			fields := map[string]any{"one": m.make(book.types["Field"], 0), "two": m.make(book.types["Field"], 0)}
			form := map[string]any{"message": "a form", "requestedSchema": map[string]any{"type": "object", "properties": fields}}
			questions["two"] = map[string]any{"method": "elicitation/create", "params": form}
		}
		return map[string]any{"jsonrpc": "2.0", "id": "a", "result": map[string]any{"resultType": "input_required", "inputRequests": questions}}
	}
	return s
}

func answerSubject(book *book, o *official) subject {
	s := callSubject(book, o, Client, "Request", "tools/call", "CallToolRequest")
	call := s.make
	s.name, s.form = "tools/call of client, an answer", book.types["InputResponse"]
	s.make = func(m maker) map[string]any {
		out := call(m)
		out["params"].(map[string]any)["inputResponses"] = map[string]any{"one": m.make(s.form, 0)}
		return out
	}
	return s
}

func sorted(entries map[string]*entry) (out []string) {
	for method := range entries {
		out = append(out, method)
	}
	slices.Sort(out)
	return out
}

func callSubject(book *book, o *official, side Side, kind, method, theirs string) subject {
	e := book.requests[side][method]
	if kind == "Notification" {
		e = book.notices[side][method]
	}
	schema := map[string]any{"allOf": []any{o.ref("JSONRPC" + kind), o.ref(theirs)}}
	return subject{
		name: fmt.Sprint(method, " of ", side), from: side, form: e.form,
		make: func(m maker) map[string]any {
			out := map[string]any{"jsonrpc": "2.0", "method": method}
			if kind == "Request" {
				out["id"] = m.make(book.types["Id"], 9)
			}
			if e.must || m.r.IntN(2) == 0 {
				out["params"] = m.make(e.form, 0)
			}
			return out
		},
		schema: func(map[string]any) map[string]any { return schema },
	}
}

func resultSubject(book *book, o *official, method string, refs []any) subject {
	from := Client
	if book.requests[Client][method] != nil {
		from = Server
	}
	schema := func(of []any) map[string]any {
		return map[string]any{
			"allOf":      []any{o.ref("JSONRPCResultResponse", "JSONRPCResponse")},
			"properties": map[string]any{"result": map[string]any{"anyOf": of}},
		}
	}
	asking := 0 // the last one is InputRequiredResult, which the official schema does not keep apart from the others
	if f := book.results[method].form; f.kind == union && book.types["InputRequired"] != nil {
		asking = 1
	}
	return subject{
		name: "result of " + method, from: from, answers: method, form: book.results[method].form,
		make: func(m maker) map[string]any {
			f := book.results[method].form
			result := m.make(f, 0)
			for f.kind == union && result.(map[string]any)["resultType"] == "task" { // of the extension, see tasks.shape
				result = m.make(f, 0)
			}
			return map[string]any{"jsonrpc": "2.0", "id": m.make(book.types["Id"], 9), "result": result}
		},
		schema: func(message map[string]any) map[string]any {
			result, _ := message["result"].(map[string]any)
			if asking == 1 && result["resultType"] == "input_required" {
				return schema(refs[len(refs)-1:])
			}
			return schema(refs[:len(refs)-asking])
		},
	}
}

func errorSubject(book *book, o *official) subject {
	general := o.ref("JSONRPCErrorResponse", "JSONRPCError")
	special := map[string]string{}
	if book.revision >= "2025-11-25" {
		special["-32042"] = "URLElicitationRequiredError"
		special["-32020"], special["-32021"] = "HeaderMismatchError", "MissingRequiredClientCapabilityError"
		special["-32022"] = "UnsupportedProtocolVersionError"
	}
	return subject{
		name: "error", from: Server,
		make: func(m maker) map[string]any {
			fault := map[string]any{"code": json.Number(fmt.Sprint(-32600 - m.r.IntN(4))), "message": "it went wrong"}
			if n := m.r.IntN(2 + 2*len(book.faults)); n < len(book.faults) && book.faults[n].state == "error" {
				fault["code"] = json.Number(fmt.Sprint(book.faults[n].code))
				if f := book.faults[n].data; f != nil {
					fault["data"] = m.make(f, 0)
				}
			}
			out := map[string]any{"jsonrpc": "2.0", "id": m.make(book.types["Id"], 9), "error": fault}
			if book.revision >= "2025-11-25" && m.r.IntN(4) == 0 {
				delete(out, "id")
			}
			return out
		},
		schema: func(message map[string]any) map[string]any {
			fault, _ := message["error"].(map[string]any)
			if name := special[fmt.Sprint(fault["code"])]; o.defs[name] != nil {
				return map[string]any{"allOf": []any{general, o.ref(name)}}
			}
			return general
		},
	}
}
