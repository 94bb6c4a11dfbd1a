package schema

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

const (
	maxDepth  = 128     // of nested objects and arrays, in schemas and arguments
	borrowed  = 4 << 10 // bytes from which a text of the arguments is not copied: the value lives no longer than the check
	maxDigits = 400     // of a number with its exponent written out; an IEEE double has no more than 309 before the point
)

// role is the kind of input that is decoded.
type role int

const (
	arguments    role = iota // a repeated name is refused, because readers disagree about which one counts
	document                 // a schema: of repeated names the last counts, as in most readers
	withoutTexts             // arguments whose texts need not be decoded: see plan.skipTexts
)

// decode returns JSON as the types of the validator: map[string]any, []any, string, json.Number, bool and nil. Values that are
// nested too deeply and numbers that are too large to calculate with are Violations. The scanner is that of messages, so that both
// accept the same JSON.
func decode(raw []byte, as role) (any, *Violation) {
	all, err := wire.ScanValue(raw)
	if err != nil {
		return nil, &Violation{Rule: "json", Message: "no JSON: " + shorten(err.Error(), 200)}
	}
	d := decoder{raw: raw, as: as}
	return d.value(all.From, 0)
}

// decoder reads scanned bytes. Its methods set end to the offset after what they have read.
type decoder struct {
	raw []byte
	as  role
	end uint32

	values, objects int // so far
}

func (d *decoder) value(i uint32, depth int) (any, *Violation) {
	c := d.raw[i]
	if d.values++; c == '{' {
		d.objects++
	}
	switch {
	case d.as == document && d.objects > maxObjects:
		return nil, &Violation{Rule: "size", Message: fmt.Sprintf("more than %d objects", maxObjects)}
	case d.as == document && d.values > maxValues:
		return nil, &Violation{Rule: "size", Message: fmt.Sprintf("more than %d JSON values", maxValues)}
	case (c == '{' || c == '[') && depth == maxDepth:
		return nil, &Violation{Rule: "depth", Message: fmt.Sprintf("more than %d objects and arrays in one another", maxDepth)}
	case c == '{':
		return d.object(wire.SkipSpace(d.raw, i+1), depth+1)
	case c == '[':
		return d.array(wire.SkipSpace(d.raw, i+1), depth+1)
	}
	d.end = wire.Skip(d.raw, i)
	switch c {
	case '"':
		if d.as == withoutTexts {
			return "", nil
		}
		return d.text(wire.Span{From: i, To: d.end}), nil
	case 't', 'f':
		return c == 't', nil
	case 'n':
		return nil, nil
	}
	return number(string(d.raw[i:d.end]))
}

func (d *decoder) object(i uint32, depth int) (any, *Violation) {
	obj := map[string]any{}
	for d.raw[i] != '}' {
		key := wire.Span{From: i, To: wire.Skip(d.raw, i)}
		name := d.text(key)
		if _, twice := obj[name]; twice && d.as != document {
			return nil, &Violation{Rule: "duplicate", Message: "property " + quote(name) + " is there twice"}
		}
		v, bad := d.value(wire.SkipSpace(d.raw, wire.SkipSpace(d.raw, key.To)+1), depth)
		if bad != nil {
			return nil, bad.under(name)
		}
		obj[name] = v
		i = d.next()
	}
	d.end = i + 1
	return obj, nil
}

func (d *decoder) array(i uint32, depth int) (any, *Violation) {
	arr := []any{}
	for d.raw[i] != ']' {
		v, bad := d.value(i, depth)
		if bad != nil {
			return nil, bad.under(strconv.Itoa(len(arr)))
		}
		arr = append(arr, v)
		i = d.next()
	}
	d.end = i + 1
	return arr, nil
}

// next returns the offset of the next member or element, or of the closing bracket.
func (d *decoder) next() uint32 {
	i := wire.SkipSpace(d.raw, d.end)
	if d.raw[i] == ',' {
		i = wire.SkipSpace(d.raw, i+1)
	}
	return i
}

func (d *decoder) text(s wire.Span) string {
	text := s.Text(d.raw)
	if d.as == arguments && len(text) >= borrowed {
		return unsafe.String(&text[0], len(text)) //nolint:gosec // see borrowed
	}
	return string(text)
}

// number keeps a number as it is written. It refuses exponents such as 1e999999, with which calculations take a million digits.
func number(text string) (any, *Violation) {
	digits := len(text)
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		exp, err := strconv.Atoi(text[e+1:])
		if err != nil || exp > maxDigits || exp < -maxDigits {
			exp = maxDigits
		}
		digits = e + max(exp, -exp)
	}
	if digits > maxDigits {
		return nil, &Violation{Rule: "number", Message: fmt.Sprintf("a number of more than %d digits", maxDigits)}
	}
	return json.Number(text), nil
}
