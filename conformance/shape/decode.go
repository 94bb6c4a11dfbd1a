package shape

import (
	"bytes"
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-json"
)

// maxDepth limits the nesting of objects and arrays.
const maxDepth = 128

// decode reads JSON into map[string]any, []any, string, json.Number, bool and nil. A repeated member is a problem;
// the last one counts. ok is false for what is not JSON (RFC 8259), or nested too deeply.
func decode(raw []byte, c *checker) (v any, ok bool) {
	if !utf8.Valid(raw) {
		c.say(nil, "JSON in UTF-8", "bytes that are no UTF-8")
		return nil, false
	}
	s := scanner{raw: raw, c: c}
	s.space()
	err := s.value(nil, 0)
	if s.space(); err == nil && s.at != len(raw) {
		err = s.wrong("the end")
	}
	if err != nil {
		c.say(nil, "one JSON value ("+err.Error()+")", cmp.Or(shorten(string(raw), 60), "nothing"))
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		c.say(nil, "JSON that can be decoded", err.Error())
		return nil, false
	}
	return v, true
}

// scanner checks the grammar, about which decoders are lenient, the depth, and repeated members, which a decoded value
// does not show any more.
type scanner struct {
	raw []byte
	at  int
	c   *checker
}

func (s *scanner) wrong(expected string) error {
	return fmt.Errorf("at byte %d %s is expected", s.at, expected)
}

func (s *scanner) peek() byte {
	if s.at < len(s.raw) {
		return s.raw[s.at]
	}
	return 0
}

func (s *scanner) space() {
	for s.at < len(s.raw) && bytes.IndexByte([]byte(" \t\r\n"), s.raw[s.at]) >= 0 {
		s.at++
	}
}

// skip passes a character and the white space after it.
func (s *scanner) skip(c byte) bool {
	if s.peek() != c {
		return false
	}
	s.at++
	s.space()
	return true
}

func (s *scanner) value(at *place, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("at most %d objects and arrays in one another", maxDepth)
	}
	switch c := s.peek(); c {
	case '{':
		return s.object(at, depth)
	case '[':
		return s.array(at, depth)
	case '"':
		return s.text()
	case 't', 'f', 'n':
		for _, name := range []string{"true", "false", "null"} {
			if bytes.HasPrefix(s.raw[s.at:], []byte(name)) {
				s.at += len(name)
				return nil
			}
		}
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return s.number()
		}
	}
	return s.wrong("a value")
}

func (s *scanner) object(at *place, depth int) error {
	s.skip('{')
	seen := map[string]bool{}
	for first := true; !s.skip('}'); first = false {
		if !first && !s.skip(',') {
			return s.wrong(`"," or "}"`)
		}
		from := s.at
		if err := s.text(); err != nil {
			return err
		}
		var name string
		if err := json.Unmarshal(s.raw[from:s.at], &name); err != nil {
			return s.wrong("a name")
		}
		here := at.member(name)
		if seen[name] {
			s.c.say(here, "one member of this name", "two")
		}
		seen[name] = true
		if s.space(); !s.skip(':') {
			return s.wrong(`":"`)
		}
		if err := s.value(here, depth+1); err != nil {
			return err
		}
		s.space()
	}
	return nil
}

func (s *scanner) array(at *place, depth int) error {
	s.skip('[')
	for i := 0; !s.skip(']'); i++ {
		if i > 0 && !s.skip(',') {
			return s.wrong(`"," or "]"`)
		}
		if err := s.value(at.item(i), depth+1); err != nil {
			return err
		}
		s.space()
	}
	return nil
}

func (s *scanner) text() error {
	if s.peek() != '"' {
		return s.wrong("a string")
	}
	for s.at++; s.at < len(s.raw); s.at++ {
		switch c := s.raw[s.at]; {
		case c == '"':
			s.at++
			return nil
		case c < 0x20:
			return s.wrong("no control character")
		case c == '\\':
			s.at++
			if s.peek() == 'u' {
				for range 4 {
					if s.at++; bytes.IndexByte([]byte("0123456789abcdefABCDEF"), s.peek()) < 0 {
						return s.wrong("a hexadecimal digit")
					}
				}
			} else if bytes.IndexByte([]byte(`"\/bfnrt`), s.peek()) < 0 {
				return s.wrong("an escape")
			}
		}
	}
	return s.wrong(`"\""`)
}

func (s *scanner) digits() bool {
	from := s.at
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.at++
	}
	return s.at > from
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	if s.peek() == '0' {
		s.at++
	} else if !s.digits() {
		return s.wrong("a digit")
	}
	if s.peek() == '.' {
		if s.at++; !s.digits() {
			return s.wrong("a digit")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		if s.at++; s.peek() == '-' || s.peek() == '+' {
			s.at++
		}
		if !s.digits() {
			return s.wrong("a digit")
		}
	}
	return nil
}
