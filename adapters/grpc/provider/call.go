package provider

import (
	"google.golang.org/protobuf/proto"

	"dragoman/adapters/grpc/providerpb"
	"dragoman/adapters/grpc/reply"
	"dragoman/proxy"
	"dragoman/proxy/wire"
)

// wants returns what the client wants to hear, and what it can be asked.
func (c *call) wants() *providerpb.Wants {
	of := &providerpb.Wants{Progress: c.Token != nil, Log: c.level}
	if caps := c.m.Of(c.m.Caps); len(caps) > len("{}") {
		of.Capabilities = string(caps)
	}
	if !of.Progress && of.Log == 0 && of.Capabilities == "" {
		return nil
	}
	return of
}

// meta returns the members of _meta that are the client's own, raw JSON; empty: none. Those of the protocol have fields of the contract.
func (c *call) meta() string {
	if !c.m.Meta.IsObject(c.m.Raw) {
		return ""
	}
	own := wire.NewBuilder(nil)
	for key, v := range wire.Members(c.m.Raw, c.m.Meta) {
		switch name := string(key.Text(c.m.Raw)); {
		case name == "progressToken", name == "traceparent", name == "tracestate", name == "baggage", len(name) > len(wire.MetaPrefix) && name[:len(wire.MetaPrefix)] == wire.MetaPrefix:
		default:
			own.AddRaw(key.Of(c.m.Raw), v.Of(c.m.Raw))
		}
	}
	if len(own.Raw) == 1 {
		return ""
	}
	return string(own.Done())
}

// callTool runs the tool of a call, whose definition is known.
func (c *call) callTool(of *tool) error {
	arguments := c.m.Of(c.m.Arguments)
	if len(arguments) == 0 || string(arguments) == "null" {
		arguments = []byte("{}")
	}
	if wrong, err := c.u.schemas.Check(of.input, arguments); err == nil && wrong != nil {
		c.ready, err = c.Refuse("the arguments do not match the input schema of the tool: " + wrong.String())
		return err
	}
	request := &providerpb.CallToolRequest{Name: string(c.m.Text(c.m.Name)), Arguments: string(arguments), Wants: c.wants(), Meta: c.meta()}
	if of.asks {
		return c.interact(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_CallTool{CallTool: request}}, of)
	}
	var content []byte
	return c.step(callMethod, request, func(in proto.Message) (*wire.Message, error) {
		switch m := in.(*providerpb.CallToolResponse).GetMessage().(type) {
		case *providerpb.CallToolResponse_Progress:
			return c.Progress(m.Progress.GetProgress(), m.Progress.Total, m.Progress.GetMessage())
		case *providerpb.CallToolResponse_Log:
			return c.log(m.Log)
		case *providerpb.CallToolResponse_Content:
			var err error
			content, err = c.appendItem(content, 0, m.Content)
			return nil, err
		case *providerpb.CallToolResponse_Result:
			return c.toolResult(of, content, m.Result)
		}
		return nil, nil //nolint:nilnil // of a later version of the contract
	})
}

// appendItem appends an item of content to those that raw has from a place on, which are bounded.
func (c *call) appendItem(raw []byte, from int, of *providerpb.Content) ([]byte, error) {
	if len(raw) > from {
		raw = append(raw, ',')
	}
	raw, err := appendContent(raw, of)
	if most := c.u.opt.MaxResult; err == nil && len(raw)-from > most {
		err = proxy.Errf(proxy.ResponseTooLarge, "the content that the provider sends is more than limits.response_body allows (%d bytes)", most)
	}
	return raw, err
}

