package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-json"
)

const (
	guideFile = "docs/troubleshooting.md"
	helpFile  = "internal/cli/error_help.json" // which errorHelp embeds
)

// ownWords is a message without a fixed part.
const ownWords = "{…}"

// markdownLink is a link, which a terminal shows as its text.
var markdownLink = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)

var messagesOf = regexp.MustCompile(`(?s)### .([a-z_]+).\n(.*?)<!-- messages of ([a-z_]+) -->\n(.*?)<!-- end -->\n`)

// The troubleshooting guide has every row of the error table with every message, cause and fix. -update-templates rewrites the messages.
func TestErrorTemplatesInTheGuide(t *testing.T) {
	guide, err := os.ReadFile(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(templatesFile) // not the embedded one, which may be older
	if err != nil {
		t.Fatal(err)
	}
	var templates map[string][]string
	if err := json.Unmarshal(table, &templates); err != nil {
		t.Fatal(err)
	}
	rows, err := errorRows()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, r := range rows {
		want[r.InternalCode] = guideRow(r, templates[r.InternalCode])
	}
	seen, help := map[string]bool{}, map[string]string{}
	fresh := messagesOf.ReplaceAllStringFunc(string(guide), func(text string) string {
		m := messagesOf.FindStringSubmatch(text)
		name := m[1]
		if seen[name] || name != m[3] || want[name] == "" {
			t.Errorf("%s: %s is duplicated, has another row's messages, or is no row", guideFile, name)
		}
		if seen[name] = true; len(strings.TrimSpace(m[2])) < 20 {
			t.Errorf("%s: %s lacks a cause or a fix", guideFile, name)
		}
		help[name] = strings.TrimSpace(markdownLink.ReplaceAllString(m[2], "$1"))
		return strings.Replace(text, m[4]+"<!-- end -->", want[name]+"<!-- end -->", 1)
	})
	for name := range want {
		if !seen[name] {
			t.Errorf("%s lacks %s: write a section ### `%s` with cause and fix, and below it\n<!-- messages of %s -->\n<!-- end -->", guideFile, name, name, name)
		}
	}
	helpText, err := json.MarshalIndentWithOption(help, "", "  ", json.DisableHTMLEscape())
	if err != nil {
		t.Fatal(err)
	}
	helpText = append(helpText, '\n')
	embedded, readErr := os.ReadFile(helpFile)
	switch {
	case *updateTemplates:
		if err := errors.Join(os.WriteFile(guideFile, []byte(fresh), 0o644), os.WriteFile(helpFile, helpText, 0o644)); err != nil {
			t.Fatal(err)
		}
	case readErr != nil || !bytes.Equal(embedded, helpText):
		t.Errorf("%s differs from %s (%v); write it anew with: go test ./internal/cli -run TestErrorTemplates -update-templates", helpFile, guideFile, readErr)
	case fresh != string(guide):
		t.Errorf("%s differs from the messages of the code; rewrite them with: go test ./internal/cli -run TestErrorTemplates -update-templates", guideFile)
	}
}

// guideRow is the guide's section of a row, without the messages.
func guideRow(r errorRow, templates []string) string {
	var b strings.Builder
	again := "retryable: no"
	if r.Retryable {
		again = "retryable: yes"
	}
	fmt.Fprintf(&b, "\nJSON-RPC %d, HTTP %d; REST `%s`, %d; %s. It says:\n", r.JSONRPCCode, r.HTTPStatus, r.EnvelopeCode, r.RESTStatus, again)
	for _, text := range templates {
		fence := "`"
		if strings.Contains(text, fence) {
			fence = "``"
		}
		if text == ownWords {
			text, fence = "words of the case", ""
		}
		fmt.Fprintf(&b, "- %s%s%s\n", fence, text, fence)
	}
	return b.String()
}
