package registry

import (
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

// Hidden values are those of the stored connection, if its address or command is the same.
func TestRestored(t *testing.T) {
	const child = `{"command":"npx","args":[],"env":{"A":"secret","B":"env:B"}}`
	const remote = `{"base_url":"https://u:pass@x.example/mcp?key=1","headers":{"A":"secret"}}`
	const secret = `{"command":"npx","args":["x","https://x.example/?a=b","--token=5ecret"],"env":{"A":"secret"}}`
	for _, test := range []struct{ stored, next, want string }{
		{child, `{"command":"npx","env":{"A":"(set, hidden)","C":"c"}}`, `{"command":"npx","env":{"A":"secret","C":"c"}}`},
		{child, `{"command":"npx","args":null,"env":{"A":"(set, hidden)"}}`, `{"args":null,"command":"npx","env":{"A":"secret"}}`},
		{child, `{"command":"npx","args":["x"],"env":{"A":"(set, hidden)"}}`, "env A"},
		{child, `{"command":"/bin/sh","env":{"A":"(set, hidden)"}}`, "env A"},
		{child, `{"command":"npx","env":{"B":"(set, hidden)","Z":"(set, hidden)"}}`, "env Z"},
		{child, `{"base_url":"https://x.example","headers":{"A":"(set, hidden)"}}`, "headers A"},
		{child, `{"command":"npx","args":"x","env":7}`, `{"args":"x","command":"npx","env":7}`},
		{remote, `{"base_url":"https://u:xxxxx@x.example/mcp?(hidden)","headers":{"A":"(set, hidden)"}}`, remote},
		{remote, `{"url":"https://u:xxxxx@x.example/mcp?(hidden)"}`, `{"url":"https://u:pass@x.example/mcp?key=1"}`},
		{remote, `{"base_url":"https://x.example/mcp","headers":{"A":"(set, hidden)"}}`, "headers A"},
		{remote, `{"base_url":"https://evil.example/?(hidden)","headers":{"A":"mine"}}`, `{"base_url":"https://evil.example/?(hidden)","headers":{"A":"mine"}}`},
		{remote, `{"base_url":"https://u:xxxxx@x.example/mcp?(hidden)","url":"https://evil.example/","headers":{"A":"(set, hidden)"}}`, "headers A"},
		{remote, `[]`, `[]`},
		{secret, `{"command":"npx","args":["x","https://x.example/?(hidden)","--token=(set, hidden)"],"env":{"A":"(set, hidden)"}}`, secret},
		{secret, `{"command":"npx","args":["y","https://x.example/?(hidden)"]}`, "args 1"},
		{secret, `{"command":"uvx","args":["x","https://x.example/?(hidden)","--token=t"]}`, "args 1"},
		{secret, `{"command":"npx","args":["y"],"env":{"A":"(set, hidden)"}}`, "env A"},
		{``, `{"command":"npx"}`, `{"command":"npx"}`},
	} {
		got, err := restored([]byte(test.next), []byte(test.stored))
		if err != nil {
			if words := strings.Fields(test.want); len(words) != 2 || !strings.Contains(err.Error(), "body.connection_config."+words[0]+"."+words[1]+": is hidden") || strings.Contains(err.Error(), ";") && strings.Count(err.Error(), "body.") != 1 {
				t.Errorf("%s of %s: %v, want %s", test.next, test.stored, err, test.want)
			}
			continue
		}
		if !equal(t, string(got), test.want) {
			t.Errorf("%s of %s: %s, want %s", test.next, test.stored, got, test.want)
		}
	}
}

// equal compares JSON.
func equal(t *testing.T, a, b string) bool {
	t.Helper()
	var all [2]any
	for i, text := range []string{a, b} {
		if err := json.Unmarshal([]byte(text), &all[i]); err != nil {
			return false
		}
	}
	x, _ := json.Marshal(all[0])
	y, _ := json.Marshal(all[1])
	return string(x) == string(y)
}