// toolResult returns the response of a tool. before is the content that the call has sent before its result, raw JSON items.
func (c *call) toolResult(of *tool, before []byte, result *providerpb.CallToolResult) (*wire.Message, error) {
	b := c.Begin(len(before) + proto.Size(result) + 256)
	text := result.GetStructuredContent()
	if len(before)+len(result.GetContent()) == 0 && text != "" { // for clients that read text only (2025-06-18 tools, Structured Content)
		reply.AddText(b, text)
	} else {
		b.Key("content")
		b.Raw = append(b.Raw, '[')
		from := len(b.Raw)
		b.Raw = append(b.Raw, before...)
		for _, one := range result.GetContent() {
			var err error
			if b.Raw, err = c.appendItem(b.Raw, from, one); err != nil {
				return nil, err
			}
		}
		b.Raw = append(b.Raw, ']')
	}
	if text != "" {
		structured, err := value(text, "structured_content")
		if err != nil {
			return nil, err
		}
		b.Add("structuredContent", structured)
		if err := c.checkOutput(of, structured, result.GetIsError()); err != nil {
			return nil, err
		}
	} else if of.output != nil && !result.GetIsError() {
		return nil, proxy.Errf(proxy.ResultInvalid, "the provider's result of %s has no structured_content, which the output schema of the tool requires", c.m.Text(c.m.Name))
	}
	if result.GetIsError() {
		b.Add("isError", []byte("true"))
	}
	meta, err := object(result.GetMeta(), "meta")
	if err != nil {
		return nil, err
	}
	return c.Complete(b, meta)
}

// checkOutput checks a structured result against the output schema of its tool. What cannot be checked passes.
func (c *call) checkOutput(of *tool, structured []byte, failed bool) error {
	if of.output == nil || failed {
		return nil
	}
	wrong, err := c.u.schemas.Check(of.output, structured)
	if err != nil || wrong == nil {
		return nil //nolint:nilerr // see above
	}
	e := proxy.Errf(proxy.ResultInvalid, "the provider's result of %s does not match the output schema of the tool: %s", c.m.Text(c.m.Name), wrong.String())
	e.Data = wire.Object([]wire.Change{{Key: "code", Value: wire.AppendText(nil, e.Name)}, {Key: "retryable", Value: []byte("false")},
		{Key: "path", Value: wire.AppendText(nil, wrong.Path)}, {Key: "rule", Value: wire.AppendText(nil, wrong.Rule)}})
	return e
}

// log returns the notification of a log message, if the client wants those of its level. Data that is no JSON is a text.
func (c *call) log(of *providerpb.Log) (*wire.Message, error) {
	if c.level == 0 || of.GetLevel() < c.level {
		return nil, nil //nolint:nilnil // not wanted
	}
	b := wire.NewBuilder(nil)
	b.Text("level", levelName(of.GetLevel()))
	b.Some("logger", of.GetLogger())
	data, err := value(of.GetData(), "log.data")
	if err != nil {
		data = wire.AppendText(nil, of.GetData())
	}
	b.Add("data", data)
	return c.Notification("notifications/message", b.Done())
}

// read reads the resource of a call; asks says that it may ask the user.
func (c *call) read(asks bool) error {
	request := &providerpb.ReadResourceRequest{Uri: string(c.m.Text(c.m.URI)), Wants: c.wants(), Meta: c.meta()}
	if asks {
		return c.interact(&providerpb.InteractRequest{Message: &providerpb.InteractRequest_ReadResource{ReadResource: request}}, nil)
	}
	return c.step(readMethod, request, func(in proto.Message) (*wire.Message, error) {
		return c.contents(in.(*providerpb.ReadResourceResponse))
	})
}

// contents returns the response to resources/read.
func (c *call) contents(of *providerpb.ReadResourceResponse) (*wire.Message, error) {
	b := c.Begin(proto.Size(of)*4/3 + 256)
	b.Key("contents")
	b.Raw = append(b.Raw, '[')
	var err error
	for i, one := range of.GetContents() {
		if i > 0 {
			b.Raw = append(b.Raw, ',')
		}
		if b.Raw, err = appendContents(b.Raw, one); err != nil {
			return nil, err
		}
	}
	b.Raw = append(b.Raw, ']')
	addCaching(b, of.GetTtl(), of.GetShared())
	meta, err := object(of.GetMeta(), "meta")
	if err != nil {
		return nil, err
	}
	return c.Complete(b, meta)
}
