package checkutil

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// Error codes of 2026-07-28.
const (
	ParseError        = -32700
	InvalidRequest    = -32600
	MethodNotFound    = -32601
	InvalidParams     = -32602
	HeaderMismatch    = -32020
	MissingCapability = -32021
	Unsupported       = -32022
)

// CodeName returns a code with its name.
func CodeName(code int) string {
	name := map[int]string{ParseError: "parse error", InvalidRequest: "invalid request", MethodNotFound: "method not found", InvalidParams: "invalid params",
		HeaderMismatch: "HeaderMismatch", MissingCapability: "MissingRequiredClientCapability", Unsupported: "UnsupportedProtocolVersion"}[code]
	return fmt.Sprintf("%d (%s)", code, name)
}

// Answer reads the message of a response, its body or the response in its stream; nil if there is none.
func Answer(t *suite.Trial, res *peer.Response) *peer.Message {
	var last *peer.Message
	if !res.Streams() {
		text, _ := res.Text()
		if m, err := peer.ReadMessage(text); err == nil {
			last = &m
		}
		return last
	}
	for {
		e, err := res.Next()
		if err != nil {
			return last
		}
		if m, err := peer.ReadMessage(e.Data); err == nil && m.Kind() == peer.IsResponse {
			return &m
		}
	}
}

// Failure describes an error response.
func Failure(m peer.Message) string {
	code, message, _ := m.Error()
	return "the error " + peer.Encode(code) + ": " + message
}

// FailedWith fails the trial unless the message is an error response with one of the codes; without codes any error passes.
func FailedWith(t *suite.Trial, m peer.Message, expected string, codes ...int) {
	if !m.Failed() {
		t.Fail(expected, "a result: %s", m.Raw)
		return
	}
	if code, _, _ := m.Error(); len(codes) > 0 && !slices.Contains(codes, code) {
		t.Fail(expected, "%s", Failure(m))
	}
}

// OfMethod returns the messages with a method.
func OfMethod(in []peer.Message, method string) (out []peer.Message) {
	for _, m := range in {
		if m.Method == method {
			out = append(out, m)
		}
	}
	return out
}

// OfKind returns the messages of a kind.
func OfKind(in []peer.Message, kind peer.Kind) (out []peer.Message) {
	for _, m := range in {
		if m.Kind() == kind {
			out = append(out, m)
		}
	}
	return out
}

// Equal reports whether two JSON values are equal.
func Equal(a, b any) bool { return peer.Encode(a) == peer.Encode(b) }

// HasText reports whether a result of a tool has a value in a text block, as JSON.
func HasText(result peer.Object, want any) bool {
	return slices.ContainsFunc(peer.List(result, "content"), func(block any) bool {
		v, err := peer.Decode(peer.Text(block, "text"))
		return err == nil && reflect.DeepEqual(v, want)
	})
}

// Excerpt returns a JSON value as evidence, at most about 200 bytes.
func Excerpt(v any) string { return peer.Cut(peer.Encode(v), 200) }

// Attempts is the number of attempts of a check that may fail by chance: on a busy machine the slow call may be the faster one.
const Attempts = 3

// Fences is the number of requests, one after the answer to the other, behind which nothing is expected any more of what was sent before.
// A server that handles messages concurrently may answer the first of them sooner than it sends what an earlier message causes.
const Fences = 3

// TakesTime is the minimum duration of a slow call: a shorter one blocks nothing.
const TakesTime = 50 * time.Millisecond

// Pause waits for an effect that no message announces.
func Pause(t *suite.Trial, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}
