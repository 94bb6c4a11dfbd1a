// Package rest holds the checks of services that offer tools in the REST envelope.
package rest

import (
	"slices"
	"strings"
	"sync"

	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const (
	pageEnvelope = "REST envelope §ResponseEnvelope"
	pageCodes    = "REST envelope §ErrorCode"
)

// All returns the checks of services with the REST envelope.
func All() []*suite.Check {
	all := slices.Concat(restEnvelope(), restFailures(), restRefusals(), restService())
	for _, c := range all {
		c.Faces = restFace
	}
	return all
}

func restEnvelope() []*suite.Check {
	return append([]*suite.Check{
		{
			ID: "rest.success", Title: "Answers a call that works with data, and without error and code", Level: suite.Must, Page: pageEnvelope,
			Statement: "With success true, data is there, an object, and error and code are null or absent; the status is 200.",
			Why:       "Callers that look at one of them take a good answer for a bad one.",
			Fix:       "Build the envelope in one function that takes either data or an error, never both.",
			Run: func(t *suite.Trial) {
				a := succeeded(t)
				if _, ok := a.body["data"].(peer.Object); a.status != 200 || a.body["success"] != true || !ok || a.body["error"] != nil || a.body["code"] != nil {
					t.Fail("status 200, success true, data an object, no error and no code", "%s", a)
				}
			},
		},
		{
			ID: "rest.failure", Title: "Answers a call that fails with error and code, and without data", Level: suite.Must, Page: pageEnvelope,
			Statement: "With success false, error (a text) and code are there, and data is null or absent.",
			Why:       "Callers go on with half an answer, or cannot tell what went wrong.",
			Fix:       "Build the envelope in one function that takes either data or an error, never both.",
			Run: func(t *suite.Trial) {
				a := unknownTool(t)
				if a.body["success"] != false || peer.Text(a.body, "error") == "" || a.body["data"] != nil || restCodes()[peer.Text(a.body, "code")] == 0 {
					t.Fail("success false, error a text, one of the seven codes, no data", "%s", a)
				}
			},
		},
		{
			ID: "rest.content-type", Title: "Answers as application/json", Level: suite.Must, Page: pageEnvelope,
			Statement: "Every answer is JSON, failures too.",
			Why:       "Libraries decide by the Content-Type whether they decode the body.",
			Fix:       "Set Content-Type: application/json on every answer, in the handlers of errors as well.",
			Run: func(t *suite.Trial) {
				for _, a := range []restAnswer{rest(t, "GET", "/tools", ""), rest(t, "GET", "/health", ""), unknownTool(t)} {
					if a.kind != "application/json" {
						t.Fail("Content-Type application/json", "%q", a.kind)
					}
				}
			},
		},
		{
			ID: "rest.timestamp", Title: "Gives the time of its answer, with milliseconds and Z", Level: suite.Must, Page: pageEnvelope,
			Statement: "timestamp is ISO 8601 in UTC with milliseconds and Z, on every envelope.",
			Why:       "Logs of several services cannot be put in order, and strict parsers fail.",
			Fix:       "Format the time in UTC as YYYY-MM-DDThh:mm:ss.sssZ, with three digits also where they are 0.",
			Run: func(t *suite.Trial) {
				for _, a := range []restAnswer{succeeded(t), unknownTool(t)} {
					if wrong := rightTime(a.body["timestamp"]); wrong != "" {
						t.Fail(wrong, "%s", peer.Encode(a.body["timestamp"]))
					}
				}
			},
		},
		{
			ID: "rest.execution-time", Title: "Gives execution times as whole milliseconds", Level: suite.Must, Page: pageEnvelope,
			Statement: "meta.execution_time_ms, where it is there, is an integer that is not negative; meta is an object.",
			Why:       "Callers that decode it into an integer fail on the whole answer.",
			Fix:       "Round to whole milliseconds, and measure with a clock that does not go back.",
			Run: func(t *suite.Trial) {
				for _, a := range []restAnswer{succeeded(t), unknownTool(t)} {
					meta, ok := a.body["meta"].(peer.Object)
					if v := meta["execution_time_ms"]; !ok && a.body["meta"] != nil || v != nil && !natural(v) {
						t.Fail("a whole number from 0 on", "%s", peer.Encode(a.body["meta"]))
					}
				}
			},
		},
	}, restIDs()...)
}

const (
	givenID  = "550e8400-e29b-41d4-a716-446655440002"
	pageTool = "REST envelope §ToolRequest"
)

func restIDs() []*suite.Check {
	return []*suite.Check{
		{
			ID: "rest.request-id", Title: "Gives each answer a UUID of version 4", Level: suite.Must, Page: pageEnvelope,
			Statement: "request_id is a UUID of version 4, on success and on failure; the service makes one where the caller gives none.",
			Why:       "An answer cannot be found in the logs.",
			Fix:       "Make a UUID of version 4 for each request that brings none, before anything can fail.",
			Run: func(t *suite.Trial) {
				seen := make(map[string]bool)
				for _, a := range []restAnswer{succeeded(t), unknownTool(t), restCall(t, `{bad`)} {
					id := peer.Text(a.body, "request_id")
					if !isUUID4.MatchString(id) {
						t.Fail("a UUID of version 4", "%s", a)
					} else if seen[strings.ToLower(id)] {
						t.Fail("another request_id for each request", "%s twice", id)
					}
					seen[strings.ToLower(id)] = true
				}
			},
		},
		{
			ID: "rest.request-id-kept", Title: "Keeps the caller's request_id", Level: suite.Must, Page: pageEnvelope + "; §ToolRequest",
			Statement: "A request_id of the request comes back in the answer, on success and on failure.",
			Why:       "The caller cannot find its request in the logs of the service.",
			Fix:       "Read request_id from the body first, and put it into whatever is answered.",
			Run: func(t *suite.Trial) {
				a := restCall(t, `{"tool":"dragoman_no_such_tool","arguments":{},"request_id":"`+givenID+`"}`)
				if strings.ToLower(peer.Text(a.body, "request_id")) != givenID {
					t.Fail("request_id "+givenID, "%s", a)
				}
			},
		},
		{
			ID: "rest.request-id-bad", Title: "Answers a request_id that is not a UUID with one that is", Level: suite.Must, Page: pageEnvelope + "; §ToolRequest",
			Statement: "A request_id that is given must be a UUID of version 4; that of the answer is one in any case.",
			Why:       "What a caller writes stands in logs unchecked, and clients that parse it fail.",
			Fix:       "Refuse the request with INVALID_ARGUMENTS, or make a new request_id; never repeat a wrong one.",
			Run: func(t *suite.Trial) {
				a := restCall(t, `{"tool":"dragoman_no_such_tool","arguments":{},"request_id":"not a UUID"}`)
				if !isUUID4.MatchString(peer.Text(a.body, "request_id")) {
					t.Fail("a UUID of version 4", "%s", a)
				}
			},
		},
		{
			ID: "rest.parallel", Title: "Keeps the answers of requests apart that run at the same time", Level: suite.Must, Page: pageEnvelope,
			Statement: "request_id correlates: of several requests at a time each gets its own back.",
			Why:       "A caller gets the answer to another request, or to another caller.",
			Fix:       "Keep the request_id with the request, not in a variable of the service.",
			Run:       restParallel,
		},
	}
}

func restParallel(t *suite.Trial) {
	var work sync.WaitGroup
	for i := range 8 {
		id := givenID[:len(givenID)-1] + string("0123456789"[i])
		work.Go(func() {
			res, err := t.Target.HTTP.Send(t.Context(), peer.Request{URL: suite.RESTPath(t.Target, "/call-tool"),
				Header: peer.Fields{{Name: "Content-Type", Value: "application/json"}},
				Body:   `{"tool":"dragoman_no_such_tool","arguments":{},"request_id":"` + id + `"}`}, t.Watch)
			if err != nil {
				t.Fail("an answer", "%v", err)
				return
			}
			defer res.Close()
			text, _ := res.Text()
			if v, _ := peer.Decode(text); strings.ToLower(peer.Text(v, "request_id")) != id {
				t.Fail("request_id "+id, "%s", text)
			}
		})
	}
	work.Wait()
}
