package catalogue

import (
	"bytes"
	"errors"
	"testing"
)

// What is sealed opens for its registration, unchanged, with its key; that of another key opens as well and says so.
func TestVault(t *testing.T) {
	const plain = `{"headers":{"Authorization":"Bearer 5ecret"}}`
	v, other, both := NewVault("one"), NewVault("", "two"), NewVault("two", "one")
	sealed := v.Seal("id", []byte(plain))
	if bytes.Contains(sealed, []byte("5ecret")) || bytes.Equal(sealed, v.Seal("id", []byte(plain))) {
		t.Errorf("sealed %s", sealed)
	}
	for name, test := range map[string]struct {
		v      *Vault
		id     string
		stored []byte
		first  bool
		err    error
	}{
		"its key":           {v, "id", sealed, true, nil},
		"the second key":    {both, "id", sealed, false, nil},
		"another key":       {other, "id", sealed, false, ErrSealed},
		"no key":            {nil, "id", sealed, false, ErrSealed},
		"another server's":  {v, "other", sealed, false, ErrSealed},
		"changed":           {v, "id", append(bytes.Clone(sealed[:len(sealed)-8]), "AAAAAAA="...), false, ErrSealed},
		"short":             {v, "id", []byte("sealed:AAAA"), false, ErrSealed},
		"no base64":         {v, "id", []byte("sealed:?"), false, ErrSealed},
		"never sealed":      {v, "id", []byte(plain), false, nil},
		"none to seal with": {nil, "id", NewVault("", "").Seal("id", []byte(plain)), true, nil},
	} {
		got, first, err := test.v.Open(test.id, test.stored)
		if !errors.Is(err, test.err) || first != test.first || err == nil && string(got) != plain {
			t.Errorf("%s: %s, %v, %v", name, got, first, err)
		}
	}
}
