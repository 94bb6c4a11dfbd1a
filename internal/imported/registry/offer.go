package registry

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"dragoman/internal/config/value"
	"dragoman/internal/imported"
	"dragoman/proxy/wire"
)

// The kinds of offers that are known, in the words of `--package`.
const (
	KindRemote = "remote"
	KindSSE    = "sse"
	KindNPM    = "npm"
	KindPyPI   = "pypi"
	KindOCI    = "oci"
	KindNuGet  = "nuget"
	KindBundle = "mcpb"
)

// Kinds are the kinds of offers.
var Kinds = []string{KindRemote, KindSSE, KindNPM, KindPyPI, KindOCI, KindNuGet, KindBundle}

// Offer is one way in which a description lets its server be used.
type Offer struct {
	Kind string
	// Title says what it is, such as "npm package @me/server 1.2.3".
	Title string
	// Problem says why it cannot be used; nil: it can.
	Problem error
	// Variables are the values that it wants. Those of a bundle are in the bundle.
	Variables []imported.Variable
	// Notes say what is left out or deserves a look, a line each.
	Notes []string
	// Bundle is where a bundle is; nil: the offer is none.
	Bundle *Download

	server func(imported.Values) (*imported.Server, error)
}

// Download is a file and the SHA-256 that it must have, in hexadecimal.
type Download struct{ URL, SHA256 string }

// Offers returns all ways to use a server, in the order of its description: packages, then remotes. from says where the description is.
func (s *Server) Offers(from string) (all []Offer) {
	for i := range s.Packages {
		all = append(all, s.Packages[i].offer())
	}
	for i := range s.Remotes {
		all = append(all, s.Remotes[i].offer())
	}
	for i := range all {
		server := all[i].server
		if server == nil {
			continue
		}
		variables := all[i].Variables
		all[i].server = func(given imported.Values) (*imported.Server, error) {
			if err := imported.CheckAll(variables, given); err != nil {
				return nil, err
			}
			one, err := server(given)
			if err == nil {
				one.Name, one.Description, one.From = s.Name, s.Description, from
			}
			return one, err
		}
	}
	return all
}

// Server returns the server of an offer with values for its variables. Required ones that have none are an error of [imported.Missing]; here
// what needs them is left out.
func (o *Offer) Server(given imported.Values) (*imported.Server, error) {
	switch {
	case o.Problem != nil:
		return nil, o.Problem
	case o.server == nil:
		return nil, errors.New("it is a bundle, which has to be opened first")
	}
	return o.server(given)
}

// Choose returns the offer of a kind, or of any if kind is empty: the first one that can be used and lacks the fewest values. Among equals a
// streamable HTTP remote goes before packages, and these before a remote with HTTP+SSE.
func Choose(all []Offer, kind string, given imported.Values) (*Offer, error) {
	if kind != "" && !slices.Contains(Kinds, kind) {
		return nil, fmt.Errorf("--package %s is not known; fix: write %s", value.Shorten(kind), value.OneOf(Kinds))
	}
	rank := func(o *Offer) int {
		order := map[string]int{KindRemote: 0, KindSSE: 2}
		at, special := order[o.Kind]
		if !special {
			at = 1
		}
		return len(imported.Missing(o.Variables, given))*3 + at
	}
	var best *Offer
	var why []string
	for i := range all {
		o := &all[i]
		switch {
		case kind != "" && o.Kind != kind:
		case o.Problem != nil:
			why = append(why, o.Title+": "+o.Problem.Error())
		case best == nil || rank(o) < rank(best):
			best = o
		}
	}
	switch {
	case best != nil:
		return best, nil
	case len(why) > 0:
		return nil, fmt.Errorf("nothing of it can be used:\n  %s", strings.Join(why, "\n  "))
	case kind != "":
		return nil, fmt.Errorf("it has no %s; fix: leave --package out, or write %s", kind, value.OneOf(kindsOf(all)))
	}
	return nil, errors.New("it has neither a package nor a remote")
}

func kindsOf(all []Offer) (kinds []string) {
	for i := range all {
		if !slices.Contains(kinds, all[i].Kind) {
			kinds = append(kinds, all[i].Kind)
		}
	}
	return kinds
}

// offer returns a remote as an offer.
func (r *Remote) offer() Offer {
	in := &inputs{}
	o := Offer{Kind: KindRemote, Title: "remote " + wire.Shown(r.URL)}
	switch r.Type {
	case "streamable-http":
	case "sse":
		o.Kind, o.Title = KindSSE, o.Title+" (HTTP+SSE)"
	default:
		in.fail("its transport %q is not known", wire.Shown(r.Type))
	}
	address := in.split(r.URL, r.Variables, true, false)
	if address.secret(in) {
		in.fail("its address holds a secret, which logs would show")
	}
	headers := in.settings(r.Headers, true)
	if o.Problem, o.Variables, o.Notes = in.problem, in.variables, in.notes; o.Problem == nil {
		if _, _, err := in.address(address, nil); err != nil {
			o.Problem = err
		}
	}
	o.server = func(given imported.Values) (*imported.Server, error) {
		text, ok, err := in.address(address, given)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errors.New("its address lacks a value")
		}
		fields, err := in.filled(headers, given)
		return &imported.Server{URL: imported.Literal(text), SSE: o.Kind == KindSSE, Headers: fields, Lost: in.notes}, err
	}
	return o
}

// address returns the address that values make; ok is false if one is missing.
func (in *inputs) address(t template, given imported.Values) (text string, ok bool, err error) {
	filled, ok, err := t.fill(in, given)
	if err != nil || !ok {
		return "", ok, err
	}
	text = filled.String()
	u, err := url.Parse(text)
	switch {
	case len(filled.Variables()) > 0:
		return "", false, errors.New("its address cannot refer to a secret, which logs would show; fix: write the value itself")
	case imported.Reads(text):
		return "", false, errors.New("its address would read secrets of the running dragoman")
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", false, fmt.Errorf("its address %q is no http or https URL", wire.Shown(value.RedactURL(text)))
	case u.User != nil:
		return "", false, errors.New("its address holds a credential")
	}
	return text, true, nil
}
