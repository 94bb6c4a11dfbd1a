package logging

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/rs/zerolog"
)

// hostileTexts are texts that a peer may send, and how a terminal shows them.
var hostileTexts = map[string]string{
	"plain": "plain", "größer 日本": "größer 日本", `a "b" \c`: `a "b" \c`, "\x1b]0;x\x07\x1b[2J": `\u001b]0;x\u0007\u001b[2J`, "a\u202eb\u2028c\u200b": `a\u202eb\u2028c\u200b`,
	"\u009b31m": `\u009b31m`, "x\r\nERR forged": `x\r` + "\n  | ERR forged", "\b\f": `\u0008\u000c`, "\U000e0041": `\U000e0041`, "\t": "\t",
}

// Whatever is logged can be seen, on a terminal and in JSON, and is bounded.
func TestLogsAreVisible(t *testing.T) {
	for text, want := range hostileTexts {
		var console, lines bytes.Buffer
		for format, out := range map[string]*bytes.Buffer{"console": &console, "json": &lines} {
			log, err := New("info", format, out)
			if err != nil {
				t.Fatal(err)
			}
			log.Info().Str("field", text).Msg(text)
		}
		if !strings.Contains(console.String(), want) {
			t.Errorf("%q: %q, want %q", text, console.String(), want)
		}
		var line map[string]string
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line["message"] != text || line["field"] != text {
			t.Errorf("%q: %s: %v", text, lines.String(), err)
		}
		for _, out := range []string{strings.ReplaceAll(console.String(), "\t", ""), lines.String()} {
			if strings.ContainsFunc(out, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
				t.Errorf("%q: %q", text, out)
			}
		}
	}
	for _, format := range []string{"console", "json"} {
		for _, unit := range []string{"x", "\x1b", "\u202e", `"`} {
			var out bytes.Buffer
			log, _ := New("info", format, &out)
			log.Warn().Str("field", strings.Repeat(unit, 1<<18)).Msg(strings.Repeat(unit, 1<<18))
			if n := out.Len(); n > 6*maxField || !strings.Contains(out.String(), " bytes)") {
				t.Errorf("%s of %q: %d bytes", format, unit, n)
			}
		}
	}
}

// Short lines of ASCII are written as they are, and the level reaches the writer.
func TestVisiblePassesLevels(t *testing.T) {
	var got levels
	log := zerolog.New(visible{to: &got})
	log.Warn().Msg("plain")
	log.Error().Msg("größer")
	if want := (levels{zerolog.WarnLevel, zerolog.ErrorLevel}); got[0] != want[0] || got[1] != want[1] {
		t.Error(got)
	}
	line := []byte(`{"a":"b"}`)
	if n := testing.AllocsPerRun(10, func() { _, _ = visible{to: &bytes.Buffer{}}.Write(line) }); n > 2 {
		t.Errorf("%v allocations", n)
	}
}

// levels records the levels of lines.
type levels []zerolog.Level

func (l *levels) Write(p []byte) (int, error) { return l.WriteLevel(zerolog.NoLevel, p) }

func (l *levels) WriteLevel(at zerolog.Level, p []byte) (int, error) {
	*l = append(*l, at)
	return len(p), nil
}
