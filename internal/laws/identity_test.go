package laws

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// byPrincipal lists the files that may ask for a caller's principal, and why the users that share it need not be told apart there.
var byPrincipal = map[string]string{
	"proxy/client.go":                  "defines it",
	"proxy/session/store.go":           "sessions.max_per_principal",
	"adapters/era/input/store.go":      "questions.max_parked_per_principal",
	"adapters/era/relay/":              "max_processes_per_principal",
	"adapters/era/sessions/":           "max_processes_per_principal",
	"adapters/mcphttp/gates.go":        "limits.answer_bytes_per_principal",
	"internal/app/identity.go":         "makes it",
	"policies/access/":                 "makes it; rights",
	"policies/cache/cache.go":          "the size of a key",
	"policies/hook/question.go":        "a decision point knows principals; its answer is about what it was told",
	"policies/idempotency/":            "hashes the parts of an identity",
	"policies/limits/":                 "rates and limits",
	"policies/telemetry/":              "logs",
	"internal/config/":                 "configuration",
	"adapters/grpc/provider/asking.go": "a limit",
}

var principalUse = regexp.MustCompile(`\.Principal\b`)

// What belongs to a caller is bound to its Identity: several users may share a principal, told apart by forwarded headers. A use of the
// principal alone needs a reason.
func TestPrincipalIsNoIdentity(t *testing.T) {
	used := map[string]bool{}
	for _, root := range []string{"adapters", "policies", "proxy", "internal"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !principalUse.Match(text) {
				return err
			}
			allowed := false
			for prefix := range byPrincipal {
				if strings.HasPrefix(filepath.ToSlash(path), prefix) {
					allowed, used[prefix] = true, true
				}
			}
			if !allowed {
				t.Errorf("%s uses the principal of a caller; use its Identity, or name the reason in byPrincipal", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for prefix := range byPrincipal {
		if !used[prefix] {
			t.Errorf("nothing in %s uses a principal", prefix)
		}
	}
}
