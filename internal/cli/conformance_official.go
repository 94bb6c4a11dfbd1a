package cli

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"

	"dragoman/conformance/official"
	suitepeer "dragoman/conformance/peer"
	"dragoman/conformance/suite"
)

// official runs the official suite at every revision that the server speaks over HTTP; over stdio and HTTP+SSE, which the suite does not
// speak, a Dragoman stands between. What keeps it from running is a finding too.
func (t *tester) official(ctx context.Context) (findings []*suite.Finding) {
	met := make(map[string]bool)
	for _, d := range t.doors {
		for _, direct := range []bool{true, false} {
			offers := slices.DeleteFunc(slices.Clone(d.offers), func(o *suite.Offer) bool {
				return o.Revision < suitepeer.R2503 || met[o.Revision] || direct != (o.Face == suitepeer.ModernHTTP || o.Face == suitepeer.LegacyHTTP)
			})
			if len(offers) > 0 {
				findings = append(findings, t.officialAt(ctx, d, offers, direct)...)
			}
			for _, o := range offers {
				met[o.Revision] = true
			}
		}
	}
	return slices.DeleteFunc(findings, func(f *suite.Finding) bool { return !t.choice.officially(f.Check.ID) })
}

// officialAt runs it at some offers of a door.
func (t *tester) officialAt(ctx context.Context, d *door, offers []*suite.Offer, direct bool) (findings []*suite.Finding) {
	var at string
	var unreached error
	var end func()
	if direct {
		at, end, unreached = t.through(d)
	} else {
		at, end, unreached = t.between(ctx, d)
	}
	if unreached == nil {
		defer end()
	}
	for _, o := range offers {
		t.progress.Say("the official suite at " + o.Revision)
		var found []*suite.Finding
		err := unreached
		if err == nil {
			found, err = official.Run(ctx, official.Options{URL: at, Revision: o.Revision, Command: t.OfficialCommand})
		}
		if err != nil {
			found = []*suite.Finding{{Check: officialSuite(), Outcome: suite.Broken, Reason: err.Error(), Revision: o.Revision}}
		}
		for _, f := range found {
			f.Face = o.Face
			findings = append(findings, f)
		}
	}
	return findings
}

// officialSuite is the check that the suite runs at all.
func officialSuite() *suite.Check {
	return &suite.Check{ID: official.Prefix + "suite", Title: "The official suite runs", Level: suite.Must, Faces: suitepeer.Faces(), Page: "@modelcontextprotocol/conformance " + official.Version,
		Statement: "The official suite can be run at the server.", Why: "What it looks at was not looked at.",
		Fix: "Install Node.js 22 or later, or name the words that start the suite with --official-command."}
}

// localhost is a URL whose host is named as the official suite wants it: it takes from the name whose Host fields the server must refuse.
func localhost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() != "127.0.0.1" {
		return raw
	}
	port := u.Port()
	if u.Host = "localhost"; port != "" {
		u.Host += ":" + port
	}
	return u.String()
}

// through is a URL for who can neither send --header nor trust --ca-file: with them it is that of a relay.
func (t *tester) through(d *door) (at string, end func(), err error) {
	if len(t.Headers) == 0 && t.TLS == nil {
		return localhost(d.HTTP.URL), func() {}, nil
	}
	relay, err := suitepeer.NewRelay(d.HTTP)
	if err != nil {
		return "", nil, fmt.Errorf("conformance: the relay between the official suite and the server: %w", err)
	}
	return relay.URL, relay.Close, nil
}

// between starts a Dragoman before a door, for who speaks streamable HTTP alone.
func (t *tester) between(ctx context.Context, d *door) (at string, end func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("conformance: %w", err)
	}
	address, err := suitepeer.FreePort()
	if err != nil {
		return "", nil, fmt.Errorf("conformance: %w", err)
	}
	argv, done := []string{self, "serve", "--listen", address, "--admin", "off", "--log-level", "error"}, func() {}
	switch {
	case d.HTTP != nil:
		var to string
		if to, done, err = t.through(d); err != nil {
			return "", nil, err
		}
		argv = append(argv, to)
	case d.url != "":
		argv = append(argv, d.url)
	default:
		argv = append(append(argv, "--"), t.Command...)
	}
	s, err := suitepeer.StartService(ctx, argv, address)
	if err != nil {
		done()
		return "", nil, fmt.Errorf("conformance: the Dragoman between the official suite and the server: %w", err)
	}
	return localhost("http://" + address + "/mcp"), func() { s.End(); done() }, nil
}
