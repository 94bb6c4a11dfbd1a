package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"dragoman/adapters/rest/mcpcall"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// offer is the list that a server has of one kind.
type offer struct {
	What    string   `json:"what"` // tools, resources or prompts
	Count   int      `json:"count"`
	Names   []string `json:"names,omitempty"` // the first mostNames; of resources their URIs
	TookMS  int64    `json:"tookMs"`
	Finding string   `json:"finding,omitempty"` // why there is no list
	Hint    string   `json:"hint,omitempty"`    // what to do about that
}

// mostNames is how many names of a list are shown.
const mostNames = 20

// offers asks for the lists that a server has by its capabilities, within the time of ctx. begin is called before each request. A list that
// fails is a finding. each, if not nil, is called for each element, which it must not keep.
func offers(ctx context.Context, client *mcpcall.Client, capabilities []byte, begin func(step string), hide func(string) string, each func(what, name string, element []byte)) (all []offer) {
	end, _ := ctx.Deadline()
	for _, kind := range [][2]string{{"tools", "name"}, {"resources", "uri"}, {"prompts", "name"}} {
		if len(capabilities) == 0 || !wire.Get(capabilities, wire.Whole(capabilities), kind[0]).Present() {
			continue
		}
		begin(kind[0] + "/list")
		o := offer{What: kind[0]}
		pages, began := 0, time.Now()
		_, err := (&mcpcall.Origin{Client: client, Caps: []byte("{}"), Life: ctx, End: end, Own: true}).Collect(kind[0]+"/list", func(m *wire.Message) error {
			pages++
			for _, item := range wire.Items(m.Raw, wire.Get(m.Raw, m.Result, kind[0])) {
				name := hide(string(wire.Get(m.Raw, item, kind[1]).Text(m.Raw)))
				if o.Count++; len(o.Names) < mostNames {
					o.Names = append(o.Names, name)
				}
				if each != nil {
					each(kind[0], name, item.Of(m.Raw))
				}
			}
			return nil
		})
		o.TookMS = time.Since(began).Milliseconds()
		if err != nil || pages == 0 {
			o.fail(ctx, err, hide)
		}
		all = append(all, o)
	}
	return all
}

// fail makes a finding of a list that has failed; a nil error is that of a server that does not know the method.
func (o *offer) fail(ctx context.Context, err error, hide func(string) string) {
	var said *mcpcall.ServerError
	switch {
	case err == nil:
		o.Finding, o.Hint = "the server does not know the method", "it should answer it, or not declare the capability "+o.What
	case ctx.Err() != nil:
		o.Finding, o.Hint = "no answer in time", "is the server stuck? Give it more time with --timeout"
	case errors.As(err, &said):
		o.Finding, o.Hint = said.Text, "look into the log of the server, which answers with the error "+fmt.Sprint(said.Code)
	default:
		o.Finding, o.Hint = proxy.AsError(err).Message, "`dragoman errors "+proxy.AsError(err).Name+"` says more"
	}
	o.Finding = hide(o.Finding)
}

// text is the offer in a line.
func (o *offer) text() string {
	if o.Finding != "" {
		return fmt.Sprintf("%s/list failed after %d ms: %s; %s", o.What, o.TookMS, wire.ShownText(o.Finding), o.Hint)
	}
	what := o.What
	if o.Count == 1 {
		what = strings.TrimSuffix(what, "s")
	}
	text := fmt.Sprintf("%d %s, in %d ms", o.Count, what, o.TookMS)
	for i, name := range o.Names {
		text += [...]string{": ", ", "}[min(i, 1)] + wire.Shown(name)
	}
	if more := o.Count - len(o.Names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
