package schema

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxPattern  = 10_000 // instructions of one compiled pattern
	maxPatterns = 50_000 // of all of a schema's
)

// pattern is a regular expression of a schema. JSON Schema demands ECMA-262, most of which RE2 runs in linear time. A pattern that
// it cannot run has no re and matches everything.
type pattern struct {
	source string
	re     *regexp.Regexp
	size   int // instructions, estimated
}

// String returns the pattern as it stands in the schema.
func (p *pattern) String() string { return p.source }

// MatchString implements the validator's Regexp.
func (p *pattern) MatchString(s string) bool { return p.re == nil || p.re.MatchString(s) }

// patterns compiles the patterns of one schema, each once.
type patterns struct {
	known map[string]*pattern
	left  int
}

func newPatterns() *patterns { return &patterns{known: map[string]*pattern{}, left: maxPatterns} }

// compile implements the validator's RegexpEngine. It never fails: see pattern.
func (ps *patterns) compile(source string) (js.Regexp, error) {
	if p := ps.known[source]; p != nil {
		return p, nil
	}
	p := &pattern{source: source}
	ps.known[source] = p
	text := fromECMA(source)
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return p, nil
	}
	if p.size = measure(tree); p.size > maxPattern || p.size > ps.left {
		return p, nil
	}
	if p.re, err = regexp.Compile(text); err == nil {
		ps.left -= p.size
	}
	return p, nil
}

// measure estimates the instructions of a compiled pattern without expanding its repetitions.
func measure(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/8
	for _, sub := range re.Sub {
		n = min(n+measure(sub), 1<<30)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min, re.Max, 1), 1<<30)
	}
	return n
}

// ecmaSpace is \s of ECMA-262, for use in a class.
const ecmaSpace = `\t\n\v\f\r \x{a0}\x{feff}\x{2028}\x{2029}\p{Zs}`

// fromECMA translates to RE2 what ECMA-262 spells otherwise: \uXXXX, \u{X}, \cX, \s, and the classes [] and [^].
func fromECMA(in string) string {
	var out strings.Builder
	class := false
	for i := 0; i < len(in); i++ {
		c := in[i]
		switch {
		case c == '\\' && i+1 < len(in):
			text, n := escape(in[i:], class)
			out.WriteString(text)
			i += n - 1
		case c == '[' && class:
			out.WriteString(`\[`)
		case c == '[':
			if strings.HasPrefix(in[i:], "[^]") {
				out.WriteString(`[\s\S]`)
				i += 2
			} else if strings.HasPrefix(in[i:], "[]") {
				out.WriteString(`[^\s\S]`)
				i++
			} else {
				class = true
				out.WriteByte(c)
			}
		case c == ']' && class:
			class = false
			out.WriteByte(c)
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

// escape translates the escape at the beginning of in, and returns its length in bytes.
func escape(in string, class bool) (string, int) {
	switch c := in[1]; {
	case c == 'u' && len(in) > 3 && in[2] == '{':
		if end := strings.IndexByte(in, '}'); end > 3 {
			return `\x` + in[2:end+1], end + 1
		}
	case c == 'u' && len(in) >= 6:
		if _, err := strconv.ParseUint(in[2:6], 16, 16); err == nil {
			return `\x{` + in[2:6] + `}`, 6
		}
	case c == 'c' && len(in) >= 3 && (in[2]|0x20 >= 'a' && in[2]|0x20 <= 'z'):
		return `\x{` + strconv.FormatInt(int64(in[2]&0x1f), 16) + `}`, 3
	case c == 's' && class:
		return ecmaSpace, 2
	case c == 's':
		return `[` + ecmaSpace + `]`, 2
	case c == 'S' && !class:
		return `[^` + ecmaSpace + `]`, 2
	}
	return in[:2], 2
}
