package skills

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"dragoman/proxy/wire"
)

// formats has a text for each format of JSON Schema 2020-12 §7.3.
var formats = map[string]string{
	"date-time": "1999-12-31T12:00:00Z", "date": "1999-12-31", "time": "12:00:00Z", "duration": "PT1H",
	"email": "user@example.com", "idn-email": "user@example.com", "hostname": "example.com", "idn-hostname": "example.com",
	"ipv4": "192.0.2.1", "ipv6": "2001:db8::1", "uri": "https://example.com/", "iri": "https://example.com/", "url": "https://example.com/",
	"uri-reference": "/path", "iri-reference": "/path", "uri-template": "https://example.com/{id}", "uuid": "123e4567-e89b-42d3-a456-426614174000",
	"json-pointer": "/member", "relative-json-pointer": "0/member", "regex": "^a+$", "byte": "dGV4dA==",
}

// maxPattern bounds a pattern that is read, in bytes, and a text that is made for one.
const maxPattern = 1024

// text appends a text. It reports false if none is known.
func (m *maker) text(dst []byte, all subschemas, name string, nth int) ([]byte, bool) {
	least, _ := m.r.count(all, "minLength", maxText+1)
	most, has := m.r.count(all, "maxLength", maxText+1)
	if !has {
		most = maxText
	}
	if least > maxText || least > most {
		return dst, false
	}
	made := formats[m.r.text(m.r.keyword(all, "format"))]
	if pattern := m.r.text(m.r.keyword(all, "pattern")); pattern != "" {
		made = matching(pattern, made, least, most)
	}
	if made == "" || nth > 0 && !m.r.keyword(all, "pattern").Present() {
		if made = placeholder(name); nth > 0 {
			made = strings.TrimSuffix(made, ">") + strconv.Itoa(nth+1) + ">"
		}
		if len(made) > most {
			made = strings.Trim(made, "<>")
		}
	}
	if n := utf8.RuneCountInString(made); n < least {
		made += strings.Repeat("x", least-n)
	}
	made = string([]rune(made)[:min(most, utf8.RuneCountInString(made))])
	return wire.AppendText(dst, made), true
}

// matches reports whether a text matches the pattern of schemas, if they have one that RE2 can run.
func (m *maker) matches(all subschemas, text string) bool {
	pattern := m.r.text(m.r.keyword(all, "pattern"))
	if pattern == "" || len(pattern) > maxPattern || len(text) > maxText {
		return true
	}
	m.r.spend(maxSchema / 4) // to compile costs more than to read
	re, err := regexp.Compile(pattern)
	return err != nil || re.MatchString(text)
}

// matching returns a text that matches a pattern: wished if it does, else one made of the pattern; empty if none is found.
func matching(pattern, wished string, least, most int) string {
	if len(pattern) > maxPattern {
		return ""
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return ""
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return ""
	}
	if wished != "" && re.MatchString(wished) {
		return wished
	}
	for _, more := range [...]int{1, 0, least, most} { // how often to repeat what may be repeated without end
		w := writer{more: min(more, maxPattern)}
		w.append(tree)
		text := w.text.String()
		if n := utf8.RuneCountInString(text); !w.full && n >= least && n <= most && re.MatchString(text) {
			return text
		}
	}
	return ""
}

// writer writes a text that an expression matches.
type writer struct {
	text  strings.Builder
	more  int
	steps int
	full  bool // the text would be too long, or takes too many steps: an empty group may be repeated without end
}

func (w *writer) append(re *syntax.Regexp) {
	if w.steps++; w.text.Len() > maxPattern || w.steps > 16*maxPattern {
		w.full = true
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		w.text.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		w.text.WriteString(string(seenOf(re.Rune)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		w.text.WriteString("x")
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			w.append(sub)
		}
	case syntax.OpAlternate:
		w.append(re.Sub[0])
	case syntax.OpStar:
		w.times(re.Sub[0], w.more)
	case syntax.OpPlus:
		w.times(re.Sub[0], max(1, w.more))
	case syntax.OpQuest:
		w.times(re.Sub[0], min(1, w.more))
	case syntax.OpRepeat:
		n := max(re.Min, w.more)
		if re.Max >= 0 {
			n = min(n, re.Max)
		}
		w.times(re.Sub[0], n)
	}
}

func (w *writer) times(re *syntax.Regexp, n int) {
	for range n {
		if w.full {
			return
		}
		w.append(re)
	}
}

// seenOf returns a character of a class, given as pairs of bounds: a letter or a digit if it has one.
func seenOf(class []rune) rune {
	for _, wanted := range [...][2]rune{{'a', 'z'}, {'A', 'Z'}, {'1', '9'}, {'0', '0'}, {'!', '~'}} {
		for i := 0; i+1 < len(class); i += 2 {
			if low := max(class[i], wanted[0]); low <= min(class[i+1], wanted[1]) {
				return low
			}
		}
	}
	if len(class) > 0 && unicode.IsPrint(class[0]) {
		return class[0]
	}
	return 'x'
}
