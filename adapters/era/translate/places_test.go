package translate

import (
	"fmt"
	"strings"
	"testing"

	"dragoman/adapters/rules"
	"dragoman/proxy/wire"
)

// Dropping members by position gives the same object as parsing it.
func TestDropIsEditObject(t *testing.T) {
	members := [...]string{`"resultType":"complete"`, `"content":[{"a":[1,{"b":"]}"}]}]`, `"inputRequests" : {"a":{}}`, `"_meta":{"x":{}}`}
	var orders func(used int, list []string)
	count := 0
	orders = func(used int, list []string) {
		for _, comma := range []string{",", " , ", ",\n\t"} {
			for _, edge := range []string{"", " "} {
				count++
				result := "{" + edge + strings.Join(list, comma) + edge + "}"
				raw := `{"jsonrpc":"2.0","id":1,"result":` + result + `}`
				a, err := wire.Scan([]byte(raw))
				if err != nil {
					t.Fatal(raw, err)
				}
				b := a
				if !drop(&a, knownMember{"resultType", a.ResultType}, knownMember{"inputRequests", a.InputRequests}, knownMember{"_meta", a.Meta}) {
					t.Fatalf("not dropped from %s", raw)
				}
				b.EditObject(b.Result, []wire.Change{{Key: "resultType"}, {Key: "inputRequests"}, {Key: "_meta"}})
				if got, want := string(a.Append(nil)), string(b.Append(nil)); got != want {
					t.Errorf("%s:\n%s, want\n%s", raw, got, want)
				}
			}
		}
		for i, m := range members {
			if used&(1<<i) == 0 {
				orders(used|1<<i, append(list[:len(list):len(list)], m))
			}
		}
	}
	orders(0, nil)
	if count != 6*65 {
		t.Errorf("%d orders", count)
	}
}

// Members written in an unusual way are left to the slow path.
func TestDropLeavesWhatIsUnusual(t *testing.T) {
	m, err := wire.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"result\u0054ype":"complete","_meta":{}}}`))
	if err != nil || !m.ResultType.Present() {
		t.Fatal(err)
	}
	if drop(&m, knownMember{"_meta", m.Meta}, knownMember{"resultType", m.ResultType}) || len(m.Edits) > 0 {
		t.Errorf("dropped: %s", m.Append(nil))
	}
}

func TestExtend(t *testing.T) {
	for object, want := range map[string]string{`{}`: `{"b":2}`, `{ }`: `{ "b":2}`, `{"a":1}`: `{"a":1,"b":2}`, "{\n\"a\":1\n}": "{\n\"a\":1\n,\"b\":2}"} {
		m, err := wire.Scan([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, object)))
		if err != nil {
			t.Fatal(err)
		}
		Extend(&m, m.Result, []byte(`,"b":2`))
		if got := string(m.Append(nil)); !strings.HasSuffix(got, want+"}") {
			t.Errorf("%s: %s", object, got)
		}
	}
}

// The fast paths for results give the same outcome as the slow ones.
func TestLegacyPlain(t *testing.T) {
	for result, plain := range map[string]bool{
		`{"content":[]}`: true,
		`{"content":[{"type":"text","text":"requestState structuredContent \u0072"}]}`: true,
		`{"resultType":"complete","content":[],"requestState":"s"}`:                    true,
		`{"request\u0053tate":"s","content":[]}`:                                       false, // its key is not as it is searched for
		`{"content":[],"structuredContent":{"a":1}}`:                                   true,
		`{"content":[],"structuredContent":[1]}`:                                       false,
		`{"content":[],"structured\u0043ontent":7}`:                                    false,
	} {
		raw := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":%s}`, result))
		m, err := wire.Scan(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := legacyPlain(&m, "tools/call", rules.LegacyVersion); got != plain {
			t.Errorf("%s: plain is %v", result, got)
		}
		again, _ := wire.Scan(raw)
		LegacyResult(&again, "tools/call", rules.LegacyVersion)
		slow, _ := wire.Scan(raw)
		slow.EditObject(slow.Result, append([]wire.Change{{Key: "resultType"}, {Key: "inputRequests"}, {Key: "requestState"}}, olderContent(&slow, rules.LegacyVersion)...))
		if got, want := string(again.Append(nil)), string(slow.Append(nil)); got != want {
			t.Errorf("%s: %s, want %s", result, got, want)
		}
	}
}

// A legacy client's call loses what only modern servers may see, and keeps its own _meta.
func TestStripLegacy(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"a","arguments":{"requestState":1}}`:                                `{"name":"a","arguments":{"requestState":1}}`,
		`{"name":"a","arguments":{},"requestState":"s","_meta":{"progressToken":1}}`: `{"name":"a","arguments":{},"_meta":{"progressToken":1}}`,
		`{"task":{},"name":"a","arguments":{}}`:                                      `{"name":"a","arguments":{}}`,
		`{"name":"a","_meta":{"x":1}}`:                                               `{"name":"a","_meta":{"x":1},"arguments":{}}`,
	} {
		m, err := wire.Scan([]byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`, params)))
		if err != nil {
			t.Fatal(err)
		}
		Strip(&m, false, nil)
		if got := string(m.Append(nil)); !strings.HasSuffix(got, `"params":`+want+"}") {
			t.Errorf("%s: %s", params, got)
		}
	}
}
