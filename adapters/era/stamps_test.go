package era

import (
	"testing"

	"dragoman/proxy"
)

// What is remembered of clients is that of each: of the same length, of another level, for another method.
func TestStamps(t *testing.T) {
	var x stamps
	clients := []proxy.Client{
		{Version: LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"roots":{}}`)},
		{Version: LegacyVersion, Info: []byte(`{"name":"b"}`), Caps: []byte(`{"roots":{}}`)},
		{Version: LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"other":1}`)},
		{Version: "2025-06-18", Info: []byte(`{"name":"a"}`), Caps: []byte(`{"elicitation":{"form":{}}}`)},
		{Version: LegacyVersion, Info: []byte(`{"name":"a"}`), Caps: []byte(`{"roots":{}}`), LogLevel: "info"},
		{Version: LegacyVersion},
	}
	for round := range 2 {
		for i := range clients {
			for _, tasks := range []bool{false, true} {
				want := `,"_meta":` + string(object(stamp(&clients[i], tasks)))
				if got := string(x.of(&clients[i], tasks)); got != want {
					t.Errorf("round %d, client %d: %s, want %s", round, i, got, want)
				}
			}
		}
	}
	borrowed := []byte(`{"name":"c"}`)
	c := proxy.Client{Version: LegacyVersion, Info: borrowed}
	first := string(x.of(&c, false))
	copy(borrowed, `{"name":"d"}`)
	if second := string(x.of(&c, false)); first == second {
		t.Errorf("%s, then %s", first, second)
	}
}
