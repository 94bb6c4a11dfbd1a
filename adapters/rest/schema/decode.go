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
	borrowed  = 4 << 10 // from how many bytes on a text of arguments is not copied: they are judged, and forgotten
	maxDigits = 400     // of a number with its exponent written out; an IEEE double has no more than 309 before the point
)

// role says what is decoded.
type role int

const (
	arguments role = iota // a name twice is refused: two readers may disagree about which counts
	document              // a schema: of two members with one name the last counts, as everywhere
	outlines              // arguments whose texts nothing is asked about but that they are texts: see plan.outlines
)

// decode reads JSON into what the validator wants: map[string]any, []any, string, json.Number, bool, nil. What is too
// deep, or a number too large to calculate with, is a Violation.
func decode(raw []byte, as role) (any, *Violation) {
	if bad := strict(raw); bad != nil {
		return nil, bad
	}
	d := decoder{raw: raw, as: as}
	v, bad := d.value(d.space(0), 0)
	return v, bad
}

// strict checks that raw is one JSON value, by the same reader that judges messages, so that both agree.
func strict(raw []byte) *Violation {
	if _, err := wire.ScanValue(raw); err != nil {
		return &Violation{Rule: "json", Message: "no JSON: " + shorten(err.Error(), 200)}
	}
	return nil
}

// decoder walks bytes that strict has passed. Its methods leave the place behind what they read in d.end.
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
		if d.as != outlines {
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
	text := wire.Span{From: uint32(i), To: uint32(d.end)}.Text(d.raw) //nolint:gosec // Scan refuses what does not fit
	if d.as == arguments && len(text) >= borrowed {
		return unsafe.String(&text[0], len(text)) //nolint:gosec // see borrowed
	}
	return string(text)
}

// behind is the place behind the text at i.
func (d *decoder) behind(i int) int {
	end := i + 1
	for {
		end += bytes.IndexByte(d.raw[end:], '"') // it is there
		slashes := 0
		for d.raw[end-1-slashes] == '\\' { // as far back as the quote at i
			slashes++
		}
		if end++; slashes%2 == 0 {
			return end
		}
	}
}

// number keeps the number as it is written. Calculating with 1e999999 takes a million digits, so that is refused.
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
