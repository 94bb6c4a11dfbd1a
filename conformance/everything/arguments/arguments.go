// Package arguments reads the arguments of the demonstration server's tools and prompts.
package arguments

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// Required is the default of an argument that must be present.
const Required = -1

// Reader reads the arguments of a call and keeps the first error. The error becomes a result with isError, so that a model
// can correct it (2025-11-25 and later; 2026-07-28 tools, Error Handling).
type Reader struct {
	Raw   []byte // borrowed from the message
	At    wire.Span
	Wrong string // first error; empty if there is none
}

// Of returns a Reader of params.arguments. Missing arguments count as {}; anything but an object is an error.
func Of(m *wire.Message) (Reader, *proxy.Error) {
	if m.Arguments.Present() && !m.Arguments.IsObject(m.Raw) {
		return Reader{}, proxy.Errf(proxy.InvalidParams, "params.arguments must be an object")
	}
	return Reader{Raw: m.Raw, At: m.Arguments}, nil
}

// Complain records an error, unless there is one already.
func (a *Reader) Complain(format string, args ...any) {
	if a.Wrong == "" {
		a.Wrong = fmt.Sprintf(format, args...)
	}
}

// Find returns where an argument is; false if it is absent.
func (a *Reader) Find(name string) (wire.Span, bool) {
	v := wire.Get(a.Raw, a.At, name)
	return v, v.Present()
}

// Text reads a required string.
func (a *Reader) Text(name string) string {
	if _, ok := a.Find(name); !ok {
		a.Complain("argument %q is missing", name)
	}
	s, _ := a.MaybeText(name)
	return s
}

// MaybeText reads an optional string.
func (a *Reader) MaybeText(name string) (string, bool) {
	v, ok := a.Find(name)
	if ok && !v.IsString(a.Raw) {
		a.Complain("argument %q must be a string", name)
		return "", false
	}
	return string(v.Text(a.Raw)), ok
}

// Number reads a required number.
func (a *Reader) Number(name string) float64 {
	v, ok := a.Find(name)
	if !ok {
		a.Complain("argument %q is missing", name)
		return 0
	}
	b := v.Of(a.Raw)
	if !bytes.ContainsAny(b[:1], "-0123456789") {
		a.Complain("argument %q must be a number", name)
		return 0
	}
	n, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		a.Complain("argument %q is out of range", name)
	}
	return n
}

// Count reads a whole number from 0 to most. An absent argument is def, or an error if def is required.
func (a *Reader) Count(name string, def, most int) int {
	if _, ok := a.Find(name); !ok && def != Required {
		return def
	}
	n := a.Number(name)
	if a.Wrong == "" && (n != math.Trunc(n) || n < 0 || n > float64(most)) {
		a.Complain("argument %q must be a whole number from 0 to %d", name, most)
	}
	if a.Wrong != "" {
		return 0
	}
	return int(n)
}

// Whole reads an optional integer of JSON's safe range.
func (a *Reader) Whole(name string) (int64, bool) {
	if _, ok := a.Find(name); !ok {
		return 0, false
	}
	const safe = 1<<53 - 1
	n := a.Number(name)
	if a.Wrong == "" && (n != math.Trunc(n) || math.Abs(n) > safe) {
		a.Complain("argument %q must be a whole number between ±(2^53-1)", name)
	}
	if a.Wrong != "" {
		return 0, false
	}
	return int64(n), true
}

// Truth reads an optional boolean.
func (a *Reader) Truth(name string) (value, present bool) {
	v, ok := a.Find(name)
	if !ok {
		return false, false
	}
	b := string(v.Of(a.Raw))
	if b != "true" && b != "false" {
		a.Complain("argument %q must be true or false", name)
		return false, false
	}
	return b == "true", true
}
