package shape

import (
	"fmt"
	"strings"
)

// sort is what a token is.
type sort int

const (
	end    sort = iota
	word        // a name, a number, a pair of limits "0..1", a spread "...Name"
	quoted      // a string, without its quotes
	mark        // one of { } ( ) [ ] : ? = | , *
	since       // a range of revisions, without its @
	rule        // the rest of a line behind §, at the start of the line
	aside       // the same behind something else
)

// token is a piece of the notation.
type token struct {
	sort sort
	text string
	line int
}

const marks = "{}()[]:?=|,*"

// lex cuts a file into tokens. White space and ";" separate, "#" begins a comment.
func lex(file, source string) ([]token, error) {
	var out []token
	for n, line := range strings.Split(source, "\n") {
		first := true
		for line = strings.TrimLeft(line, " \t;"); line != "" && line[0] != '#'; line = strings.TrimLeft(line, " \t;") {
			t, rest, err := next(line, first)
			if err != nil {
				return nil, fmt.Errorf("shape: %s:%d: %w", file, n+1, err)
			}
			t.line, first, line = n+1, false, rest
			out = append(out, t)
		}
	}
	return append(out, token{sort: end, line: strings.Count(source, "\n") + 1}), nil
}

// next takes the first token of a line.
func next(line string, first bool) (token, string, error) {
	switch c := line[0]; {
	case c == '"':
		to := strings.IndexByte(line[1:], '"')
		if to < 0 {
			return token{}, "", fmt.Errorf("a quotation mark is missing")
		}
		return token{sort: quoted, text: line[1 : to+1]}, line[to+2:], nil
	case strings.HasPrefix(line, "§"):
		at := token{sort: aside, text: strings.TrimSpace(strings.TrimPrefix(line, "§"))}
		if first {
			at.sort = rule
		}
		return at, "", nil
	case c == '@':
		text, rest := cut(line[1:])
		return token{sort: since, text: text}, rest, nil
	case strings.IndexByte(marks, c) >= 0:
		return token{sort: mark, text: line[:1]}, line[1:], nil
	}
	text, rest := cut(line)
	if text == "" {
		return token{}, "", fmt.Errorf("%q has no meaning here", line[:1])
	}
	return token{sort: word, text: text}, rest, nil
}

// cut divides behind the characters of a word.
func cut(line string) (head, rest string) {
	to := strings.IndexAny(line, marks+" \t;\"#@")
	if to < 0 {
		to = len(line)
	}
	return line[:to], line[to:]
}
