package config

import (
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

const maxScope = 256 // bytes of one scope, and scopes of one list

// checkPattern accepts a name, or the beginning of names followed by a *.
func checkPattern(name, what string) error {
	if star := strings.IndexByte(name, '*'); name == "" || len(name) > 4096 || value.HasControl(name) || star >= 0 && star < len(name)-1 {
		return &value.Problem{What: value.Quote(value.Shorten(name)) + " is not " + what, Fix: "write " + what + ", or the beginning of some with a * behind"}
	}
	return nil
}

// checkScope accepts a scope-token (RFC 6749 §3.3).
func checkScope(item string) error {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }
	if item == "" || len(item) > maxScope || strings.ContainsFunc(item, bad) {
		return value.Problemf("%q is not a scope", value.Shorten(item))
	}
	return nil
}

func scopeList(at *[]string) field.Field {
	return field.List{At: at, Check: checkScope, What: "a list of scopes", Most: maxScope, Commas: true}
}
