package schema

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

func TestRequestErrors(t *testing.T) {
	l := testdata(t)
	for _, c := range []struct{ method, arguments, want string }{
		{"Echo", `{"nobody":1}`, `grpc: arguments: at /nobody: unknown field "nobody"`},
		{"Echo", "{\n  \"words\": \"水\",\n  \"children\": [{}, {\"words\": \"é\", \"i32\": 2.5}]}", `grpc: arguments: at /children/1/i32: invalid value for int32 field i32: 2.5`},
		{"Echo", `{"byInt":{"x":{}}}`, `grpc: arguments: at /byInt/x: invalid value for int32 key: "x"`},
		{"Echo", `{"odd name/~":1}`, `grpc: arguments: at /odd name~1~0: invalid value for string field odd name/~: 1`},
		{"Echo", `{"left":1,"right":2}`, `grpc: arguments: at /right: error parsing "right", oneof every.v1.All.pair is already set`},
		{"Echo", `{"any":{"@type":"x/no.Type"}}`, `grpc: arguments: at /any/@type: unable to resolve`},
		{"Echo", `{"at":"yesterday"}`, `grpc: arguments: at /at: invalid google.protobuf.Timestamp value "yesterday"`},
		{"Echo", `{"words":`, `grpc: arguments: unexpected EOF`},
		{"Echo", `[]`, `grpc: arguments: syntax error unexpected token [`},
		{"Echo", `{"words":"a","words":"b"}`, `grpc: arguments: at /words: duplicate field "words"`},
		{"Old", `{}`, `grpc: arguments: required field old.Old.id not set`},
		{"When", `{"value":"x"}`, `grpc: arguments: at /value: invalid google.protobuf.Timestamp value "x"`},
		{"When", `{}`, `the member "value" is missing`},
		{"When", `{"value":"2024-01-01T00:00:00Z","x":1}`, `unexpected member x`},
		{"When", `"2024-01-01T00:00:00Z"`, `no JSON object`},
		{"Echo", strings.Repeat(`{"children":[`, 120) + strings.Repeat(`]}`, 120), `exceeded max recursion depth`},
		{"Free", strings.Repeat(`{"x":`, 120) + "1" + strings.Repeat(`}`, 120), `exceeded max recursion depth`},
	} {
		if _, err := l.tool(t, "every.v1.Every."+c.method).Request([]byte(c.arguments)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s:\n%v, want\n%s", c.method, clip([]byte(c.arguments)), err, c.want)
		}
	}
}

func TestRequest(t *testing.T) {
	l := testdata(t)
	for _, c := range []struct{ method, arguments, want string }{
		{"Echo", ``, ""},
		{"Echo", `{}`, ""},
		{"Echo", `{"words":"x","flag":true}`, "\x08\x01\x72\x01x"},
		{"Echo", `{"delimited":{"n":1}}`, string(protowire.AppendTag(nil, 72, protowire.StartGroupType)) + "\x08\x01" + string(protowire.AppendTag(nil, 72, protowire.EndGroupType))},
		{"When", `{"value":"1970-01-01T00:00:01Z"}`, "\x08\x01"},
		{"Free", `{}`, ""},
		{"Nothing", `{}`, ""},
		{"Masked", `{"value":"a,bC"}`, "\x0a\x01a\x0a\x03b_c"},
	} {
		if got, err := l.tool(t, "every.v1.Every."+c.method).Request([]byte(c.arguments)); err != nil || string(got) != c.want {
			t.Errorf("%s %s: %q %v, want %q", c.method, c.arguments, got, err, c.want)
		}
	}
}

func TestResponse(t *testing.T) {
	l := testdata(t)
	nested := []byte{}
	for range maxNesting + 1 {
		nested = protowire.AppendBytes(protowire.AppendTag(nil, 32, protowire.BytesType), nested)
	}
	for _, c := range []struct{ method, message, want, wrong string }{
		{"When", "\x08\x02", `{"value":"2s"}`, ""},
		{"Free", "\x1a\x03\" \\", `{"value":"\" \\"}`, ""},
		{"Free", "\x08\x00", `{"value":null}`, ""},
		{"Boxed", "\x08\x05", `{"value":"5"}`, ""},
		{"Nothing", "", `{}`, ""},
		{"Nothing", "\x08\x05", `{}`, ""}, // a field that is newer than the descriptors
		{"Listed", "\x0a\x01x", `"x"`, ""},
		{"Masked", "\x0a\x01x", `{"value":"eA=="}`, ""},
		{"Old", "\x0a\x01x", `{"id":"x","part":[]}`, ""},
		{"AnyOf", "\x0a\x05x/a.B\x12\x03\x00\xffz", `{"@type":"x/a.B","value":"AP96"}`, ""},
		{"AnyOf", "\x0a\x05x/a.B", `{"@type":"x/a.B","value":""}`, ""},
		{"AnyOf", "\x0a\x0ax/old.Part", `{"@type":"x/old.Part","value":""}`, ""},
		{"AnyOf", "\x0a\x0fx/every.v1.Leaf\x12\x03\x0a\x01y", `{"@type":"x/every.v1.Leaf","name":"y"}`, ""},
		{"AnyOf", "\x0a\x0fx/every.v1.Leaf\x12\x01\x0a", "", `unable to unmarshal "x/every.v1.Leaf"`},
		{"Old", "", "", "required field old.Old.id not set"},
		{"Echo", "\x72\x01\xff", "", "invalid UTF-8"},
		{"Echo", "\x08", "", "the response of every.v1.Every.Echo has no JSON form"},
		{"Echo", string(nested), "", "recursion"},
		{"Free", "", "", "google.protobuf.Value"},
	} {
		got, err := l.tool(t, "every.v1.Every."+c.method).Response([]byte(c.message))
		if string(got) != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s %q:\n%s %v, want\n%s %s", c.method, clip([]byte(c.message)), got, err, c.want, c.wrong)
		}
	}
	if got := string(Messages([][]byte{[]byte(`"x"`), []byte(`{}`)})); got != `{"messages":["x",{}]}` {
		t.Error(got)
	}
	if got := string(Messages(nil)); got != `{"messages":[]}` {
		t.Error(got)
	}
}

func TestCompact(t *testing.T) {
	for in, want := range map[string]string{
		`{"a b":  [1, "x \" y\\", {} ], "c": "\\"}`: `{"a b":[1,"x \" y\\",{}],"c":"\\"}`,
		"{ }":                    "{}",
		`["", "\\\" ", " \\\\"]`: `["","\\\" "," \\\\"]`,
		`"open`:                  `"open`, // is no JSON, and no reason to fail
	} {
		if got := string(compact([]byte(in))); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}
