package events_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/cloudevents/sdk-go/v2/event"

	"dragoman/adapters/events"
	"dragoman/proxy/wire"
)

// seed is the example of seed 002, CloudEvent.
const seed = `{
  "id": "A234-1234-1234",
  "source": "urn:provider:hello-go",
  "type": "provider.metric.reported",
  "time": "2025-10-18T12:00:00Z",
  "specversion": "1.0",
  "data": {
    "metric": "tool_invocations",
    "value": 42
  }
}`

// with returns the example with members replaced; a nil value removes one.
func with(t *testing.T, changes map[string]any) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(seed), &m); err != nil {
		t.Fatal(err)
	}
	for name, value := range changes {
		if m[name] = value; value == nil {
			delete(m, name)
		}
	}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Each rule of seed 002 and of CloudEvents 1.0 refuses an event with an error that names the attribute.
func TestValidation(t *testing.T) {
	long := strings.Repeat("x", 1025)
	for name, x := range map[string]struct {
		changes map[string]any
		refuses string // attribute; empty: it is valid
	}{
		"the seed's example":             {nil, ""},
		"no data":                        {map[string]any{"data": nil}, ""},
		"an extension":                   {map[string]any{"correlationid": "c-1", "n": 5, "b": true}, ""},
		"subject":                        {map[string]any{"subject": "größe"}, ""},
		"a time with an offset":          {map[string]any{"time": "2025-10-18T12:00:00.123+02:00"}, ""},
		"json with a charset":            {map[string]any{"datacontenttype": "application/json; charset=utf-8"}, ""},
		"json of a vendor":               {map[string]any{"datacontenttype": "application/vnd.x+json"}, ""},
		"no id":                          {map[string]any{"id": nil}, "id"},
		"an empty id":                    {map[string]any{"id": ""}, "id"},
		"an id that is a number":         {map[string]any{"id": 5}, "id"},
		"a long id":                      {map[string]any{"id": long}, "id"},
		"an id with a line feed":         {map[string]any{"id": "a\nb"}, "id"},
		"no source":                      {map[string]any{"source": nil}, "source"},
		"a source with a space":          {map[string]any{"source": "urn:a b"}, "source"},
		"a source without a scheme":      {map[string]any{"source": "hello-go"}, "source"},
		"a source that is a scheme":      {map[string]any{"source": "urn:"}, "source"},
		"a source with a bad escape":     {map[string]any{"source": "http://h/%zz"}, "source"},
		"no type":                        {map[string]any{"type": nil}, "type"},
		"no time":                        {map[string]any{"time": nil}, "time"},
		"a time of another notation":     {map[string]any{"time": "18.10.2025"}, "time"},
		"a time without a zone":          {map[string]any{"time": "2025-10-18T12:00:00"}, "time"},
		"a time that is a number":        {map[string]any{"time": 1760788800}, "time"},
		"no specversion":                 {map[string]any{"specversion": nil}, "specversion"},
		"an old specversion":             {map[string]any{"specversion": "0.3"}, "specversion"},
		"data in base64":                 {map[string]any{"data_base64": "AAAA", "data": nil}, "data_base64"},
		"data of another type":           {map[string]any{"datacontenttype": "text/plain"}, "datacontenttype"},
		"a schema that is no URI":        {map[string]any{"dataschema": "schema.json"}, "dataschema"},
		"an extension with a capital":    {map[string]any{"correlationId": "c"}, "correlationId"},
		"an extension that is a list":    {map[string]any{"list": []int{1}}, "list"},
		"an extension of control chars":  {map[string]any{"ext": "\u0085"}, "ext"},
		"an extension of a noncharacter": {map[string]any{"ext": "\ufffe"}, "ext"},
		"the longest name":               {map[string]any{strings.Repeat("a", 64): "c"}, ""},
		"too long a name":                {map[string]any{strings.Repeat("a", 65): "c"}, strings.Repeat("a", 65)},
		"the longest id":                 {map[string]any{"id": long[:1024]}, ""},
		"the last year":                  {map[string]any{"time": "9999-12-31T23:59:59Z"}, ""},
		"the first year":                 {map[string]any{"time": "0001-01-01T00:00:01Z"}, ""},
		"a year that UTC makes the next": {map[string]any{"time": "9999-12-31T23:59:59-01:00"}, "time"},
		"data that is too large":         {map[string]any{"data": strings.Repeat("x", events.MaxSize)}, "data"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := events.Parse(with(t, x.changes))
			if x.refuses == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var invalid *events.InvalidError
			if !errors.As(err, &invalid) || invalid.Attribute != x.refuses {
				t.Errorf("%v; want a refusal of %s", err, x.refuses)
			}
		})
	}
	for _, raw := range []string{``, `[]`, `5`, `{`, `{"id":"a","id":"b"}`} {
		if _, err := events.Parse([]byte(raw)); err == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
	if _, err := events.Parse([]byte(strings.Replace(seed, `"id"`, `"id":"x","id"`, 1))); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v", err)
	}
	e := parsed(t, []byte(seed))
	e.Data = []byte(`{"a":`)
	if err := e.Validate(); err == nil || !strings.Contains(err.Error(), "data") {
		t.Errorf("data that is no JSON: %v", err)
	}
}

