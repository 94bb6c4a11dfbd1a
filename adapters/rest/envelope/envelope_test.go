package envelope

import (
	"testing"
	"time"

	"github.com/goccy/go-json"

	"dragoman/proxy"
)

// Seed 000, ResponseEnvelope: data on one side, error and code on the other; an id, a time, and what else is known.
func TestEnvelope(t *testing.T) {
	at := Timestamp(time.Date(2025, 12, 9, 13, 34, 56, 789_900_000, time.FixedZone("", 3600)))
	const id = "550e8400-e29b-41d4-a716-446655440000"
	for _, c := range []struct {
		e    Envelope
		want string
	}{
		{Envelope{Success: true, Data: json.RawMessage(`{"callers":["a"]}`), Meta: Meta{Timed: true, Took: 150900 * time.Microsecond}},
			`{"success":true,"data":{"callers":["a"]},"request_id":"` + id + `","timestamp":"2025-12-09T12:34:56.789Z","meta":{"execution_time_ms":150}}`},
		{Envelope{Error: `no "x"`, Code: proxy.NoSuchTool},
			`{"success":false,"error":"no \"x\"","code":"TOOL_NOT_FOUND","request_id":"` + id + `","timestamp":"2025-12-09T12:34:56.789Z"}`},
		{Envelope{Error: "late", Code: proxy.Unavailable, Meta: Meta{Timed: true, Took: -1, Limited: true, Remaining: -1, Replayed: true,
			Result: json.RawMessage(`{"isError":true}`), Cause: json.RawMessage(`{"code":-1}`), Retryable: true, RetryIn: 2}},
			`{"success":false,"error":"late","code":"SERVICE_UNAVAILABLE","request_id":"` + id + `","timestamp":"2025-12-09T12:34:56.789Z",` +
				`"meta":{"execution_time_ms":0,"rate_limit_remaining":0,"replayed":true,"result":{"isError":true},"cause":{"code":-1},"retryable":true,"retry_after":2}}`},
	} {
		c.e.RequestID, c.e.Timestamp = id, at
		if got := string(c.e.AppendJSON(nil)); got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s\nwant\n%s", got, c.want)
		}
	}
}

// Seed 000: request_id is a UUID of version 4.
func TestRequestID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := NewRequestID()
		if !ValidRequestID(id) || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
	for id, want := range map[string]bool{
		"550e8400-e29b-41d4-a716-446655440000": true, "550E8400-E29B-41D4-B716-446655440000": true, "550e8400-e29b-41d4-8716-446655440000": true,
		"550e8400-e29b-11d4-a716-446655440000": false, "550e8400-e29b-41d4-c716-446655440000": false, "550e8400e29b41d4a716446655440000": false,
		"550e8400-e29b-41d4-a716-44665544000g": false, "": false, "{550e8400-e29b-41d4-a716-446655440000}": false,
		"550e8400-e29b-41d4-a716-4466554400000": false, "550e8400_e29b-41d4-a716-446655440000": false,
	} {
		if ValidRequestID(id) != want {
			t.Errorf("%q: %v", id, !want)
		}
	}
}

// Seed 000, HTTP Status Code Mapping.
func TestEnvelopeStatus(t *testing.T) {
	want := map[proxy.EnvelopeCode]int{"TOOL_NOT_FOUND": 404, "INVALID_ARGUMENTS": 400, "EXECUTION_ERROR": 500, "INTERNAL_ERROR": 500, "TIMEOUT": 504,
		"RATE_LIMITED": 429, "SERVICE_UNAVAILABLE": 503}
	for _, c := range proxy.EnvelopeCodes() {
		if c.Status() != want[c] {
			t.Errorf("%s: %d", c, c.Status())
		}
		delete(want, c)
	}
	if len(want) > 0 {
		t.Error(want)
	}
}
