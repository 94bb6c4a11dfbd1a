package command

import (
	"slices"
	"strings"
	"testing"
)

// Arguments that hold a secret by their form are found, and said without it; others are not.
func TestSecrets(t *testing.T) {
	const s = "5ecretValue1234567890"
	for _, args := range [][]string{
		{"--token=" + s}, {"--api-key", s}, {"--apiKey=" + s}, {"-e", "GITHUB_TOKEN=" + s}, {"GITHUB_PERSONAL_ACCESS_TOKEN=" + s}, {"--env=DB_PASSWORD=" + s}, {"--client-secret", s},
		{"--header", "Authorization: Bearer " + s}, {"--header", "authorization:" + s}, {"X-API-Key: " + s}, {"-H", "X-Auth-Token: " + s}, {"bearer " + s}, {"Basic " + s},
		{"https://me:" + s + "@example.com/"}, {"postgres://me:" + s + "@db/x"}, {"--url=https://x.example/?api_key=" + s}, {"https://x.example/?a=b&access_token=" + s},
		{"ghp_" + s}, {"github_pat_" + s}, {"sk-" + s}, {"xoxb-" + s}, {"AKIAABCDEFGHIJKLMNOP"}, {"eyJhbGciOi1.eyJzdWIiOi1.abcdefgh-1"}, {"-----BEGIN PRIVATE KEY-----" + s}, {"--password", s, "x"},
		{"--pat", s}, {"drg_" + s},
	} {
		found := Secrets(args)
		if len(found) != 1 || strings.Contains(found[0].What, "5ecret") || found[0].What == "" {
			t.Errorf("%q: %+v", args, found)
			continue
		}
		if text := strings.Join(Shown(args), " "); strings.Contains(text, "5ecret") || strings.Contains(text, "AKIA") || !strings.Contains(text, "(set, hidden)") {
			t.Errorf("%q is shown as %q", args, text)
		}
	}
	for _, args := range [][]string{
		{"-y", "@scope/server@1.2.3", "/srv"}, {"--token=$TOKEN"}, {"--token", "${TOKEN}"}, {"--token", "--verbose"}, {"--token="}, {"--header", "Authorization: Bearer ${AUTH}"}, {"Authorization:${AUTH_HEADER}"},
		{"--max-tokens", "100"}, {"--token-file", "/run/token"}, {"--tokenizer=x"}, {"--key", "server.pem"}, {"--api-key-env", "OPENAI"}, {"-e", "GITHUB_TOKEN"}, {"https://example.com/mcp"},
		{"https://me@example.com/"}, {"https://me:${PW}@example.com/"}, {`C:\tokens\server.js`}, {"--port=80"}, {"sk-1"}, {"basic auth"}, {"Basic authentication for all"}, {"bearer tokens"}, {"--filter=name=x"}, {"--api-key=env:KEY"}, {"token"}, {"monkey=1"},
	} {
		if found := Secrets(args); len(found) != 0 {
			t.Errorf("%q: %+v", args, found)
		}
	}
	shown := Shown([]string{"x", "--url=https://me@example.com/a?b=c", "https://example.com/a", "--token=" + s})
	if want := []string{"x", "--url=https://me@example.com/a?(hidden)", "https://example.com/a", "--token=(set, hidden)"}; !slices.Equal(shown, want) {
		t.Errorf("%q, want %q", shown, want)
	}
}
