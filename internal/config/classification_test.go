package config

import (
	"strings"
	"testing"

	"dragoman/adapters/classification"
	"dragoman/internal/testkit"
)

// The user's categories take the place of the standard set.
func TestCategories(t *testing.T) {
	cfg, err := load(t, testkit.WriteFile(t, "c.toml", ""), nil)
	if err != nil || len(cfg.Categories()) != len(classification.Standard()) {
		t.Fatal(err, cfg)
	}
	cfg, err = load(t, testkit.WriteFile(t, "c.toml", "[categories.lawn_care]\nkeywords = [\"mow\"]\n[categories.b2]\ndescription = \"x\"\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := cfg.Categories(); len(all) != 2 || all[0].Name != "b2" || all[0].Description != "x" || all[1].Name != "lawn_care" || len(all[1].Keywords) != 1 {
		t.Errorf("%+v", all)
	}
}

// A model that cannot be asked, and a key that others could read, are refused with what fixes it; the key is not shown.
func TestClassificationIsChecked(t *testing.T) {
	const llm = "[classification]\nmode = \"llm\"\nmodel = \"m\"\n"
	for _, c := range []struct{ text, want string }{
		{llm + "url = \"http://127.0.0.1:11434/v1\"\nkey = \"sk-secret\"", ""},
		{llm + "url = \"https://example.com/v1\"\nkey = \"sk-secret\"", ""},
		{llm + "url = \"http://models.example/v1\"", ""},
		{llm + "url = \"http://models.example/v1\"\nkey = \"sk-secret\"", "in the clear"},
		{llm, "classification.url"},
		{"[classification]\nmode = \"llm\"\nurl = \"http://127.0.0.1/v1\"", "classification.model"},
		{"[classification]\nurl = \"ftp://x\"", "not the URL of an endpoint"},
		{"[classification]\nurl = \"https://u:sk-secret@x/v1\"", "not the URL of an endpoint"},
		{"[classification]\nmode = \"magic\"", "is not known"},
		{"[categories.Bad-Name]\ndescription = \"x\"", "not a name for a category"},
		{"[categories.a]\nkeywords = [\" \"]", "is not a keyword"},
	} {
		_, err := load(t, testkit.WriteFile(t, "c.toml", c.text), nil)
		if got := errorLines(err, ""); c.want == "" && err != nil || !strings.Contains(got, c.want) || strings.Contains(got, "sk-secret") {
			t.Errorf("%s:\n%v, want %q", c.text, err, c.want)
		}
	}
}
