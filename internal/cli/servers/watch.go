package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-json"
	"github.com/valyala/fasthttp"

	"dragoman/adapters/aggregator"
	"dragoman/adapters/eventstream"
	"dragoman/proxy/wire"
)

// Event is a change of a server, or the server as it is at the beginning, whose end has no server.
type Event struct {
	Name   string
	Raw    []byte // JSON of the server
	Server aggregator.Server
}

// maxEvent is the largest event in bytes: a server with its description and its connection.
const maxEvent = 4 << 20

// errEnded is the error of a stream that has ended without a word.
var errEnded = errors.New("the stream of events has ended; is the dragoman still there?")

// errAgain says that a stream has ended and that another one can be opened.
var errAgain = errors.New("open the stream again")

// againTime is the pause before a stream is opened again.
const againTime = time.Second

// Watch calls told for each server, and then for each change, until ctx ends or told fails.
func (c *Client) Watch(ctx context.Context, told func(*Event) error) error {
	for {
		var req fasthttp.Request
		c.prepare(&req, "GET", "/events")
		err := c.Stream(ctx, &req, func(resp *fasthttp.Response) error { return follow(resp, told) })
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, errAgain):
			return err
		}
		select {
		case <-time.After(againTime):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow reads a stream to its end.
func follow(resp *fasthttp.Response, told func(*Event) error) error {
	if resp.StatusCode() != fasthttp.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.BodyStream(), maxEvent)) // what is missing makes it no answer of the API
		return refusal(resp.StatusCode(), body)
	}
	events := eventstream.Splitter{}
	events.Reset(maxEvent)
	for {
		e, err := events.Next(resp.BodyStream())
		if err != nil {
			return errEnded
		}
		switch name := string(e.Name); name {
		case aggregator.EventReread:
			return errAgain
		case "":
		default:
			one := Event{Name: name, Raw: slices.Clone(e.Data)}
			if json.Unmarshal(one.Raw, &one.Server) != nil {
				return errNoAPI
			}
			if err := told(&one); err != nil {
				return err
			}
		}
	}
}

// Watcher writes the servers as they change.
type Watcher struct {
	Out       io.Writer
	JSON      bool // a line of JSON for each event
	Redraw    bool // the table again with each event, on a terminal
	Colourful bool
	Status    string // of the servers that are shown; empty: all

	all   map[string]aggregator.Server
	whole bool // all has every server
}

// Told writes an event.
func (w *Watcher) Told(e *Event) error {
	if w.all == nil || w.whole && e.Name == aggregator.EventSnapshot {
		w.all, w.whole = map[string]aggregator.Server{}, false
	}
	if e.Name == aggregator.EventReady {
		w.whole = true
		return w.draw()
	}
	key := e.Server.Source + "/" + e.Server.Name
	before, was := w.all[key]
	w.all[key] = e.Server
	if e.Name == aggregator.EventRemoved {
		delete(w.all, key)
	}
	if w.Status != "" && e.Server.Status != w.Status && (!was || before.Status != w.Status) {
		return nil
	}
	switch {
	case w.JSON:
		_, err := fmt.Fprintf(w.Out, "{\"event\":%s,\"server\":%s}\n", wire.AppendShown(nil, e.Name), wire.AppendVisible(nil, e.Raw))
		return err
	case w.Redraw:
		return w.draw()
	}
	s := &e.Server
	_, err := fmt.Fprintf(w.Out, "%s %s %s, %s%s\n", wire.Shown(s.Name), wire.Shown(e.Name), wire.Shown(s.Status), Counted(s.ToolCount), strings.TrimSuffix(": "+wire.ShownText(cmp.Or(why(s), holding(s))), ": "))
	return err
}

// draw writes the table in the place of the former one, once all servers are known.
func (w *Watcher) draw() error {
	if !w.Redraw || w.JSON || !w.whole {
		return nil
	}
	var shown []aggregator.Server
	for _, key := range slices.Sorted(maps.Keys(w.all)) {
		if s := w.all[key]; w.Status == "" || s.Status == w.Status {
			shown = append(shown, s)
		}
	}
	slices.SortStableFunc(shown, func(a, b aggregator.Server) int { return strings.Compare(a.Name, b.Name) })
	if _, err := io.WriteString(w.Out, "\x1b[H\x1b[2J"); err != nil { // home, and an empty screen
		return err
	}
	return List(w.Out, shown, w.Colourful)
}
