// Package value has what all of the configuration shares: literals, secrets, sources and errors.
package value

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// LiteralKind is the form in which a value was written.
type LiteralKind int

// The kinds of literals.
const (
	QuotedLiteral LiteralKind = iota // a string of a file
	WordLiteral                      // from a flag, the environment or the default table: any type
	IntegerLiteral
	FloatLiteral
	BooleanLiteral
	NullLiteral
	ListLiteral
	TableLiteral
	DateLiteral
)

// String returns the kind for error messages.
func (k LiteralKind) String() string {
	return [...]string{"text", "text", "an integer", "a number with a fraction", "a boolean", "empty", "a list", "a table", "a date"}[k]
}

// Literal is one value as it was written.
type Literal struct {
	Kind  LiteralKind
	Text  string    // decoded text of a scalar
	Items []Literal // of a list
}

// Word returns the literal of a flag, a variable or a default.
func Word(text string) Literal { return Literal{Kind: WordLiteral, Text: text} }

// ScalarText returns the text of any scalar: where a map or a list needs text, `PORT: 8080` is as good as `PORT:
// "8080"`.
func (v Literal) ScalarText() (string, bool) {
	switch v.Kind {
	case QuotedLiteral, WordLiteral, IntegerLiteral, FloatLiteral, BooleanLiteral:
		return v.Text, true
	default:
		return "", false
	}
}

// PlainText returns the text of a literal that was written as text.
func (v Literal) PlainText() (string, bool) {
	return v.Text, v.Kind == QuotedLiteral || v.Kind == WordLiteral
}

// Integer returns the value of an integer literal, or of a word that looks like one.
func (v Literal) Integer() (int64, bool) {
	if v.Kind != IntegerLiteral && v.Kind != WordLiteral {
		return 0, false
	}
	text := strings.ReplaceAll(v.Text, "_", "")
	base := 0 // with the prefixes of TOML and YAML
	if v.Kind == WordLiteral {
		text, base = v.Text, 10
	}
	n, err := strconv.ParseInt(text, base, 64)
	return n, err == nil
}

// maxShown bounds how much of a value an error repeats, in runes.
const maxShown = 60

// Show returns the literal for an error message. The fields of secrets must not call it.
func (v Literal) Show() string {
	switch v.Kind {
	case QuotedLiteral, WordLiteral:
		return strconv.Quote(Shorten(v.Text))
	case IntegerLiteral, FloatLiteral, BooleanLiteral, DateLiteral:
		return Shorten(v.Text)
	default:
		return v.Kind.String()
	}
}

// Shorten cuts a text to what an error message may repeat.
func Shorten(text string) string {
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown]) + "…"
}
