package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"dragoman/conformance/peer"
)

// offerAnswers is the timeout for discovering what a server offers, in timeouts of an answer.
const offerAnswers = 6

// maxPages is the maximum number of pages of a list that are read.
const maxPages = 20

// Discover returns the faces and revisions of a target with what it offers at each. faces and revisions restrict it; empty: all. tried has
// the error of each face that the target does not have.
func Discover(ctx context.Context, t *peer.Target, faces []peer.Face, revisions []string) (offers []*Offer, tried []string) {
	for _, face := range peer.Faces() {
		if len(faces) > 0 && !slices.Contains(faces, face) || (t.Program != nil) != face.Stdio() {
			continue
		}
		if face == peer.REST {
			if err := offersREST(ctx, t); err != nil {
				tried = append(tried, fmt.Sprintf("%s: %v", face, err))
			} else {
				offers = append(offers, &Offer{Face: face})
			}
			continue
		}
		// The newest first: a server that does not know a revision answers with another. If nothing answers, the others are not tried.
		list := slices.Clone(face.Revisions())
		slices.Reverse(list)
		var found []*Offer
		var failed error
		answers := false
		for _, revision := range list {
			o, err := offer(ctx, t, face, revision)
			if errors.As(err, new(errOtherRevision)) {
				answers = true
			}
			if err != nil {
				failed = err
				if !answers {
					break
				}
				continue
			}
			answers = true
			if len(revisions) == 0 || slices.Contains(revisions, revision) {
				found = append(found, o)
			}
		}
		if len(found) == 0 && failed != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", face, failed))
		}
		slices.Reverse(found)
		offers = append(offers, found...)
	}
	return offers, tried
}

// errOtherRevision reports a server that answers initialize with another revision.
type errOtherRevision struct{ asked, got string }

func (e errOtherRevision) Error() string {
	return "initialize with " + e.asked + " was answered with " + e.got
}

// offer connects at a face and revision and lists what the server offers.
func offer(ctx context.Context, t *peer.Target, face peer.Face, revision string) (*Offer, error) {
	ctx, cancel := context.WithTimeout(ctx, offerAnswers*t.Patience())
	defer cancel()
	c, err := t.Open(ctx, peer.Settings{Face: face, Revision: revision})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	o := &Offer{Face: face, Revision: revision, Session: c.Session != "", Listens: c.Listens()}
	var info peer.Object
	if face.Modern() {
		result, err := c.Result("server/discover", "")
		if err != nil {
			return nil, err
		}
		for _, v := range peer.List(result, "supportedVersions") {
			name, _ := v.(string)
			o.Versions = append(o.Versions, name)
		}
		if !slices.Contains(o.Versions, revision) {
			return nil, errOtherRevision{revision, strings.Join(o.Versions, ", ")}
		}
		o.Capabilities, _ = result["capabilities"].(peer.Object)
		info, _ = peer.Get(result, "_meta", peer.MetaServer).(peer.Object)
	} else {
		if c.Agreed != revision {
			return nil, errOtherRevision{revision, c.Agreed}
		}
		o.Capabilities, _ = c.Server["capabilities"].(peer.Object)
		info, _ = c.Server["serverInfo"].(peer.Object)
	}
	o.Server = strings.TrimSpace(peer.Text(info, "name") + " " + peer.Text(info, "version"))
	for _, list := range []struct {
		capability, method, member string
		into                       *[]peer.Object
	}{{"tools", "tools/list", "tools", &o.Tools}, {"prompts", "prompts/list", "prompts", &o.Prompts}, {"resources", "resources/list", "resources", &o.Resources}} {
		if o.Capability(list.capability) {
			*list.into = all(c, list.method, list.member)
		}
	}
	return o, nil
}

// all reads the pages of a list up to the first error: checks judge errors.
func all(c *peer.Conn, method, member string) (out []peer.Object) {
	params := ""
	for range maxPages {
		result, err := c.Result(method, params)
		if err != nil {
			return out
		}
		for _, x := range peer.List(result, member) {
			if o, ok := x.(peer.Object); ok {
				out = append(out, o)
			}
		}
		cursor, more := result["nextCursor"].(string)
		if !more {
			return out
		}
		params = peer.Encode(peer.Object{"cursor": cursor})
	}
	return out
}

// offersREST returns an error if the target is no service of the REST envelope.
func offersREST(ctx context.Context, t *peer.Target) error {
	ctx, cancel := context.WithTimeout(ctx, t.Patience())
	defer cancel()
	res, err := t.HTTP.Send(ctx, peer.Request{Method: "GET", URL: RESTPath(t, "/tools"), Header: peer.Fields{{Name: "Accept", Value: "application/json"}}}, nil)
	if err != nil {
		return err
	}
	defer res.Close()
	text, err := res.Text()
	if err != nil {
		return err
	}
	v, err := peer.Decode(text)
	if err != nil || res.Status != 200 || peer.List(v, "tools") == nil || peer.Text(v, "service") == "" {
		return fmt.Errorf("GET /tools was answered with %d and no ToolsResponse", res.Status)
	}
	return nil
}

// RESTPath returns the URL of a path of the envelope, below that of the target. It keeps the query, which may have a key.
func RESTPath(t *peer.Target, path string) string {
	base, query, has := strings.Cut(t.HTTP.URL, "?")
	base = strings.TrimSuffix(base, "/") + path
	switch {
	case !has:
		return base
	case strings.Contains(path, "?"):
		return base + "&" + query
	}
	return base + "?" + query
}
