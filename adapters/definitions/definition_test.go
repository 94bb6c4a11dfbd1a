package definitions

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"dragoman/adapters/catalogue"
	"dragoman/proxy/wire"
)

// value is a JSON value that can be written in several ways.
type value struct {
	members []member // of an object
	items   []value  // of an array
	text    string   // of a string
	raw     string   // of anything else
}

type member struct {
	name string
	value
}

// random returns a value of a depth at most.
func random(r *rand.Rand, depth int) value {
	kind := r.IntN(6)
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0:
		return value{raw: []string{"true", "false", "null"}[r.IntN(3)]}
	case 1:
		return value{raw: fmt.Sprint(r.IntN(1000))}
	case 4:
		v := value{items: []value{}}
		for range r.IntN(4) {
			v.items = append(v.items, random(r, depth-1))
		}
		return v
	case 5:
		v := value{members: []member{}}
		for i := range r.IntN(5) {
			v.members = append(v.members, member{fmt.Sprint(i, randomText(r)), random(r, depth-1)})
		}
		return v
	}
	return value{text: randomText(r)}
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(6) {
		b.WriteRune([]rune{'a', '"', '\\', '/', 'é', '\n', '😀', '\u202e', '<'}[r.IntN(9)])
	}
	return b.String()
}

// write writes a value with members in a random order, random blanks, and characters escaped at random.
func (v *value) write(r *rand.Rand, b *strings.Builder) {
	blank := func() { b.WriteString([]string{"", " ", "\n\t"}[r.IntN(3)]) }
	blank()
	switch {
	case v.members != nil:
		b.WriteByte('{')
		for i, at := range r.Perm(len(v.members)) {
			if i > 0 {
				b.WriteByte(',')
			}
			blank()
			writeText(r, b, v.members[at].name)
			blank()
			b.WriteByte(':')
			v.members[at].write(r, b)
		}
		b.WriteByte('}')
	case v.items != nil:
		b.WriteByte('[')
		for i := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.items[i].write(r, b)
		}
		b.WriteByte(']')
	case v.raw != "":
		b.WriteString(v.raw)
	default:
		writeText(r, b, v.text)
	}
	blank()
}

func writeText(r *rand.Rand, b *strings.Builder, text string) {
	b.WriteByte('"')
	for _, c := range text {
		if c < 0x10000 && (r.IntN(3) == 0 || c < ' ' || c == '"' || c == '\\') {
			fmt.Fprintf(b, `\u%04x`, c)
			continue
		}
		b.WriteRune(c)
	}
	b.WriteByte('"')
}

// hash writes a definition in a random way and returns its hash.
func hash(t *testing.T, r *rand.Rand, kind catalogue.Kind, v *value) [32]byte {
	t.Helper()
	var b strings.Builder
	v.write(r, &b)
	raw := []byte(strings.TrimSpace(b.String()))
	if _, err := wire.ScanValue(raw); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	d := Of(kind, "k", raw)
	if _, err := wire.ScanValue(d.Raw); err != nil {
		t.Fatalf("%s: %v", d.Raw, err)
	}
	return d.Hash
}

// The hash of a definition is that of each way to write it. Every member that a model sees changes it, and no other does.
func TestHash(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	unseen := []string{"_meta", "icons", "execution", "x"}
	for _, kind := range kinds {
		seen := visible[kind.String()]
		for range 300 {
			whole := value{members: []member{}}
			for _, name := range slices.Concat(seen, unseen) {
				if r.IntN(4) > 0 {
					whole.members = append(whole.members, member{name, random(r, 4)})
				}
			}
			want := hash(t, r, kind, &whole)
			for range 5 {
				if got := hash(t, r, kind, &whole); got != want {
					t.Fatalf("%s: another hash for %+v", kind, whole)
				}
			}
			for i := range whole.members {
				other := value{members: slices.Clone(whole.members)}
				other.members[i].value = value{items: []value{whole.members[i].value}}
				if changed := hash(t, r, kind, &other) != want; changed != slices.Contains(seen, whole.members[i].name) {
					t.Fatalf("%s: a change of %s changes the hash: %t", kind, whole.members[i].name, changed)
				}
				other = value{members: slices.Delete(slices.Clone(whole.members), i, i+1)}
				if changed := hash(t, r, kind, &other) != want; changed != slices.Contains(seen, whole.members[i].name) {
					t.Fatalf("%s: without %s the hash changes: %t", kind, whole.members[i].name, changed)
				}
			}
		}
	}
}

// A change deep in a schema changes the hash, wherever it is.
func TestHashOfEachPlace(t *testing.T) {
	const tool = `{"name":"a","title":"b","description":"c","inputSchema":{"type":"object","properties":{"p":{"description":"d","enum":["e",1,true,null]}}},"outputSchema":{"f":"g"},"annotations":{"readOnlyHint":true,"title":"h"}}`
	want := Of(catalogue.Tools, "a", []byte(tool)).Hash
	for at := range tool {
		if !strings.ContainsRune("abcdefgh1", rune(tool[at])) || tool[at-1] != '"' && tool[at] != '1' || at+1 < len(tool) && tool[at] != '1' && tool[at+1] != '"' {
			continue
		}
		other := tool[:at] + "2" + tool[at+1:]
		if Of(catalogue.Tools, "a", []byte(other)).Hash == want {
			t.Errorf("not changed by %s", other)
		}
	}
	for _, other := range []string{strings.Replace(tool, "true", "false", 1), strings.Replace(tool, "null", "0", 1), strings.Replace(tool, `["e",1`, `[1,"e"`, 1)} {
		if Of(catalogue.Tools, "a", []byte(other)).Hash == want {
			t.Errorf("not changed by %s", other)
		}
	}
}

