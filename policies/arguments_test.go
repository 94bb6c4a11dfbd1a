package policies

import (
	"strings"
	"testing"

	"dragoman/proxy/wire"
)

// What is shown is what was chosen, within its bounds to the byte, and says whether something was cut.
func TestArguments(t *testing.T) {
	const secrets = `{"path":"/etc/x","Pass-Word":"s","a":{"X-API-Keys":{"b":1}},"h":["bEarer s","Basic s","basi","-----BEGIN x","DGM_1","dgm_"],"n":-1.5,"t":true}`
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	maps := func(n int) string { return strings.Repeat(`{"a":`, n) + `{}` + strings.Repeat("}", n) }
	for _, c := range []struct {
		a         Arguments
		raw, want string
		cut       bool
	}{
		{Arguments{}, secrets, ``, false},
		{Arguments{What: ArgumentsNone}, secrets, ``, false},
		{Arguments{What: ArgumentsKeys, Value: 9, Bytes: 100}, secrets, `,"names":["path","Pass-Word","a","h","n","t"]`, false},
		{Arguments{What: ArgumentsKeys, Value: 8, Bytes: 100}, secrets, `,"names":["path","Pass-Wor…","a","h","n","t"]`, true},
		{Arguments{What: ArgumentsKeys, Value: 9, Bytes: 8}, secrets, `,"names":["path","Pass-Word","[cut]"]`, true},
		{Arguments{What: ArgumentsKeys, Value: 9, Bytes: 7}, secrets, `,"names":["path","[cut]"]`, true},
		{Arguments{What: ArgumentsKeys, Value: 9, Bytes: 100}, `[1]`, `,"names":[]`, false},
		{Arguments{What: ArgumentsFull, Value: 12, Bytes: 200}, secrets, `,"all":` + secrets, false},
		{Arguments{What: ArgumentsRedacted, Value: 12, Bytes: 200, Redact: []string{"Pass_Word", "api-key", "-"}}, secrets,
			`,"all":{"path":"/etc/x","Pass-Word":"[redacted]","a":{"X-API-Keys":"[redacted]"},"h":["[redacted]","[redacted]","basi","[redacted]","[redacted]","[redacted]"],"n":-1.5,"t":true}`, false},
		{Arguments{What: ArgumentsRedacted, Value: 12, Bytes: 200, Redact: []string{"AZ09ü", "a b"}}, "{\"x-az0.9Ü\":1,\"a{b\":1,\"a`b\":1,\"a/b\":1,\"a:b\":1,\"z09ü\":1,\"a09ü\":1,\"az9ü\":1,\"az0ü\":1}",
			",\"all\":{\"x-az0.9Ü\":\"[redacted]\",\"a{b\":\"[redacted]\",\"a`b\":\"[redacted]\",\"a/b\":\"[redacted]\",\"a:b\":\"[redacted]\",\"z09ü\":1,\"a09ü\":1,\"az9ü\":1,\"az0ü\":1}", false},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 5}, `{"a":1}`, `,"all":{"a":"[cut]"}`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 3}, `[1,2,3]`, `,"all":[1,"[cut]"]`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 100}, `{"a":"xé1","b":"xéé","c":"ééé","abcde":1}`, `,"all":{"a":"xé1","b":"xé…","c":"éé…","abcd…":1}`, true},
		{Arguments{What: ArgumentsFull, Value: 1, Bytes: 100}, `["é"]`, `,"all":["…"]`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 100}, `[1234,12345]`, `,"all":[1234,"[cut]"]`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 4}, `[1,2,3]`, `,"all":[1,2,"[cut]"]`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 5}, `[1,2,3]`, `,"all":[1,2,"[cut]"]`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 6}, `[1,2,3]`, `,"all":[1,2,3]`, false},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 7}, `{"a":1,"b":2}`, `,"all":{"a":1,"[cut]":true}`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 8}, `{"a":1,"b":2}`, `,"all":{"a":1,"b":"[cut]"}`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 9}, `{"a":1,"b":2}`, `,"all":{"a":1,"b":"[cut]"}`, true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 13}, `{"a":1,"b":2}`, `,"all":{"a":1,"b":2}`, false},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 1000}, deep(33), `,"all":` + deep(33), false},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 1000}, deep(34), `,"all":` + strings.Repeat("[", 33) + `"[cut]"` + strings.Repeat("]", 33), true},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 1000}, maps(32), `,"all":` + maps(32), false},
		{Arguments{What: ArgumentsFull, Value: 4, Bytes: 1000}, maps(33), `,"all":` + strings.Repeat(`{"a":`, 33) + `"[cut]"` + strings.Repeat("}", 33), true},
	} {
		a := NewArguments(c.a)
		got, cut := a.Append([]byte("x"), "all", "names", []byte(c.raw), wire.Whole([]byte(c.raw)))
		if string(got) != "x"+c.want || cut != c.cut {
			t.Errorf("%+v: %s\n%s, cut: %v; want\n%s", c.a, c.raw, got[1:], cut, c.want)
		}
	}
}
