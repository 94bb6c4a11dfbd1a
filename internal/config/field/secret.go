package field

import (
	"fmt"

	"dragoman/internal/config/value"
)

// SecretText is a field for one header or variable. Store keeps the value.
type SecretText struct {
	Store func(value.Secret)
	Check func(value string) error
	What  string
}

// Set implements [Field].
func (f SecretText) Set(v value.Literal) error {
	text, ok := v.ScalarText()
	if !ok {
		return value.Problemf("must be text, not %s", v.Kind)
	}
	if err := f.Check(text); err != nil {
		return err
	}
	f.Store(value.NewSecret(text))
	return nil
}

// Text implements [Field].
func (f SecretText) Text() string { return value.Quote(value.Hidden) }

// Notation implements [Field].
func (f SecretText) Notation() Notation {
	return Notation{Kind: "secret", Bounds: f.What, Shape: Shape{Type: scalarTypes}}
}

// Key is a field for a secret of at least Least bytes; "" leaves it unset.
type Key struct {
	At    *value.Secret
	Least int
	What  string                   // what it is, if it is no key
	Check func(value string) error // of one that is not empty; nil: any will do
}

// Set implements [Field].
func (f Key) Set(v value.Literal) error {
	text, ok := v.ScalarText()
	switch {
	case !ok:
		return value.Problemf("must be text, not %s", v.Kind)
	case text != "" && len(text) < f.Least:
		return value.Problemf("is %d bytes long; at least %d are needed (the value is not shown)", len(text), f.Least)
	}
	if f.Check != nil && text != "" {
		if err := f.Check(text); err != nil {
			return err
		}
	}
	*f.At = value.NewSecret(text)
	return nil
}

// Text implements [Field].
func (f Key) Text() string {
	if f.At.Reveal() == "" {
		return `""`
	}
	return value.Quote(value.Hidden)
}

// Notation implements [Field].
func (f Key) Notation() Notation {
	n := Notation{Kind: "secret", Bounds: `the value, "env:NAME" or "file:/path"`, Shape: Shape{Type: scalarTypes},
		Allowed: fmt.Sprintf(`at least %d characters, "env:NAME" or "file:/path", or "" for a random key`, f.Least)}
	if f.What != "" {
		n.Bounds, n.Allowed = f.What, ""
	}
	if f.Least > 0 {
		n.Bounds, n.Shape.Pattern = n.Allowed, fmt.Sprintf(`^$|^env:.|^file:.|^.{%d,}$`, f.Least)
	}
	return n
}
