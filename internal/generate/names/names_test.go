package names

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		"create_issue": {"create", "issue"}, "createIssue": {"create", "Issue"}, "HTTPServer2Go": {"HTTPServer2", "Go"}, "a.b/c-d e": {"a", "b", "c", "d", "e"},
		"": nil, "../../.bashrc": {"bashrc"}, "$(rm -rf)\n": {"rm", "rf"}, "Größe": {"Größe"}, "标题": {"标题"}, "ﬁle": {"file"}, "e\u0301te": {"éte"},
		"v0A v9B v:C": {"v0", "A", "v9", "B", "v", "C"}, "a0z9": {"a0z9"}, "x\u06411": {"x\u06411"}, "ЯБв": {"ЯБв"}, "\u3041\u3096\u30a1\u30fa\u4e00\u9fa5\uac00\ud7a3": {"\u3041\u3096\u30a1\u30fa\u4e00\u9fa5\uac00\ud7a3"},
		"a\u9fa6b\u309fc": {"a", "b\u3088\u308ac"}, "a\ufe0fb": {"a", "b"}, "\u202ea": {"a"}, "a\u0301": {"á"}, "\u0301a": {"a"}, "𝐀b": {"Ab"}, "Ⅳ": {"IV"}, "İ": {"İ"},
	} {
		if got := Words(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAssign(t *testing.T) {
	snake := Style{Join: "_", Empty: "value", Reserved: Set("class from")}
	camel := Style{Capital: true, Empty: "value", Reserved: Set("class")}
	pascal := Style{Capital: true, First: true, Empty: "Value"}
	files := Files("_", "lib")
	long := strings.Repeat("very ", 30)
	for _, test := range []struct {
		style       Style
		texts, want []string
	}{
		{snake, []string{"createIssue", "from", "class", "3d", "", "Größe"}, []string{"create_issue", "from_", "class_", "n_3d", "value", "größe"}},
		{camel, []string{"create_issue", "class", "X-API-Key", "3d"}, []string{"createIssue", "class_", "xApiKey", "n_3d"}},
		{pascal, []string{"create_issue", "3d"}, []string{"CreateIssue", "N_3d"}},
		{Style{Join: "_", Upper: true, Empty: "VALUE"}, []string{"issue-tracker", "", "9a", "0a", "größe"}, []string{"ISSUE_TRACKER", "VALUE", "N_9A", "N_0A", "GRÖßE"}},
		{snake, []string{"0a", "9a", ":a"}, []string{"n_0a", "n_9a", "a"}},
		{snake, []string{strings.Repeat("a", maxIdentifier), strings.Repeat("a", maxIdentifier+1)}, []string{strings.Repeat("a", maxIdentifier), strings.Repeat("a", maxIdentifier) + "_" + hash(strings.Repeat("a", maxIdentifier+1), 0)}},
		{files, []string{"CON", "lib", "../../.bashrc", "Größe", "标题"}, []string{"con_", "lib_", "bashrc", "groe", "tool"}},
		// One that is its name keeps it; the others have a hash, in whichever order they come.
		{files, []string{"list_files", "List-Files", "listFiles"}, []string{"list_files", "list_files_" + hash("List-Files", 0), "list_files_" + hash("listFiles", 0)}},
		{files, []string{"listFiles", "list_files"}, []string{"list_files_" + hash("listFiles", 0), "list_files"}},
		{files, []string{"a b", "a-b"}, []string{"a_b_" + hash("a b", 0), "a_b_" + hash("a-b", 0)}},
		{snake, []string{long}, []string{cut(long) + "_" + hash(long, 0)}},
	} {
		got := test.style.Assign(test.texts)
		for i := range got {
			if got[i] != test.want[i] {
				t.Errorf("%q: %q, want %q", test.texts[i], got[i], test.want[i])
			}
		}
	}
}

func cut(text string) string { return strings.Join(strings.Fields(text), "_")[:maxIdentifier] }

// A name that somebody else has already, or wants, is not used for a hash.
func TestAssignedTwice(t *testing.T) {
	files := Files("_", "")
	first := "a_b_" + hash("A B", 0)
	got := files.Assign([]string{"A B", "a_b", first})
	if want := []string{"a_b_" + hash("A B", 1), "a_b", first}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzAssign(f *testing.F) {
	for _, s := range [][2]string{{"a", "A"}, {"../x", "x"}, {"CON", "con"}, {"", "\x00"}, {"a\u0301", "á"}, {"ſ", "s"}, {"ß", "ẞ"}, {"K", "k"}} {
		f.Add(s[0], s[1])
	}
	identifier := regexp.MustCompile(`^\p{L}[\p{L}\p{M}0-9_]*$`)
	styles := map[*regexp.Regexp]Style{regexp.MustCompile("^[a-z0-9_]+$"): Files("_", "lib"), identifier: {Join: "_", Empty: "value", Reserved: Set("class")}}
	f.Fuzz(func(t *testing.T, a, b string) {
		if a == b {
			return
		}
		for pattern, style := range styles {
			got, back := style.Assign([]string{a, b}), style.Assign([]string{b, a})
			if got[0] == got[1] || style.Fold && strings.EqualFold(got[0], got[1]) || got[0] != back[1] || got[1] != back[0] {
				t.Errorf("%q and %q: %q, in the other order %q", a, b, got, back)
			}
			for _, name := range got {
				if !pattern.MatchString(name) || style.Reserved[name] || len(name) > 2*maxIdentifier {
					t.Errorf("%q is not %s", name, pattern)
				}
			}
		}
	})
}
