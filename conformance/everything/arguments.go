package everything

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// required, as the default of count, means that the argument must be present.
const required = -1

// arguments reads the arguments of a call and keeps the first error. The error becomes a result with isError, so that a
// model can correct it (2025-11-25 and later; 2026-07-28 tools, Error Handling).
type arguments struct {
	raw   []byte // borrowed from the message
	at    wire.Span
	wrong string // first error; empty if there is none
}

// argumentsOf returns params.arguments. Missing arguments count as {}; anything but an object is an error.
func argumentsOf(m *wire.Message) (arguments, *proxy.Error) {
	if m.Arguments.Present() && !m.Arguments.IsObject(m.Raw) {
		return arguments{}, proxy.Errf(proxy.InvalidParams, "params.arguments must be an object")
	}
	return arguments{raw: m.Raw, at: m.Arguments, wrong: ""}, nil
}

func (a *arguments) complain(format string, args ...any) {
	if a.wrong == "" {
		a.wrong = fmt.Sprintf(format, args...)
	}
}

func (a *arguments) find(name string) (wire.Span, bool) {
	v := wire.Get(a.raw, a.at, name)
	return v, v.Present()
}

// text reads a required string.
func (a *arguments) text(name string) string {
	if _, ok := a.find(name); !ok {
		a.complain("argument %q is missing", name)
	}
	s, _ := a.maybeText(name)
	return s
}

// maybeText reads an optional string.
func (a *arguments) maybeText(name string) (string, bool) {
	v, ok := a.find(name)
	if ok && !v.IsString(a.raw) {
		a.complain("argument %q must be a string", name)
		return "", false
	}
	return string(v.Text(a.raw)), ok
}

// number reads a required number.
func (a *arguments) number(name string) float64 {
	v, ok := a.find(name)
	if !ok {
		a.complain("argument %q is missing", name)
		return 0
	}
	b := v.Of(a.raw)
	if !bytes.ContainsAny(b[:1], "-0123456789") {
		a.complain("argument %q must be a number", name)
		return 0
	}
	n, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		a.complain("argument %q is out of range", name)
	}
	return n
}

// count reads a whole number from 0 to most. An absent argument is def, or an error if def is required.
func (a *arguments) count(name string, def, most int) int {
	if _, ok := a.find(name); !ok && def != required {
		return def
	}
	n := a.number(name)
	if a.wrong == "" && (n != math.Trunc(n) || n < 0 || n > float64(most)) {
		a.complain("argument %q must be a whole number from 0 to %d", name, most)
	}
	if a.wrong != "" {
		return 0
	}
	return int(n)
}

// whole reads an optional integer of JSON's safe range.
func (a *arguments) whole(name string) (int64, bool) {
	if _, ok := a.find(name); !ok {
		return 0, false
	}
	const safe = 1<<53 - 1
	n := a.number(name)
	if a.wrong == "" && (n != math.Trunc(n) || math.Abs(n) > safe) {
		a.complain("argument %q must be a whole number between ±(2^53-1)", name)
	}
	if a.wrong != "" {
		return 0, false
	}
	return int64(n), true
}

// truth reads an optional boolean.
func (a *arguments) truth(name string) (value, present bool) {
	v, ok := a.find(name)
	if !ok {
		return false, false
	}
	b := string(v.Of(a.raw))
	if b != "true" && b != "false" {
		a.complain("argument %q must be true or false", name)
		return false, false
	}
	return b == "true", true
}
