package legacy

import (
	"strings"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

const pageSession = "basic/transports §Session Management"

// sessionChecks covers the sessions of streamable HTTP.
func sessionChecks() []*suite.Check {
	needs := []suite.Need{suite.NeedsSession}
	return []*suite.Check{
		{
			ID: "session.visible-ascii", Title: "Gives session ids of visible ASCII characters", Level: suite.Must, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "A session id consists of the characters 0x21 to 0x7E.",
			Why:       "Other characters are changed or refused on their way through headers, and the session is lost.",
			Fix:       "Make session ids of letters, digits and dashes: a random UUID is one.",
			Run: func(t *suite.Trial) {
				res := t.Send(peer.Request{Header: checkutil.LegacyHead(nil), Body: checkutil.Initialize(t.Revision)})
				id := res.Header.Get("Mcp-Session-Id")
				if strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
					t.Fail("characters from 0x21 to 0x7E", "%q", id)
				}
			},
		},
		{
			ID: "session.unguessable", Title: "Gives each session an unguessable id of its own", Level: suite.Should, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "Session ids are unique in the world and cryptographically secure.",
			Why:       "An attacker who guesses the id of a session reads its answers and acts in its name.",
			Fix:       "Take a UUID of version 4 or 128 bits of a cryptographic random generator, anew for each initialize.",
			Run:       unguessable,
		},
		{
			ID: "session.missing-400", Title: "Refuses requests without their session id with 400", Level: suite.Should, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "A server that needs a session id answers requests without one, other than initialize, with 400.",
			Why:       "The request runs in no session, or in another client's, and the client does not learn of its mistake.",
			Fix:       "Answer 400 where Mcp-Session-Id is missing and the method is not initialize.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				res := t.Send(peer.Request{Header: checkutil.LegacyHead(c, peer.Drop("Mcp-Session-Id")), Body: checkutil.Ping("1")})
				checkutil.WantStatus(t, res, "status 400", checkutil.IsStatus(400))
			},
		},
		{
			ID: "session.unknown-404", Title: "Refuses session ids that it never gave with 404", Level: suite.Should, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "A session that is over is answered with 404; one that never was is no different after a restart.",
			Why:       "Clients begin anew at 404 and at nothing else: after a restart of the server they fail until they are restarted too.",
			Fix:       "Answer 404 to every session id that is not among yours.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				unknown := peer.Field{Name: "Mcp-Session-Id", Value: "dragoman-never-given-0123456789abcdef"}
				checkutil.WantStatus(t, t.Send(peer.Request{Header: checkutil.LegacyHead(c, unknown), Body: checkutil.Ping("1")}), "status 404", checkutil.IsStatus(404))
			},
		},
		{
			ID: "session.delete", Title: "Ends a session at DELETE, or says 405", Level: suite.Should, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "DELETE with a session id ends the session; a server that does not let clients do so answers 405.",
			Why:       "Sessions of clients that have left pile up.",
			Fix:       "Answer DELETE with 200 or 204 and forget the session, or with 405.",
			Run: func(t *suite.Trial) {
				res := deleted(t, t.Open(nil))
				checkutil.WantStatus(t, res, "a status of 2xx, or 405", func(got int) bool { return checkutil.IsSuccess(got) || got == 405 })
			},
		},
		{
			ID: "session.terminated-404", Title: "Answers 404 in a session that is over", Level: suite.Must, Faces: httpFace, Needs: needs, Page: pageSession,
			Statement: "Requests with the id of a session that was ended are answered with 404.",
			Why:       "The client keeps using a session that should have ended with everything in it.",
			Fix:       "Take the session out of the table before you answer DELETE, and answer 404 to ids that are not in it.",
			Run: func(t *suite.Trial) {
				c := t.Open(nil)
				if res := deleted(t, c); !checkutil.IsSuccess(res.Status) {
					t.Skip("the server does not let clients end sessions: DELETE was answered with %d", res.Status)
				}
				checkutil.WantStatus(t, t.Send(peer.Request{Header: checkutil.LegacyHead(c), Body: checkutil.Ping("7")}), "status 404", checkutil.IsStatus(404))
			},
		},
		{
			ID: "session.apart", Title: "Keeps equal ids in two sessions apart", Level: suite.Must, Faces: webFaces,
			Page:      "basic §Requests (ids are unique within a session); basic/transports",
			Statement: "Ids count within their session: two clients may use the same at the same time, and each gets its own answer.",
			Why:       "All clients begin to count at 0 or 1: one of them gets the other's answer.",
			Fix:       "Never keep open requests in one table by id alone: put the session, or the connection, into the key.",
			Run:       apart,
		},
	}
}

func unguessable(t *suite.Trial) {
	const least = 16
	a, b := t.Open(nil).Session, t.Open(nil).Session
	if a == b {
		t.Fatal("another id for each session", "%q twice", a)
	}
	if len(a) < least || len(b) < least {
		t.Fatal("an id of 16 characters or more", "%q", a)
	}
	same := 0
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] {
			same++
		}
	}
	if max(len(a), len(b))-same < 8 {
		t.Fail("two ids that have little in common", "%q and %q", a, b)
	}
}

// deleted ends the session of a Conn with a raw request.
func deleted(t *suite.Trial, c *peer.Conn) *peer.Response {
	return t.Send(peer.Request{Method: "DELETE", Header: checkutil.LegacyHead(c, peer.Drop("Content-Type"))})
}

func apart(t *suite.Trial) {
	const id = `4711`
	one, two := t.Open(nil), t.Open(nil)
	a, err := one.StartAs(id, "ping", "")
	if err != nil {
		t.Break("%v", err)
	}
	b, err := two.StartAs(id, "dragoman/no-such-method", "")
	if err != nil {
		t.Break("%v", err)
	}
	if m, err := a.Wait(); err != nil || m.Failed() || string(m.ID) != id {
		t.Fail("the result of ping in the first session", "%s %v", m.Raw, err)
	}
	// It may also be refused without a message.
	if m, err := b.Wait(); err == nil && !m.Failed() {
		t.Fail("the error of an unknown method in the second session", "%s", m.Raw)
	}
	waitSettled(t, one)
	waitSettled(t, two)
	for _, c := range []*peer.Conn{one, two} {
		for _, m := range checkutil.OfKind(c.Others(), peer.IsResponse) {
			t.Fail("no answers of another session", "%s", m.Raw)
		}
	}
}