// Some clients read a member whose name has other capitals, or the last one of a name twice.
func TestHashOfDoubtfulMembers(t *testing.T) {
	seen := map[[32]byte]string{}
	for _, raw := range []string{
		`{"name":"a","description":"b"}`, `{"name":"a","Description":"b"}`, `{"name":"a","description":"b","DESCRIPTION":"c"}`, `{"name":"a","description":"b","description":"c"}`,
		`{"name":"a","description":"c","description":"b"}`, `{"name":"a","description":"b","name":"c"}`, `{"name":"a"}`, `{"name":"a","description":null}`, `{"name":"a","description":["b"]}`,
	} {
		h := Of(catalogue.Tools, "a", []byte(raw)).Hash
		if seen[h] != "" {
			t.Errorf("%s and %s have one hash", raw, seen[h])
		}
		seen[h] = raw
	}
	if Of(catalogue.Tools, "a", []byte(`{"name":"a"}`)).Hash == Of(catalogue.Prompts, "a", []byte(`{"name":"a"}`)).Hash {
		t.Error("a prompt has the hash of a tool")
	}
	if OfInstructions("a").Hash == OfInstructions("b").Hash || OfInstructions("é").Hash != definition(Thing{Kind: Instructions}, []byte(`{ "instructions" : "\u00e9" }`)).Hash {
		t.Error("instructions")
	}
}

func TestChanged(t *testing.T) {
	for _, test := range []struct{ before, after, want string }{
		{`{"name":"a","description":"b"}`, `{"description":"\u0062","name":"a","_meta":{}}`, ""},
		{`{"name":"a","description":"b"}`, `{"name":"a","description":"c","inputSchema":{}}`, "description inputSchema"},
		{`{"name":"a","annotations":{"x":1}}`, `{"name":"a"}`, "annotations"},
		{`{"name":"a"}`, `{"name":"a","Title":"t"}`, "title"},
		{`{"name":"a","title":"t","TITLE":"t"}`, `{"name":"a","title":"u","TITLE":"t"}`, "title"},
	} {
		if got := strings.Join(Changed(catalogue.Tools, []byte(test.before), []byte(test.after)), " "); got != test.want {
			t.Errorf("%s to %s: %q, want %q", test.before, test.after, got, test.want)
		}
	}
	if Changed(catalogue.Resources, []byte(`{"uri":"a"}`), []byte(`{"uri":"b"}`)) != nil {
		t.Error("resources are data")
	}
}

// A difference names the places, and shows what is there without what people do not see.
func TestDifference(t *testing.T) {
	before := []byte(`{"name":"a","description":"old","inputSchema":{"type":"object","properties":{"p":{"description":"path"},"q":{}}},"annotations":{"x":true}}`)
	d := Of(catalogue.Tools, "a", []byte(`{"name":"a","description":"new\u001b[2J\u202e","inputSchema":{"properties":{"p":{"description":"path <!-- x -->"},"r":[1, 2]},"type":"object"},"title":"t"}`))
	got := held(&d, before)
	want := []Field{
		{"description", "old", `new\u001b[2J\u202e`}, {"inputSchema.properties.p.description", "path", "path <!-- x -->"}, {"inputSchema.properties.r", "", "[1, 2]"},
		{"inputSchema.properties.q", "{}", ""}, {"title", "", "t"}, {"annotations", `{"x":true}`, ""},
	}
	if got.State != StateChanged || !slices.Equal(got.Fields, want) {
		t.Errorf("%s %q", got.State, got.Fields)
	}
	if len(got.Hidden) != 3 || got.Hidden[2].Place != "inputSchema.properties.p.description" {
		t.Errorf("hidden %+v", got.Hidden)
	}
	many := `{"name":"a","inputSchema":{`
	for i := range 100 {
		many += fmt.Sprintf(`"k%d":"%s",`, i, strings.Repeat("é", 3000))
	}
	d = Of(catalogue.Tools, "a", []byte(many+`"z":1}}`))
	got = held(&d, []byte(`{"name":"a","inputSchema":{}}`))
	if len(got.Fields) != maxFields+1 || !strings.HasPrefix(got.Fields[maxFields].After, "more differs") || got.Fields[0].After != strings.Repeat("é", 2000)+" … and 1000 more characters" {
		t.Errorf("%d fields, %.20q", len(got.Fields), got.Fields[0].After)
	}
	many = `{"name":"a","inputSchema":{"k":0`
	for i := range maxFields {
		many += fmt.Sprintf(`,"k%d":1`, i)
	}
	d = Of(catalogue.Tools, "a", []byte(many+`}}`))
	if got := held(&d, []byte(`{"name":"a","inputSchema":{"k":0}}`)); len(got.Fields) != maxFields || got.Fields[maxFields-1].After != "1" {
		t.Errorf("as many as are shown: %+v", got.Fields)
	}
	d = Of(catalogue.Tools, "a", []byte(`{"name":"a","title":"t"}`))
	if got := held(&d, []byte(`{"name":"a","title":"t","title":"u"}`)); len(got.Fields) != 1 || got.Fields[0].Before == got.Fields[0].After {
		t.Errorf("a member twice: %+v", got)
	}
	d = Of(catalogue.Tools, "a", []byte(`{"name":"a"}`))
	if got := held(&d, nil); got.State != StateNew || !slices.Equal(got.Fields, []Field{{"name", "", "a"}}) {
		t.Errorf("new: %+v", got)
	}
}
