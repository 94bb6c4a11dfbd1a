package modern

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestHeaderValue(t *testing.T) {
	f := func(plain, want string) {
		t.Helper()
		if got := string(headerValue([]byte(plain))); got != want {
			t.Errorf("headerValue(%q) = %q, want %q", plain, got, want)
		}
		if needsEncoding([]byte(plain)) != (plain != want) {
			t.Errorf("needsEncoding(%q) = %v", plain, plain == want)
		}
	}
	f("", "")
	f("a", "a")
	f("get weather, now", "get weather, now")
	f("file:///a%20b?c=d#~", "file:///a%20b?c=d#~")
	f("true", "true")
	f(" x", "=?base64?IHg=?=")
	f("x ", "=?base64?eCA=?=")
	f(" ", "=?base64?IA==?=")
	f("\tx", "=?base64?CXg=?=")
	f("x\t", "=?base64?eAk=?=")
	f("a\tb", "=?base64?YQli?=")
	f("a\r\nHost: b", "=?base64?YQ0KSG9zdDogYg==?=")
	f("\x7f", "=?base64?fw==?=")
	f("\x00", "=?base64?AA==?=")
	f("日本", "=?base64?5pel5pys?=")
	f("é", "=?base64?w6k=?=")
	f("=?base64?dA==?=", "=?base64?PT9iYXNlNjQ/ZEE9PT89?=")
	f("=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?=")
	f("=?base64?", "=?base64?")
	f("?=", "?=")
	f("=?BASE64?dA==?=", "=?BASE64?dA==?=")
	f("x=?base64?dA==?=", "x=?base64?dA==?=")
}

func TestDecodeHeaderValue(t *testing.T) {
	f := func(v, want string, ok bool) {
		t.Helper()
		got, err := decodeHeaderValue([]byte(v))
		if ok != (err == nil) || !ok && !errors.Is(err, errHeaderValue) {
			t.Errorf("decodeHeaderValue(%q): %v", v, err)
		}
		if string(got) != want {
			t.Errorf("decodeHeaderValue(%q) = %q, want %q", v, got, want)
		}
	}
	f("", "", true)
	f("a", "a", true)
	f("  a  ", "a", true)
	f(" \ta b\t ", "a b", true)
	f("a\tb", "a\tb", true)
	f("=?base64?5pel5pys?=", "日本", true)
	f("  =?base64?5pel5pys?=\t", "日本", true)
	f("=?base64??=", "", true)
	f("=?base64?IHg=?=", " x", true)
	f("=?base64?###?=", "", false)      // alphabet
	f("=?base64?dA?=", "", false)       // padding missing
	f("=?base64?dA=?=", "", false)      // half of it
	f("=?base64?dA===?=", "", false)    // too much
	f("=?base64?dB==?=", "", false)     // bits behind the end
	f("=?base64?d A==?=", "", false)    // space inside
	f("=?base64?dA==\n?=", "", false)   // line break inside
	f("=?base64?_-8=?=", "", false)     // the other alphabet
	f("=?base64?dA==dA==?=", "", false) // two in one
	f("=?base64?/w==?=", "", false)     // not UTF-8
	f("=?base64?7aCA?=", "", false)     // a surrogate
	f("=?BASE64?dA==?=", "=?BASE64?dA==?=", true)
	f("=?Base64?###?=", "=?Base64?###?=", true)
	f("=?base64?dA==", "=?base64?dA==", true)
	f("dA==?=", "dA==?=", true)
	f("=?base64?=", "=?base64?=", true)
	f("日本", "日本", true)
	f("\xff", "", false)
	f("a\x00b", "", false)
	f("a\x7f", "", false)
	f("a\r\nb", "", false)
}

// The vectors say which header agrees with which name in the body.
func TestHeaderValueVectors(t *testing.T) {
	f := func(header, name string, want bool) {
		t.Helper()
		got, err := decodeHeaderValue([]byte(header))
		if agrees := err == nil && string(got) == name; agrees != want {
			t.Errorf("header %q, name %q: %v (%q, %v)", header, name, agrees, got, err)
		}
	}
	f("b", "a", false)
	f("   a  ", "a", true)
	f("TOOLS/CALL", "tools/call", false)
	f("=?base64?5pel5pys?=", "日本", true)
	f("=?base64?###?=", "=?base64?###?=", false)
	f("=?BASE64?dA==?=", "t", false)
	f("=?BASE64?dA==?=", "=?BASE64?dA==?=", true)
}

func TestValidHeaderBytes(t *testing.T) {
	f := func(v string, want bool) {
		t.Helper()
		if got := validHeaderBytes([]byte(v)); got != want {
			t.Errorf("validHeaderBytes(%q) = %v", v, got)
		}
	}
	f("", true)
	f("a b\tc~", true)
	f("=?base64?5pel5pys?=", true)
	f("日本", false)
	f("a\x00", false)
	f("\x7f", false)
}

func TestPlainHeaderValueAllocatesNothing(t *testing.T) {
	plain := []byte("get_weather")
	n := testing.AllocsPerRun(100, func() {
		if back, err := decodeHeaderValue(headerValue(plain)); err != nil || !bytes.Equal(back, plain) {
			t.Fatalf("%q: %v", back, err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzHeaderValue(f *testing.F) {
	for _, s := range []string{"", " a", "日本", "=?base64?dA==?=", "=?base64?=", "a\tb", "\xff", "=?base64?dB==?="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		out := headerValue(in)
		if !validHeaderBytes(out) || len(bytes.TrimSpace(out)) != len(out) || bytes.IndexByte(out, '\t') >= 0 {
			t.Fatalf("%q is sent as %q", in, out)
		}
		back, err := decodeHeaderValue(out)
		if utf8.Valid(in) != (err == nil) {
			t.Fatalf("%q, sent as %q: %v", in, out, err)
		}
		if err == nil && !bytes.Equal(back, in) {
			t.Fatalf("%q, sent as %q, comes back as %q", in, out, back)
		}
		// The same bytes as a received value: never a panic, never half a value.
		got, err := decodeHeaderValue(in)
		if err != nil && got != nil || err == nil && !utf8.Valid(got) {
			t.Fatalf("received %q: %q, %v", in, got, err)
		}
		if err != nil {
			return
		}
		if v := strings.Trim(string(in), " \t"); isEncoded([]byte(v)) && needsEncoding(got) {
			if again := string(headerValue(got)); again != v {
				t.Fatalf("received %q, sent on as %q", v, again) // one value, one form
			}
		}
	})
}

func BenchmarkHeaderValue(b *testing.B) {
	plain := []byte("get_weather")
	b.ReportAllocs()
	for b.Loop() {
		_, _ = decodeHeaderValue(headerValue(plain))
	}
}
