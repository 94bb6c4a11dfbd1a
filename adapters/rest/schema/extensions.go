package schema

import (
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/goccy/go-json"
	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"dragoman/proxy/wire"
)

// replace has extensions check what the library must not: propertyNames, for which it reports a wrong place (its paths share
// memory), and uniqueItems, for which it compares each element with each where all have the same hash.
func replace(s *js.Schema, f *fact) {
	if s.PropertyNames != nil {
		f.names = s.PropertyNames
		s.Extensions = append(s.Extensions, propertyNames{s.PropertyNames})
		s.PropertyNames = nil
	}
	if s.UniqueItems {
		f.unique = true
		s.Extensions = append(s.Extensions, uniqueItems{})
		s.UniqueItems = false
	}
}

type propertyNames struct{ sch *js.Schema }

// Validate implements the library's SchemaExt.
func (p propertyNames) Validate(ctx *js.ValidatorContext, v any) {
	obj, ok := v.(map[string]any)
	if !ok {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if err, _ := ctx.Validate(p.sch, name, []string{name}).(*js.ValidationError); err != nil {
			ctx.AddErrors([]*js.ValidationError{err}, &kind.PropertyNames{Property: name})
		}
	}
}

type uniqueItems struct{}

// Validate implements the library's SchemaExt.
func (uniqueItems) Validate(ctx *js.ValidatorContext, v any) {
	arr, ok := v.([]any)
	if !ok || len(arr) < 2 {
		return
	}
	seen := make(map[string]int, len(arr))
	var buf []byte
	for i, item := range arr {
		buf = canonical(buf[:0], item)
		if first, twice := seen[string(buf)]; twice {
			ctx.AddError(&kind.UniqueItems{Duplicates: [2]int{first, i}})
			return
		}
		seen[string(buf)] = i
	}
}

// canonical appends an encoding of v that is the same for equal values only (2020-12 core §4.2.2).
func canonical(dst []byte, v any) []byte {
	switch v := v.(type) {
	case map[string]any:
		dst = append(dst, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			dst = canonical(append(wire.AppendText(dst, name), ':'), v[name])
			dst = append(dst, ',')
		}
		return append(dst, '}')
	case []any:
		dst = append(dst, '[')
		for _, item := range v {
			dst = append(canonical(dst, item), ',')
		}
		return append(dst, ']')
	case string:
		return wire.AppendText(dst, v)
	case json.Number:
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
			return strconv.AppendInt(dst, n, 10)
		}
		if rat, ok := new(big.Rat).SetString(string(v)); ok {
			return append(dst, rat.RatString()...)
		}
		return append(dst, v...)
	case bool:
		return strconv.AppendBool(dst, v)
	}
	return append(dst, "null"...)
}
