package config

import (
	"encoding/hex"
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

// checkKeyName accepts the name of an API key.
func checkKeyName(name string) error {
	if !KeyName.MatchString(name) || len(name) > maxName {
		return &value.Problem{What: value.Quote(value.Shorten(name)) + " is not a name for an API key", Fix: "use at most 64 letters, digits, dots, hyphens and underscores, a letter or digit first"}
	}
	return nil
}

// hashList returns the field of the hashes of an API key.
func hashList(at *[]string) field.Field {
	return field.List{At: at, Check: checkHash, What: `a list of "sha256:" and 64 hexadecimal digits, as "dragoman key new" prints them`, Least: 1, Most: maxScope}
}

func checkHash(item string) error {
	digits, ok := strings.CutPrefix(item, "sha256:")
	if sum, err := hex.DecodeString(digits); !ok || err != nil || len(sum) != 32 { // not repeated: it may be the key itself
		return &value.Problem{What: "is not a hash (it is not shown)", Fix: "write \"sha256:\" and 64 hexadecimal digits; `dragoman key hash` makes it of a key"}
	}
	return nil
}