func parsed(t *testing.T, raw []byte) *events.Event {
	t.Helper()
	e, err := events.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// The SDK of CloudEvents reads what is written, in both modes, and holds it valid.
func TestTheSDKReadsIt(t *testing.T) {
	e := parsed(t, with(t, map[string]any{"subject": "a \"ü\" %20", "correlationid": "c 1", "dataschema": "https://example.com/s.json", "time": "2025-10-18T12:00:00.5+02:00"}))
	var got sdk.Event
	if err := got.UnmarshalJSON(e.AppendJSON(nil)); err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	if got.ID() != e.ID || got.Source() != e.Source || got.Type() != e.Type || got.Subject() != e.Subject || !got.Time().Equal(e.Time) || got.DataSchema() != e.DataSchema ||
		got.Extensions()["correlationid"] != "c 1" || string(got.Data()) != string(e.Data) || got.DataContentType() != "application/json" {
		t.Errorf("%s\n%s", got, e.AppendJSON(nil))
	}
	header := http.Header{}
	for _, h := range e.Headers() {
		header.Set(h.Name, h.Value)
	}
	want := map[string]string{"Content-Type": "application/json", "ce-id": "A234-1234-1234", "ce-source": "urn:provider:hello-go", "ce-subject": "a%20%22%C3%BC%22%20%2520",
		"ce-specversion": "1.0", "ce-time": "2025-10-18T12:00:00.5+02:00", "ce-type": "provider.metric.reported", "ce-correlationid": "c%201", "ce-dataschema": "https://example.com/s.json"}
	for name, value := range want {
		if header.Get(name) != value {
			t.Errorf("%s: %q, not %q", name, header.Get(name), value)
		}
	}
	if len(header) != len(want) {
		t.Errorf("%v", header)
	}
}

// Whatever Parse accepts, the SDK reads in the same way, and it stays the same when it is written and parsed again.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(seed))
	f.Add([]byte(`{"specversion":"1.0","id":"\ud800","source":"urn:x","type":"t","time":"2025-10-18T12:00:00Z"}`))
	f.Add([]byte(`{"specversion":"1.0","id":"1","source":"urn:x","type":"t","time":"2025-10-18T12:00:00Z","ext":1e3,"data":null}`))
	f.Add([]byte("{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"urn:x\",\"type\":\"t\",\"time\":\"0001-01-01T00:00:00+01:00\",\"data\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := events.Parse(raw)
		if err != nil {
			var invalid *events.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("%v", err)
			}
			return
		}
		text := e.AppendJSON(nil)
		again, err := events.Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if second := again.AppendJSON(nil); string(second) != string(text) || again.Key() != e.Key() {
			t.Fatalf("%s\n%s", text, second)
		}
		var of sdk.Event
		if err := of.UnmarshalJSON(text); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if of.ID() != e.ID || of.Type() != e.Type || of.Subject() != e.Subject || !of.Time().Equal(e.Time) {
			t.Fatalf("%s\n%s", of, text)
		}
		for _, h := range e.Headers() {
			if strings.ContainsFunc(h.Value, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
				t.Fatalf("%q", h)
			}
		}
	})
}

