package main

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// literalKind is what a value was written as.
type literalKind int

const (
	quotedLiteral literalKind = iota // a string of a file
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
	case quotedLiteral, wordLiteral:
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

// literal is one value as it was written.
type literal struct {
	kind  literalKind
	text  string    // decoded, of every scalar kind
	items []literal // of a list
}

// word is the literal of a flag, a variable or a default.
func word(text string) literal { return literal{kind: wordLiteral, text: text} }

// scalarText is the text of any scalar: `PORT: 8080` is as good as
// `PORT: "8080"` where text is wanted of a map or a list.
func (v literal) scalarText() (string, bool) {
	switch v.kind {
	case quotedLiteral, wordLiteral, integerLiteral, floatLiteral, booleanLiteral:
		return v.text, true
	default:
		return "", false
	}
}

// plainText is the text of a literal that is text.
func (v literal) plainText() (string, bool) {
	return v.text, v.kind == quotedLiteral || v.kind == wordLiteral
}

// integer is the value of an integer literal, or of a word that looks like one.
func (v literal) integer() (int64, bool) {
	if v.kind != integerLiteral && v.kind != wordLiteral {
		return 0, false
	}
	text := strings.ReplaceAll(v.text, "_", "")
	base := 0 // TOML's and YAML's prefixes
	if v.kind == wordLiteral {
		text, base = v.text, 10
	}
	n, err := strconv.ParseInt(text, base, 64)
	return n, err == nil
}

// maxShown bounds, in runes, what an error repeats of a value.
const maxShown = 60

// show is the literal for an error message. Secrets are never shown: their
// fields do not call it.
func (v literal) show() string {
	switch v.kind {
	case quotedLiteral, wordLiteral:
		return strconv.Quote(shorten(v.text))
	case integerLiteral, floatLiteral, booleanLiteral, dateLiteral:
		return shorten(v.text)
	default:
		return v.kind.String()
	}
}

func shorten(text string) string {
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown]) + "…"
}
