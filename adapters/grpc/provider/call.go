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
	content := &collected{most: c.u.opt.MaxResult}
	return c.step(callMethod, request, func(in proto.Message) (*wire.Message, error) {
		switch m := in.(*providerpb.CallToolResponse).GetMessage().(type) {
		case *providerpb.CallToolResponse_Progress:
			return c.Progress(m.Progress.GetProgress(), m.Progress.Total, m.Progress.GetMessage())
		case *providerpb.CallToolResponse_Log:
			return c.log(m.Log)
		case *providerpb.CallToolResponse_Content:
			return nil, content.add(m.Content)
		case *providerpb.CallToolResponse_Result:
			return c.toolResult(of, content, m.Result)
		}
		return nil, nil //nolint:nilnil // of a later version of the contract
	})
}

// collected is the content that a call has sent before its result, raw JSON items.
type collected struct {
	raw  []byte
	most int
}

func (c *collected) add(of *providerpb.Content) error {
	var err error
	if len(c.raw) > 0 {
		c.raw = append(c.raw, ',')
	}
	if c.raw, err = appendContent(c.raw, of); err == nil && len(c.raw) > c.most {
		err = proxy.Errf(proxy.ResponseTooLarge, "the content that the provider sends is more than limits.response_body allows (%d bytes)", c.most)
	}
	return err
}

// toolResult returns the response of a tool.
func (c *call) toolResult(of *tool, before *collected, result *providerpb.CallToolResult) (*wire.Message, error) {
	b := wire.NewBuilder(make([]byte, 0, len(before.raw)+proto.Size(result)+256))
	for _, one := range result.GetContent() {
		if err := before.add(one); err != nil {
			return nil, err
		}
	}
	text := result.GetStructuredContent()
	if len(before.raw) == 0 && text != "" { // for clients that read text only (2025-06-18 tools, Structured Content)
		reply.AddText(b, text)
	} else {
		b.Key("content")
		b.Raw = append(append(append(b.Raw, '['), before.raw...), ']')
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
	b := wire.NewBuilder(make([]byte, 0, proto.Size(of)*4/3+256))
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
