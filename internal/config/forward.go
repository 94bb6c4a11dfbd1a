package config

import (
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// forwardMost bounds the forwarded headers of one upstream.
const forwardMost = 16

// stays maps headers of clients that cannot be passed on, in addition to ownHeaders, to the reason.
var stays = map[string]string{
	"accept-encoding":     "answers come to Dragoman unpacked",
	"content-language":    "it is about the body, which Dragoman writes anew",
	"content-location":    "it is about the body, which Dragoman writes anew",
	"content-range":       "it is about the body, which Dragoman writes anew",
	"digest":              "it is about the body, which Dragoman writes anew",
	"expect":              "it concerns one connection only",
	"idempotency-key":     "Dragoman answers repeats itself",
	"origin":              "Dragoman checks it, and is no page",
	"proxy-authenticate":  "it concerns one connection only",
	"range":               "no answer has parts",
	"sec-websocket-key":   "it concerns one connection only",
	"set-cookie":          "it is part of answers",
	"www-authenticate":    "it is part of answers",
	"http2-settings":      "it concerns one connection only",
	"proxy-authorization": "it is for a proxy in between",
}

// forwardEntry returns the field of one forwarded header; the last one written wins.
func forwardEntry(u *Upstream, from string) (field.Field, error) {
	if err := mayGoOn(from, "clients send", stays); err != nil {
		return nil, err
	}
	return forwardField{u: u, from: from}, nil
}

// mayGoOn accepts the name of a header that may be passed on.
func mayGoOn(name, where string, also map[string]string) error {
	if !HeaderName.MatchString(name) || len(name) > maxName {
		return &value.Problem{What: fmt.Sprintf("%q is not a header name", value.Shorten(name)), Fix: "write a name such as X-Tenant (RFC 9110 §5.6.2)"}
	}
	lower := strings.ToLower(name)
	why := also[lower]
	if own, is := ownHeaders[lower]; is && why == "" {
		why = own
	}
	if strings.HasPrefix(lower, "mcp-") && why == "" {
		why = "Dragoman mirrors it from the message"
	}
	if why != "" {
		return &value.Problem{What: fmt.Sprintf("the header %s that %s cannot be passed on: %s", name, where, why), Fix: "remove it"}
	}
	return nil
}

// forwardField is the field for the name that a header has at the upstream.
type forwardField struct {
	u    *Upstream
	from string
}

func (f forwardField) Set(v value.Literal) error {
	to, ok := v.PlainText()
	if !ok {
		return value.Problemf("%s is not a header name", v.Show())
	}
	if err := mayGoOn(to, "the upstream gets", map[string]string{"accept-encoding": stays["accept-encoding"], "expect": stays["expect"]}); err != nil {
		return err
	}
	i := slices.IndexFunc(f.u.Forward, func(x ForwardHeader) bool { return strings.EqualFold(x.From, f.from) })
	if i >= 0 {
		f.u.Forward[i] = ForwardHeader{From: f.from, To: to}
		return nil
	}
	if len(f.u.Forward) >= forwardMost {
		return value.Problemf("is one of more than %d headers", forwardMost)
	}
	f.u.Forward = append(f.u.Forward, ForwardHeader{From: f.from, To: to})
	return nil
}

func (f forwardField) Text() string {
	for _, x := range f.u.Forward {
		if x.From == f.from {
			return value.Quote(x.To)
		}
	}
	return value.Quote("")
}

func (f forwardField) Allowed() string { return "the name that the header has at the upstream" }

// checkForward reports headers that have several sources, and isolation by which callers would share what the headers
// keep apart.
func (l *loader) checkForward(u *Upstream, table string, at func(string) value.Source) {
	if len(u.Forward) == 0 {
		return
	}
	key := table + "." + ForwardKey
	fail := func(x ForwardHeader, what, fix string) {
		name := key + "." + value.KeyText([]string{strings.ToLower(x.From)})
		l.fail(&value.Problem{What: what, Fix: fix}, key+"."+value.KeyText([]string{x.From}), l.cfg.sources[name], "")
	}
	for i, x := range u.Forward {
		if slices.ContainsFunc(u.Headers, func(h Header) bool { return strings.EqualFold(h.Name, x.To) }) {
			fail(x, "writes the header "+x.To+", and so does "+table+"."+HeadersKey, "keep one of the two")
		}
		if u.OAuth.TokenURL != "" && strings.EqualFold(x.To, "Authorization") {
			fail(x, "writes the header Authorization, and so does "+table+".oauth", "keep one of the two, or give the client's another name")
		}
		if slices.ContainsFunc(u.Forward[:i], func(o ForwardHeader) bool { return strings.EqualFold(o.To, x.To) }) {
			fail(x, "writes the header "+x.To+", and so does another", "keep one of the two")
		}
	}
	if kind, _ := u.Isolated(); kind == field.Pooled || kind == field.SharedByAll {
		l.fail(&value.Problem{What: fmt.Sprintf("lets callers share sessions, but %s (%s) shows the upstream who each of them is", key, l.forwardSource(u, key)),
			Fix: "write session or principal, or remove " + ForwardKey}, table+".isolation", at("isolation"), "")
	}
	l.warnForward(u, key)
}

func (l *loader) forwardSource(u *Upstream, key string) value.Source {
	return l.cfg.sources[key+"."+value.KeyText([]string{strings.ToLower(u.Forward[0].From)})]
}

// warnForward warns of forwarded credentials that are meant for Dragoman.
func (l *loader) warnForward(u *Upstream, key string) {
	c := l.cfg
	own := map[string]bool{"x-api-key": c.Security.APIKeysEnabled, "authorization": c.Security.APIKeysEnabled || c.Security.Auth.JWT.Issuer != ""}
	for _, x := range u.Forward {
		if own[strings.ToLower(x.From)] {
			c.Warnings = append(c.Warnings, fmt.Sprintf("%s passes on %s, by which clients show Dragoman who they are: whoever runs the upstream could use that here, "+
				"and the specification forbids to pass on tokens that were issued for another (2026-07-28 authorization); let clients send the upstream's in a header of its own", key, x.From))
		}
	}
}

func (f forwardField) Notation() field.Notation {
	return field.Notation{Kind: "header", Bounds: f.Allowed(), Shape: field.Shape{Type: field.StringType, Pattern: HeaderName.String()}}
}
