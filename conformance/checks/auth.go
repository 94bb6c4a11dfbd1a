package checks

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"dragoman/conformance/checks/checkutil"
	"dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// authChecks are about authorization. They run if the tester has an Authorization field for each request, and the server requires one.
func authChecks() []*suite.Check {
	faces := []peer.Face{peer.ModernHTTP, peer.LegacyHTTP}
	const page = "basic/authorization §"
	return []*suite.Check{
		{
			ID: "auth.missing", Title: "Refuses requests without a token with 401", Level: suite.Must, Faces: faces, Page: page + "Error Handling",
			Statement: "A request that needs authorization and has none is answered with status 401.",
			Why:       "Clients ask their user to log in at 401, and give up at anything else.",
			Fix:       "Answer 401 before you look at the message.",
			Run: func(t *suite.Trial) {
				checkutil.WantStatus(t, withoutToken(t), "status 401", checkutil.IsStatus(http.StatusUnauthorized))
			},
		},
		{
			ID: "auth.invalid", Title: "Refuses tokens that it does not know with 401", Level: suite.Must, Faces: faces, Page: page + "Token Handling",
			Statement: "Invalid and expired tokens are answered with status 401.",
			Why:       "The client does not know that it has to get another.",
			Fix:       "Validate the token, and answer 401 where it does not hold.",
			Run: func(t *suite.Trial) {
				withoutToken(t)
				checkutil.WantStatus(t, firstRequest(t, peer.Field{Name: "Authorization", Value: "Bearer dragoman-no-such-token"}), "status 401", checkutil.IsStatus(http.StatusUnauthorized))
			},
		},
		{
			ID: "auth.each-request", Title: "Asks for the token in every request of a session", Level: suite.Must, Faces: []peer.Face{peer.LegacyHTTP}, Needs: []suite.Need{suite.NeedsSession}, Page: page + "Access Token Usage",
			Statement: "A session id is no authentication: the token is checked with each request of the session.",
			Why:       "Anyone with the session id acts for its user.",
			Fix:       "Check the token before the session is looked up.",
			Run: func(t *suite.Trial) {
				withoutToken(t)
				c := t.Open(nil)
				checkutil.WantStatus(t, t.SendTo(t.Target.HTTP.Bare("Authorization"), peer.Request{Header: checkutil.LegacyHead(c), Body: checkutil.Ping("1")}), "a status of 4xx without the token", checkutil.IsClientError)
			},
		},
		{
			ID: "auth.challenge", Title: "Says where tokens come from", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2506), Page: page + "Protected Resource Metadata Discovery Requirements",
			Statement: "An answer of 401 has WWW-Authenticate: Bearer with resource_metadata; from 2025-11-25 on a document below /.well-known/oauth-protected-resource will do.",
			Why:       "Clients cannot find the authorization server, and users have to configure it.",
			Fix:       "Add the field, with the URL of the server's protected resource metadata (RFC 9728).",
			Run: func(t *suite.Trial) {
				res := withoutToken(t)
				if challenge(res) == "" && (t.Revision == peer.R2506 || metadata(t, "") == nil) {
					t.Fail("WWW-Authenticate: Bearer resource_metadata=…", "status %d with WWW-Authenticate %q", res.Status, res.Header.Get("WWW-Authenticate"))
				}
			},
		},
		{
			ID: "auth.metadata", Title: "Serves its protected resource metadata", Level: suite.Should, Faces: faces, Revisions: suite.From(peer.R2506), Page: page + "Authorization Server Location",
			Statement: "The protected resource metadata (RFC 9728) are JSON with resource and at least one of authorization_servers.",
			Why:       "Clients find no authorization server.",
			Fix:       "Serve the document, without a token, at the URL that resource_metadata names.",
			Run: func(t *suite.Trial) {
				const expected = "a JSON document with resource and authorization_servers"
				document := metadata(t, challenge(withoutToken(t)))
				if peer.Text(document, "resource") == "" || len(peer.List(document, "authorization_servers")) == 0 {
					t.Fail(expected, "%s", checkutil.Excerpt(document))
				}
			},
		},
	}
}

// firstRequest sends the first request of a client, with a token or without.
func firstRequest(t *suite.Trial, token ...peer.Field) *peer.Response {
	r := peer.Request{Header: checkutil.ModernHead("server/discover"), Body: checkutil.ModernBody("1", "server/discover", nil, nil)}
	if !t.Face.Modern() {
		r = peer.Request{Header: checkutil.LegacyHead(nil), Body: checkutil.Initialize(t.Revision)}
	}
	r.Header = append(r.Header, token...)
	return t.SendTo(t.Target.HTTP.Bare("Authorization"), r)
}

// withoutToken returns the response to a request without a token. The trial is skipped if the server requires none.
func withoutToken(t *suite.Trial) *peer.Response {
	if _, given := t.Target.HTTP.Always("Authorization"); !given {
		t.Skip("no Authorization was given with --header")
	}
	res := firstRequest(t)
	if checkutil.IsSuccess(res.Status) {
		t.Skip("the server serves who has no token")
	}
	return res
}

var resourceMetadata = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\bresource_metadata\s*=\s*"?([^",\s]+)`) })

// challenge returns the URL of the metadata in a refusal; "" if there is none.
func challenge(res *peer.Response) string {
	for _, line := range res.Header.Values("WWW-Authenticate") {
		if m := resourceMetadata().FindStringSubmatch(line); m != nil && strings.HasPrefix(strings.ToLower(line), "bearer") {
			return m[1]
		}
	}
	return ""
}

// metadata fetches the metadata from the named URL, or from the well-known ones; nil if there is none.
func metadata(t *suite.Trial, named string) peer.Object {
	places := []string{named}
	if u, err := url.Parse(t.Target.HTTP.URL); err == nil && named == "" {
		const known = "/.well-known/oauth-protected-resource"
		origin := u.Scheme + "://" + u.Host
		places = []string{origin + known + strings.TrimSuffix(u.Path, "/"), origin + known}
	}
	for _, place := range places {
		if !strings.HasPrefix(place, "http://") && !strings.HasPrefix(place, "https://") {
			continue
		}
		text, err := fetch(t, place)
		if err != nil {
			continue
		}
		if v, err := peer.Decode(text); err == nil {
			document, _ := v.(peer.Object)
			return document
		}
	}
	return nil
}

// fetch returns a document. The URL comes from the server, so the request has none of the tester's secrets.
func fetch(t *suite.Trial, place string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), t.Target.Patience())
	defer cancel()
	res, err := t.Target.HTTP.Bare("").Send(ctx, peer.Request{Method: "GET", URL: place, Header: peer.Fields{{Name: "Accept", Value: "application/json"}}}, t.Watch)
	if err != nil {
		return "", err
	}
	defer res.Close()
	if res.Status != http.StatusOK {
		return "", errors.New("it is not there")
	}
	return res.Text()
}
