package peer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// fields returns the fields of each request.
func (c *Conn) fields() Fields {
	f := Fields{{"Content-Type", "application/json"}, {"Accept", "application/json, text/event-stream"}}
	switch {
	case c.Face == SSE:
		return Fields{{"Content-Type", "application/json"}}
	case c.Face.Modern():
		f = append(f, Field{"MCP-Protocol-Version", c.Revision})
	default:
		if c.Agreed >= R2506 && c.Server != nil {
			f = append(f, Field{"MCP-Protocol-Version", c.Agreed})
		}
		if c.Session != "" {
			f = append(f, Field{"Mcp-Session-Id", c.Session})
		}
	}
	return f
}

// begin opens the child or the stream that the face needs before the first message.
func (c *Conn) begin() error {
	switch {
	case c.Face.Stdio():
		child, err := StartChild(c.ctx, c.target.Program, c.Watch)
		if err != nil {
			return err
		}
		c.child = child
		c.work.Go(c.readChild)
	case c.Face == SSE:
		return c.openSSE()
	}
	return nil
}

// readChild dispatches the lines of the program.
func (c *Conn) readChild() {
	for {
		line, err := c.child.Next(c.ctx)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = c.child.over()
			}
			c.lost(err)
			return
		}
		m, _ := ReadMessage(line)
		m.Where = "stdout"
		c.take(nil, m)
	}
}

// openSSE opens the stream of HTTP+SSE and waits for the endpoint.
func (c *Conn) openSSE() error {
	res, err := c.target.HTTP.Send(c.ctx, Request{Method: "GET", Header: Fields{{"Accept", "text/event-stream"}}}, c.Watch)
	if err != nil {
		return err
	}
	if res.Status != 200 || !res.Streams() {
		res.Close()
		return fmt.Errorf("GET was answered with %d and Content-Type %q, not with an event stream", res.Status, res.Header.Get("Content-Type"))
	}
	first := make(chan Event, 1)
	c.work.Go(func() {
		defer res.Close()
		for {
			e, err := res.Next()
			if err != nil {
				c.lost(fmt.Errorf("the event stream has ended: %w", err))
				return
			}
			if e.Name == "endpoint" {
				select {
				case first <- e:
				default:
				}
				continue
			}
			m, _ := ReadMessage(e.Data)
			m.Where, m.Event = "the SSE stream", e
			c.take(nil, m)
		}
	})
	ctx, cancel := context.WithTimeout(c.ctx, c.target.Patience())
	defer cancel()
	select {
	case e := <-first:
		base, err := url.Parse(c.target.HTTP.URL)
		if err == nil {
			base, err = base.Parse(e.Data)
		}
		if err != nil {
			return fmt.Errorf("the endpoint %q is no URI: %w", e.Data, err)
		}
		c.post = base.String()
		return nil
	case <-ctx.Done():
		return errors.New("the event stream brought no event named endpoint")
	}
}

// openListening opens the GET stream of a legacy session, if the server offers one.
func (c *Conn) openListening() {
	res, err := c.target.HTTP.Send(c.ctx, Request{Method: "GET", Header: c.fields().With(Field{"Accept", "text/event-stream"}, Drop("Content-Type"))}, c.Watch)
	if err != nil {
		return
	}
	if res.Status != 200 || !res.Streams() {
		res.Close()
		return
	}
	c.listen = true
	c.work.Go(func() {
		defer res.Close()
		for {
			e, err := res.Next()
			if err != nil {
				return
			}
			if m, ok := ofEvent(e, "the GET stream", res.Status); ok {
				c.take(nil, m)
			}
		}
	})
}

// Listens reports whether the server has opened a GET stream for the session.
func (c *Conn) Listens() bool { return c.listen }

// ofEvent reads the message of an event; false if it has none, as a priming event.
func ofEvent(e Event, where string, status int) (Message, bool) {
	if !e.IsMessage() {
		return Message{}, false
	}
	m, _ := ReadMessage(e.Data)
	m.Where, m.Event, m.Status = where, e, status
	return m, true
}

