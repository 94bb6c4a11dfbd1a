package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"dragoman/internal/config/field"
	"dragoman/internal/config/value"
)

// mirrored is why MCP's own headers cannot be set.
const mirrored = "Dragoman mirrors it from the message"

// ownHeaders maps headers that cannot have a static value to the reason: Dragoman writes them, or they concern one hop
// only (RFC 9110 §7.6.1).
var ownHeaders = map[string]string{
	"accept":               "Dragoman writes it as the protocol asks",
	"connection":           "it concerns one connection only",
	"content-encoding":     "Dragoman writes the body",
	"content-length":       "Dragoman writes the body",
	"content-type":         "Dragoman writes the body",
	"host":                 "it is taken from url",
	"keep-alive":           "it concerns one connection only",
	"last-event-id":        "Dragoman writes it when it resumes a stream",
	"mcp-method":           mirrored,
	"mcp-name":             mirrored,
	"mcp-protocol-version": "Dragoman writes it as negotiated",
	"mcp-session-id":       "Dragoman keeps the sessions",
	"proxy-authorization":  "put the password into proxy",
	"proxy-connection":     "it concerns one connection only",
	"te":                   "it concerns one connection only",
	"trailer":              "it concerns one connection only",
	"transfer-encoding":    "it concerns one connection only",
	"upgrade":              "it concerns one connection only",
}

// headerField returns the field of a static header.
func headerField(name string) (field.SecretText, error) {
	if !HeaderName.MatchString(name) {
		return field.SecretText{}, &value.Problem{What: fmt.Sprintf("%q is not a header name", value.Shorten(name)), Fix: "write a name such as Authorization (RFC 9110 §5.6.2)"}
	}
	if why, own := ownHeaders[strings.ToLower(name)]; own {
		return field.SecretText{}, ownHeader(name, why)
	}
	return field.SecretText{Check: checkHeaderValue, What: `the header's value, "env:NAME" or "file:/path"`}, nil
}

func ownHeader(name, why string) error {
	return &value.Problem{What: fmt.Sprintf("the header %s cannot be set: %s", name, why), Fix: "remove it"}
}

// upstreamHeader returns the field of a header of requests to an upstream.
func upstreamHeader(name string) (field.SecretText, error) {
	f, err := headerField(name)
	if err == nil && strings.HasPrefix(strings.ToLower(name), "mcp-param-") {
		err = ownHeader(name, mirrored)
	}
	return f, err
}

// checkHeaderValue refuses what would end the header (RFC 9110 §5.5).
func checkHeaderValue(text string) error {
	switch {
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
		return value.Problemf("contains a control character (the value is not shown)")
	case len(text) > maxHeader:
		return value.Problemf("is %d bytes long; at most %d are allowed", len(text), maxHeader)
	case strings.TrimSpace(text) != text:
		return value.Problemf("begins or ends with white space (the value is not shown)")
	}
	return nil
}

// variableField returns the field of one variable of a child.
func variableField(name string) (field.SecretText, error) {
	if !VariableName.MatchString(name) {
		return field.SecretText{}, &value.Problem{What: fmt.Sprintf("%q is not the name of a variable", value.Shorten(name)), Fix: "write a name such as API_KEY"}
	}
	return field.SecretText{Check: field.CheckArgument, What: `the variable's value, "env:NAME" or "file:/path"`}, nil
}

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
func (u *Upstream) forwardEntry(from string) (field.Field, error) {
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
	why := cmp.Or(also[lower], ownHeaders[lower])
	if strings.HasPrefix(lower, "mcp-") && why == "" {
		why = mirrored
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

func (f forwardField) Notation() field.Notation {
	return field.Notation{Kind: "header", Bounds: "the name that the header has at the upstream", Shape: field.Shape{Type: field.StringType, Pattern: HeaderName.String()}}
}

// forwarded returns the clients' names of the forwarded headers.
func (u *Upstream) forwarded() (names []string) {
	for _, x := range u.Forward {
		names = append(names, x.From)
	}
	return names
}

func (u *Upstream) hasHeader(name string) bool {
	return slices.ContainsFunc(u.Headers, func(h value.NamedSecret) bool { return strings.EqualFold(h.Name, name) })
}
