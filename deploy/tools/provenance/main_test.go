package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const want = `{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [
    {
      "name": "a",
      "digest": {
        "sha256": "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
      }
    },
    {
      "name": "b",
      "digest": {
        "sha256": "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
      }
    }
  ],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "https://example.com/type",
      "externalParameters": {
        "version": "v1.2.3"
      },
      "resolvedDependencies": [
        {
          "digest": {
            "gitCommit": "0123456789012345678901234567890123456789"
          },
          "uri": "git+https://example.com/x"
        },
        {
          "digest": {
            "sha256": "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d"
          },
          "uri": "https://example.com/go.sum"
        }
      ]
    },
    "runDetails": {
      "builder": {
        "id": "https://example.com/builder"
      }
    }
  }
}
`

func TestStatement(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b := build{
		builder: "https://example.com/builder", kind: "https://example.com/type",
		parameters: pairs{{"version", "v1.2.3"}},
		sources:    pairs{{"git+https://example.com/x", "0123456789012345678901234567890123456789"}},
		materials:  pairs{{"https://example.com/go.sum", filepath.Join(dir, "b")}},
		files:      pairs{{"b", filepath.Join(dir, "b")}, {"a", filepath.Join(dir, "a")}},
	}
	var out bytes.Buffer
	if err := b.write(&out); err != nil || out.String() != want {
		t.Errorf("%v\n%s", err, out.String())
	}
	for _, wrong := range []build{{}, {builder: b.builder, kind: b.kind, parameters: b.parameters}, {builder: b.builder, kind: b.kind, files: pairs{{"c", filepath.Join(dir, "c")}}}} {
		if err := wrong.write(&out); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
	for _, text := range []string{"", "a", "=b", "a="} {
		if err := new(pairs).Set(text); err == nil || !strings.Contains(err.Error(), "NAME=VALUE") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
