package shape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

// maxProblems limits the problems of one message.
const maxProblems = 20

// Problem is one thing that is wrong with a message.
type Problem struct {
	Path     string // JSON pointer (RFC 6901) from the root, such as "/result/tools/0/inputSchema"; of what is missing, to where it lacks
	Expected string // such as `a string`, `one of "user", "assistant"`, `resultType is required: "complete"`
	Got      string // such as `a number: 12`, `nothing`; at most about 80 bytes
	Rule     string // where it stands, such as "2026-07-28 basic §ResultType"; that of the whole definition if the member has none
}

// String returns the problem in one line.
func (p Problem) String() string {
	where := p.Path
	if where == "" {
		where = "the message"
	}
	return fmt.Sprintf("%s: %s; got %s (%s)", where, p.Expected, p.Got, p.Rule)
}

// place is a place in a message. nil is its root.
type place struct {
	up    *place
	key   string
	index int // of an array's element; its key is empty
	list  bool
}

func (p *place) member(name string) *place { return &place{up: p, key: name} }
func (p *place) item(i int) *place         { return &place{up: p, index: i, list: true} }

// String is the JSON pointer, of which long names are shortened.
func (p *place) String() string {
	if p == nil {
		return ""
	}
	token := strconv.Itoa(p.index)
	if !p.list {
		token = strings.ReplaceAll(strings.ReplaceAll(shorten(p.key, 100), "~", "~0"), "/", "~1")
	}
	return p.up.String() + "/" + token
}

// checker gathers what is wrong with a message.
type checker struct {
	*schema
	rule     string // section of what is being checked
	problems []Problem
}

// say records a problem, unless the same is recorded already.
func (c *checker) say(at *place, expected, got string) {
	if c.full() {
		return
	}
	p := Problem{Path: at.String(), Expected: expected, Got: got, Rule: c.revision + " " + c.rule}
	if !slices.ContainsFunc(c.problems, func(q Problem) bool { return q.Path == p.Path && q.Expected == p.Expected }) {
		c.problems = append(c.problems, p)
	}
}

func (c *checker) full() bool { return len(c.problems) >= maxProblems }

// under records a problem with a section of its own.
func (c *checker) under(rule string, at *place, expected, got string) {
	before := c.rule
	c.rule = rule
	c.say(at, expected, got)
	c.rule = before
}

// got describes a value.
func got(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case string:
		return "a string: " + strconv.Quote(shorten(v, 50))
	case json.Number:
		return "a number: " + shorten(string(v), 50)
	case []any:
		if len(v) == 0 {
			return "an empty array"
		}
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		if len(v) == 0 {
			return "an empty object"
		}
		return shorten("an object with "+strings.Join(names(v), ", "), 76)
	}
	return "something else"
}

// names returns the names of the members, sorted.
func names(v map[string]any) []string {
	out := make([]string, 0, len(v))
	for name := range v {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// shorten cuts at about n bytes, between characters.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
