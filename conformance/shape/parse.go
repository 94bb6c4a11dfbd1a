package shape

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parser reads one file of definitions into a notation.
type parser struct {
	file   string
	tokens []token
	at     int
	rule   string // of the definitions that follow
	into   *notation
}

// parse adds the definitions of a file.
func parse(file, source string, into *notation) error {
	tokens, err := lex(file, source)
	if err != nil {
		return err
	}
	p := parser{file: file, tokens: tokens, into: into}
	for p.peek().sort != end {
		if err := p.statement(); err != nil {
			return fmt.Errorf("shape: %s:%d: %w", file, p.peek().line, err)
		}
	}
	return nil
}

func (p *parser) peek() token { return p.tokens[p.at] }

// take goes on to the next token; the last one stays.
func (p *parser) take() token {
	t := p.tokens[p.at]
	if t.sort != end {
		p.at++
	}
	return t
}

// is says whether the token after n others is the mark or the word.
func (p *parser) is(n int, text string) bool {
	if p.at+n >= len(p.tokens) {
		return false
	}
	t := p.tokens[p.at+n]
	return (t.sort == mark || t.sort == word) && t.text == text
}

func (p *parser) skip(text string) bool {
	if !p.is(0, text) {
		return false
	}
	p.take()
	return true
}

func (p *parser) want(text string) error {
	if !p.skip(text) {
		return fmt.Errorf("%q is expected instead of %q", text, p.peek().text)
	}
	return nil
}

func (p *parser) word() (string, error) {
	if t := p.peek(); t.sort != word {
		return "", fmt.Errorf("a name is expected instead of %q", t.text)
	}
	return p.take().text, nil
}

func (p *parser) statement() error {
	if p.peek().sort == rule {
		p.rule = p.take().text
		return nil
	}
	head, err := p.word()
	if err != nil {
		return err
	}
	switch {
	case p.is(0, "="):
		return p.definition(head)
	case head == "request", head == "notification":
		return p.message(head == "notification")
	case head == "error", head == "withdrawn", head == "reserved":
		return p.fault(head)
	}
	return fmt.Errorf("%q begins no definition", head)
}

func (p *parser) definition(name string) error {
	if err := p.want("="); err != nil {
		return err
	}
	f, err := p.form()
	if err != nil {
		return err
	}
	if _, twice := p.into.types[name]; twice || isWord(name) {
		return fmt.Errorf("%s is defined already", name)
	}
	f.rule = p.rule
	p.into.types[name] = f
	return nil
}

// isWord says whether a name belongs to the notation itself.
func isWord(name string) bool {
	_, primitive := primitives[name]
	_, format := formats[name]
	return primitive || format
}

// message reads what follows "request" or "notification": method from side [range], ... { params: ... result: ... }
func (p *parser) message(notice bool) (err error) {
	m := message{notice: notice, from: map[Side]span{}, rule: p.rule}
	if m.method, err = p.word(); err != nil {
		return err
	}
	if err := p.want("from"); err != nil {
		return err
	}
	for more := true; more; more = p.skip(",") {
		side, err := p.word()
		if err != nil || side != "client" && side != "server" {
			return fmt.Errorf("%s comes from client or server, not from %q", m.method, side)
		}
		from := Server
		if side == "client" {
			from = Client
		}
		if m.from[from], err = p.span(); err != nil {
			return err
		}
	}
	body, err := p.primary()
	if err != nil {
		return err
	}
	m.needs = len(body.needs) > 0
	for _, part := range body.members {
		switch part.name {
		case "params":
			m.params = part.of
		case "result":
			m.result = part.of
		default:
			return fmt.Errorf("a message is made of params and result, not of %q", part.name)
		}
	}
	if m.params == nil || (m.result == nil) != notice {
		return fmt.Errorf("%s lacks its params, or a request its result, or a notification has one", m.method)
	}
	p.into.messages = append(p.into.messages, m)
	return nil
}

// fault reads what follows "error", "withdrawn" or "reserved": code name [range] [{ data: ... }]
func (p *parser) fault(state string) (err error) {
	f := fault{state: state, rule: p.rule}
	code, err := p.word()
	if err != nil {
		return err
	}
	low, high, pair := strings.Cut(code, "..")
	if f.code, err = strconv.Atoi(low); err != nil {
		return err
	}
	if f.to = f.code; pair {
		if f.to, err = strconv.Atoi(high); err != nil {
			return err
		}
	}
	for p.peek().sort == word {
		f.name = strings.TrimSpace(f.name + " " + p.take().text)
	}
	if f.in, err = p.span(); err != nil {
		return err
	}
	if p.is(0, "{") {
		body, err := p.primary()
		if err != nil || len(body.members) != 1 || body.members[0].name != "data" {
			return fmt.Errorf("an error is followed by its data (%w)", err)
		}
		f.data = body.members[0].of
		f.data.rule = p.rule
	}
	p.into.faults = append(p.into.faults, f)
	return nil
}

// span reads a range if there is one.
func (p *parser) span() (span, error) {
	s := ever()
	if p.peek().sort != since {
		return s, nil
	}
	from, to, open := strings.Cut(p.take().text, "..")
	if !open {
		to = from
	}
	for _, end := range []struct {
		revision string
		at       *int
	}{{from, &s.first}, {to, &s.last}} {
		if end.revision == "" {
			continue
		}
		if *end.at = slices.Index(revisions, end.revision); *end.at < 0 {
			return s, fmt.Errorf("%q is no revision", end.revision)
		}
	}
	if s.first > s.last {
		return s, fmt.Errorf("a range of revisions goes upwards")
	}
	return s, nil
}
