package wire

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestShown(t *testing.T) {
	long := strings.Repeat("x", MaxShown)
	for text, want := range map[string]string{
		"": "", "plain text": "plain text", "größer 日本": "größer 日本", "a\nb\r\t": `a\nb\r\t`, "\x00\x1b[2J\x7f": `\u0000\u001b[2J\u007f`,
		"a\u202eb\u2066": `a\u202eb\u2066`, "\u200b\u200d\ufeff\u2028\u00a0\u0085\u00ad": `\u200b\u200d\ufeff\u2028\u00a0\u0085\u00ad`,
		"\xff\xc0\xae": `\xff\xc0\xae`, "\U000e0041": `\U000e0041`, `a\b"`: `a\b"`, "e\u0301": "e\u0301",
		long: long, long + "y": long + "… (257 bytes)", long[1:] + "ä": long[1:] + "… (257 bytes)", long[2:] + "ä": long[2:] + "ä",
		strings.Repeat("\u202e", 100): strings.Repeat(`\u202e`, 85) + "… (300 bytes)",
	} {
		if got := Shown(text); got != want || Shown([]byte(text)) != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		var decoded string
		if raw := AppendShown([]byte("["), text); json.Unmarshal(raw[1:], &decoded) != nil || decoded != want {
			t.Errorf("%q: %s", text, raw)
		}
		if IsShown(text) && Shown(text) != text {
			t.Errorf("%q is not shown as it is", text)
		}
	}
	if got := Shown("\uffff\U0001ffff"); got != `\uffff\U0001ffff` {
		t.Error(got)
	}
	if !IsShown("in plain words") || !IsShown(long) || IsShown(long+"x") || IsShown("a\n") || IsShown("\x7f") {
		t.Error("IsShown")
	}
	most := strings.Repeat("x", 4*MaxShown)
	if got := ShownText(most); got != most {
		t.Errorf("%d bytes of %d", len(got), len(most))
	}
	if got := ShownText(most + "\x1by"); got != most+"… (1026 bytes)" {
		t.Error(got)
	}
	if got := ShownText("a\x1b"); got != `a\u001b` {
		t.Error(got)
	}
	text := []byte("tools/call")
	if n := testing.AllocsPerRun(10, func() { _ = IsShown(text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestAppendVisible(t *testing.T) {
	for _, text := range []string{"", "plain", "größer 日本", "a\u202eb\u2028\u0085\u007f", "\U000e0041\U0001f600", "\u200b", "\uffff\U0001ffff"} {
		raw, _ := json.Marshal(map[string]string{"a": text})
		got := AppendVisible([]byte("x"), raw)[1:]
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || back["a"] != text || strings.ContainsFunc(string(got), func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if got := string(AppendVisible(nil, []byte("\"\xff\""))); got != `"`+"\ufffd"+`"` {
		t.Errorf("%q", got)
	}
}

// Visible keeps the lines and the length of a text, and escapes what Shown escapes.
func TestVisible(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, same := range []string{"", "a b", "lines\n\tand tabs\n", "日本 ü 🙂 \ufffd", strings.Repeat("long ", 10000)} {
		f(same, same)
	}
	f("a\u200bb\nc\u202ed\te\ufeff", "a\\u200bb\nc\\u202ed\te\\ufeff")
	f("\x1b[2J\r\x00\u00ad\u2028\U000e0001\xff\xc0", `\u001b[2J\r\u0000\u00ad\u2028\U000e0001\xff\xc0`)
}
