package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// literalKind is what a value was written as.
type literalKind int

const (
	QuotedLiteral literalKind = iota // a string of a file
	wordLiteral                      // from a flag, the environment or the default table: any type
	integerLiteral
	floatLiteral
	booleanLiteral
	nullLiteral
	listLiteral
	tableLiteral
	dateLiteral
)

// String names the kind for errors.
func (k literalKind) String() string {
	switch k {
	case QuotedLiteral, wordLiteral:
		return "text"
	case integerLiteral:
		return "an integer"
	case floatLiteral:
		return "a number with a fraction"
	case booleanLiteral:
		return "a boolean"
	case nullLiteral:
		return "empty"
	case listLiteral:
		return "a list"
	case tableLiteral:
		return "a table"
	default:
		return "a date"
	}
}

// Literal is one value as it was written.
type Literal struct {
	Kind  literalKind
	Text  string    // decoded, of every scalar kind
	items []Literal // of a list
}

// word is the literal of a flag, a variable or a default.
func word(text string) Literal { return Literal{Kind: wordLiteral, Text: text} }

// scalarText is the text of any scalar: `PORT: 8080` is as good as
// `PORT: "8080"` where text is wanted of a map or a list.
func (v Literal) scalarText() (string, bool) {
	switch v.Kind {
	case QuotedLiteral, wordLiteral, integerLiteral, floatLiteral, booleanLiteral:
		return v.Text, true
	default:
		return "", false
	}
}

// plainText is the text of a literal that is text.
func (v Literal) plainText() (string, bool) {
	return v.Text, v.Kind == QuotedLiteral || v.Kind == wordLiteral
}

// integer is the value of an integer literal, or of a word that looks like one.
func (v Literal) integer() (int64, bool) {
	if v.Kind != integerLiteral && v.Kind != wordLiteral {
		return 0, false
	}
	text := strings.ReplaceAll(v.Text, "_", "")
	base := 0 // TOML's and YAML's prefixes
	if v.Kind == wordLiteral {
		text, base = v.Text, 10
	}
	n, err := strconv.ParseInt(text, base, 64)
	return n, err == nil
}

// maxShown bounds, in runes, what an error repeats of a value.
const maxShown = 60

// show is the literal for an error message. Secrets are never shown: their
// fields do not call it.
func (v Literal) show() string {
	switch v.Kind {
	case QuotedLiteral, wordLiteral:
		return strconv.Quote(Shorten(v.Text))
	case integerLiteral, floatLiteral, booleanLiteral, dateLiteral:
		return Shorten(v.Text)
	default:
		return v.Kind.String()
	}
}

func Shorten(text string) string {
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown]) + "…"
}