// send sends the message of a call.
func (c *Conn) send(call *Call, method, params, text string, more []Field) error {
	switch {
	case c.child != nil:
		return c.child.Write(text)
	case c.Face == SSE:
		return c.postSSE(text)
	}
	f := c.fields()
	if c.Face.Modern() {
		f = append(f, Field{"Mcp-Method", method})
		if name, ok := nameOf(method, params); ok {
			f = append(f, Field{"Mcp-Name", HeaderValue(name)})
		}
	}
	ctx, stop := context.WithCancel(c.ctx)
	call.stop = stop
	c.work.Go(func() {
		defer stop()
		call.fail(c.exchange(ctx, call, Request{Header: f.With(more...), Body: text}))
		c.mu.Lock()
		delete(c.calls, idKey(call.ID))
		c.mu.Unlock()
	})
	return nil
}

// nameOf returns what a modern request repeats in Mcp-Name ([2026-07-28 http §Standard Request Headers]).
func nameOf(method, params string) (string, bool) {
	v, err := Decode(params)
	if err != nil {
		return "", false
	}
	var member string
	switch method {
	case "tools/call", "prompts/get":
		member = "name"
	case "resources/read":
		member = "uri"
	case "tasks/get", "tasks/update", "tasks/cancel":
		member = "taskId"
	default:
		return "", false
	}
	name, ok := Get(v, "params", member).(string)
	if !ok {
		name, ok = Get(v, member).(string)
	}
	return name, ok
}

// HeaderValue returns a name for Mcp-Name and Mcp-Param-*: unchanged, or in Base64 if a field cannot hold it ([2026-07-28 http §Value
// Encoding]).
func HeaderValue(name string) string {
	plain := strings.TrimSpace(name) == name && !(strings.HasPrefix(name, "=?base64?") && strings.HasSuffix(name, "?="))
	for i := 0; plain && i < len(name); i++ {
		plain = name[i] >= ' ' && name[i] <= '~'
	}
	if plain {
		return name
	}
	return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(name)) + "?="
}

// exchange posts a request and dispatches the messages of the response.
func (c *Conn) exchange(ctx context.Context, call *Call, r Request) error {
	res, err := c.target.HTTP.Send(ctx, r, c.Watch)
	if err != nil {
		if ctx.Err() != nil && c.ctx.Err() == nil {
			return errStopped
		}
		return err
	}
	defer res.Close()
	call.mu.Lock()
	call.Status = res.Status
	call.mu.Unlock()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" && call.Method == "initialize" && !c.Face.Modern() {
		c.Session = id
	}
	if !res.Streams() {
		text, err := res.Text()
		if err != nil {
			return err
		}
		m, err := ReadMessage(text)
		if err != nil {
			return fmt.Errorf("status %d with a body that is no message: %q", res.Status, Cut(text, 200))
		}
		m.Where, m.Status = "the response", res.Status
		c.take(call, m)
		return nil
	}
	for {
		e, err := res.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if m, ok := ofEvent(e, "the response", res.Status); ok {
			c.take(call, m)
		}
	}
}

func (c *Conn) postSSE(text string) error {
	res, err := c.target.HTTP.Send(c.ctx, Request{URL: c.post, Header: c.fields(), Body: text}, c.Watch)
	if err != nil {
		return err
	}
	defer res.Close()
	body, _ := res.Text()
	if res.Status/100 != 2 {
		return fmt.Errorf("the POST was answered with %d: %s", res.Status, Cut(body, 200))
	}
	return nil
}

// Say sends a text that gets no response: a notification, an answer, or malformed JSON. status is that of HTTP.
func (c *Conn) Say(text string) (status int, err error) {
	if c.child != nil {
		return 0, c.child.Write(text)
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.target.Patience())
	defer cancel()
	res, err := c.target.HTTP.Send(ctx, Request{URL: c.post, Header: c.fields(), Body: text}, c.Watch)
	if err != nil {
		return 0, err
	}
	defer res.Close()
	if !res.Streams() {
		_, err = res.Text()
	}
	return res.Status, err
}
