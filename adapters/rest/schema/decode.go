package schema

import (
	"bytes"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/goccy/go-json"

	"dragoman/proxy/wire"
)

const (
	maxDepth  = 128     // objects and arrays in one another, in schemas and arguments
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
// nested too deeply and numbers that are too large to calculate with are Violations.
func decode(raw []byte, as role) (any, *Violation) {
	if bad := strict(raw); bad != nil {
		return nil, bad
	}
	d := decoder{raw: raw, as: as}
	v, bad := d.value(d.space(0), 0)
	return v, bad
}

// strict checks that raw is one JSON value, with the scanner that checks messages, so that both agree.
func strict(raw []byte) *Violation {
	if _, err := wire.ScanValue(raw); err != nil {
		return &Violation{Rule: "json", Message: "no JSON: " + shorten(err.Error(), 200)}
	}
	return nil
}

// decoder reads bytes that strict has accepted. Its methods set end to the offset after what they have read.
type decoder struct {
	raw []byte
	as  role
	end int

	values, objects int // so far
}

func (d *decoder) space(i int) int {
	for i < len(d.raw) && (d.raw[i] == ' ' || d.raw[i] == '\t' || d.raw[i] == '\n' || d.raw[i] == '\r') {
		i++
	}
	return i
}

func (d *decoder) value(i, depth int) (any, *Violation) {
	c := d.raw[i]
	if d.values++; c == '{' {
		d.objects++
	}
	if d.as == document && (d.values > maxValues || d.objects > maxObjects) {
		what := fmt.Sprintf("more than %d JSON values", maxValues)
		if d.objects > maxObjects {
			what = fmt.Sprintf("more than %d objects", maxObjects)
		}
		return nil, &Violation{Rule: "size", Message: what}
	}
	switch c {
	case '{', '[':
		if depth == maxDepth {
			return nil, &Violation{Rule: "depth", Message: fmt.Sprintf("more than %d objects and arrays in one another", maxDepth)}
		}
		if c == '{' {
			return d.object(d.space(i+1), depth+1)
		}
		return d.array(d.space(i+1), depth+1)
	case '"':
		if d.as != withoutTexts {
			return d.text(i), nil
		}
		d.end = d.behind(i)
		return "", nil
	case 't':
		d.end = i + 4
		return true, nil
	case 'f':
		d.end = i + 5
		return false, nil
	case 'n':
		d.end = i + 4
		return nil, nil
	}
	return d.number(i)
}

func (d *decoder) object(i, depth int) (any, *Violation) {
	obj := map[string]any{}
	for d.raw[i] != '}' {
		name := d.text(i)
		if _, twice := obj[name]; twice && d.as != document {
			return nil, &Violation{Rule: "duplicate", Message: "property " + quote(name) + " is there twice"}
		}
		v, bad := d.value(d.space(d.space(d.end)+1), depth)
		if bad != nil {
			return nil, bad.under(name)
		}
		obj[name] = v
		if i = d.space(d.end); d.raw[i] == ',' {
			i = d.space(i + 1)
		}
	}
	d.end = i + 1
	return obj, nil
}

func (d *decoder) array(i, depth int) (any, *Violation) {
	arr := []any{}
	for d.raw[i] != ']' {
		v, bad := d.value(i, depth)
		if bad != nil {
			return nil, bad.under(strconv.Itoa(len(arr)))
		}
		arr = append(arr, v)
		if i = d.space(d.end); d.raw[i] == ',' {
			i = d.space(i + 1)
		}
	}
	d.end = i + 1
	return arr, nil
}

func (d *decoder) text(i int) string {
	d.end = d.behind(i)
	text := wire.Span{From: uint32(i), To: uint32(d.end)}.Text(d.raw) //nolint:gosec // the scanner refuses larger input
	if d.as == arguments && len(text) >= borrowed {
		return unsafe.String(&text[0], len(text)) //nolint:gosec // see borrowed
	}
	return string(text)
}

// behind returns the offset after the text at i.
func (d *decoder) behind(i int) int {
	end := i + 1
	for {
		end += bytes.IndexByte(d.raw[end:], '"') // strict has found it
		slashes := 0
		for d.raw[end-1-slashes] == '\\' { // stops at the quote at i
			slashes++
		}
		if end++; slashes%2 == 0 {
			return end
		}
	}
}

// number keeps a number as it is written. It refuses exponents such as 1e999999, with which calculations take a million digits.
func (d *decoder) number(i int) (any, *Violation) {
	end := i
	for end < len(d.raw) && bytes.IndexByte([]byte("+-.0123456789eE"), d.raw[end]) >= 0 {
		end++
	}
	d.end = end
	text := string(d.raw[i:end])
	digits := len(text)
	if e := bytes.IndexAny([]byte(text), "eE"); e >= 0 {
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
