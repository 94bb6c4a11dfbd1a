package redact

import (
	"strings"
	"testing"
)

// Each form in which a program prints a secret is hidden, and nothing else.
func TestHide(t *testing.T) {
	pem := "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"
	for _, c := range []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"s3cr3t"}, "TOKEN=s3cr3t; again s3cr3ts", "TOKEN=(hidden); again (hidden)s"},
		{[]string{"short"}, "short", "short"},
		{[]string{""}, "a", "a"},
		{nil, "a", "a"},
		{[]string{"secret", "secret-and-more"}, "secret-and-more, secret", "(hidden), (hidden)"},
		{[]string{"Bearer abcdef"}, "sent Bearer abcdef; abcdef is wrong", "sent (hidden); (hidden) is wrong"},
		{[]string{"Bearer abc"}, "abc", "abc"},
		{[]string{"Basic dXNlcjpwYXNzd29yZA=="}, "dXNlcjpwYXNzd29yZA== is user:password or password", "(hidden) is (hidden) or (hidden)"},
		{[]string{"Digest dXNlcjpwYXNzd29yZA=="}, "password", "password"},
		{[]string{"two words here"}, "words here, two words here", "words here, (hidden)"},
		{[]string{"postgres://me:hunter2@db/x"}, "no login for me with hunter2 at db", "no login for me with (hidden) at db"},
		{[]string{"postgres://somebody@db/x"}, "somebody", "somebody"},
		{[]string{pem}, "read MIIEvQIBADANBg", "read (hidden)"},
		{[]string{`quo"te\d!`}, `{"a":"quo\"te\\d!"} quo"te\d!`, `{"a":"(hidden)"} (hidden)`},
		{[]string{"a b&c/d"}, "?k=a+b%26c%2Fd and a%20b&c%2Fd", "?k=(hidden) and (hidden)"},
		{[]string{"abcdefgh"}, "cut off: abcdefg", "cut off: (hidden)"},
		{[]string{"abcdefgh"}, "cut off: abcd", "cut off: (hidden)"},
		{[]string{"abcdefgh"}, "too short to tell: abc", "too short to tell: abc"},
		{[]string{"abcdefgh"}, "abcd in the middle", "abcd in the middle"},
		{[]string{"abcdefgh"}, "abcdef", "(hidden)"},
		{[]string{"  padded  "}, "padded", "(hidden)"},
	} {
		if got := New(c.secrets...).Hide(c.text); got != c.want {
			t.Errorf("%q in %q: %q, want %q", c.secrets, c.text, got, c.want)
		}
	}
	if New("a", "") != nil {
		t.Error("values that are too short make Secrets")
	}
}

// Text without secrets costs no copy.
func TestHideNothing(t *testing.T) {
	s := New("s3cr3t", strings.Repeat("k", 100))
	text := strings.Repeat("an ordinary line ", 20)
	if n := testing.AllocsPerRun(100, func() { _ = s.Hide(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