// An event is checked and sent to the sinks that want its type.
func TestEmitter(t *testing.T) {
	a, b := &recorder{}, &recorder{}
	one, two := newQueue(t, a, nil), newQueue(t, b, nil)
	var e events.Emitter
	if e.Wants("x") || e.Emit(&events.Event{}) != nil {
		t.Error("without sinks there is nothing to refuse")
	}
	(*events.Emitter)(nil).Report(events.Own{Type: "x"})
	e.Set(&events.Settings{Source: "urn:dragoman:test", Types: []string{"provider.*", "other", "test.event"}, Routes: []events.Route{{[]string{"provider.*"}, one}, {[]string{"*"}, two}}})
	if err := e.Emit(&events.Event{}); err == nil {
		t.Error("an empty event is accepted")
	}
	if err := e.Emit(parsed(t, []byte(seed))); err != nil {
		t.Fatal(err)
	}
	if err := e.Emit(event("other", 1)); err != nil {
		t.Fatal(err)
	}
	one.Close()
	two.Close()
	if len(a.all()) != 1 || len(b.all()) != 2 {
		t.Errorf("%d and %d events", len(a.all()), len(b.all()))
	}
	if accepted, invalid, refused := e.Stats(); accepted != 2 || invalid != 1 || refused != 0 {
		t.Errorf("%d accepted, %d invalid, %d refused", accepted, invalid, refused)
	}
}

// Size counts every text and an overhead of each extension.
func TestSize(t *testing.T) {
	e := &events.Event{}
	empty := e.Size()
	e.ID, e.Source, e.Type, e.Subject, e.DataContentType, e.DataSchema, e.Data = "1", "22", "4444", "88888888", strings.Repeat("x", 16), strings.Repeat("x", 32), make([]byte, 64)
	if got := e.Size() - empty; got != 127 {
		t.Error(got)
	}
	e.Extensions = map[string]string{"abc": "de"}
	if got := e.Size() - empty; got != 127+3+2+32 {
		t.Error(got)
	}
}

func event(source string, n int) *events.Event {
	return &events.Event{ID: number(n), Source: "urn:test:" + source, SpecVersion: events.SpecVersion, Type: "test.event", Time: time.Unix(1_800_000_000, 0).UTC(), Data: []byte(`{"n":` + number(n) + `}`)}
}

// An event of Dragoman's own is valid whatever peers have chosen in it.
func FuzzOwn(f *testing.F) {
	f.Add("files", "read", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("evil name/\x00\xff", "\u202e\x00\xff", strings.Repeat("x", 2000))
	f.Add("%zz", "", "\n")
	f.Add("s", strings.Repeat("\x00", 300), "") // wire.Shown makes six bytes of each
	f.Add("s", strings.Repeat("\xff", 300), "")
	f.Fuzz(func(t *testing.T, server, subject, trace string) {
		r := &recorder{}
		q := newQueue(t, r, nil)
		var e events.Emitter
		e.Set(&events.Settings{Source: "https://example.com/", Types: []string{"*"}, Routes: []events.Route{{Types: []string{"*"}, Queue: q}}})
		e.Report(events.Own{Type: "dev.dragoman.test", Server: server, Subject: subject, Trace: trace, Data: func(b *wire.Builder) { b.Text("server", wire.Shown(server)) }})
		q.Close()
		if _, invalid, _ := e.Stats(); invalid != 0 || len(r.got) != 1 {
			t.Fatalf("%d invalid", invalid)
		}
	})
}
